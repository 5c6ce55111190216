//! In which order the run that confirmed a leak created and freed what belongs to the leak's line: what
//! happened between two frees, or before the first one, often is the mistake.
//!
//! Nothing is said of a line unless everything that happened on it is known.

use rustc_hash::FxHashMap;

use super::input::{CheckInput, RunInput};
use super::siblings::{FreedSite, line};
use crate::ledger::{Anomaly, Kind, Record, StackId};
use crate::report::{Confirmation, Finding, Frame, Site};
use crate::units::listed;

/// How many creating and freeing calls are listed.
pub const MOST_IN_ORDER: usize = 12;
/// How long a list with places may be.
const LONGEST: usize = 170;

/// What the test itself is called.
const TEST: &str = "the test";

/// What a run has created and not freed.
pub(super) struct Order<'a> {
    run: &'a RunInput,
    left: Vec<&'a Record>,
    sites: FxHashMap<(StackId, Kind), Site>,
}

/// A call that created or freed one of the resources.
struct Step<'a> {
    /// When, in the order of the ledger's events; a free comes before the event after it.
    at: (u64, bool),
    is_free: bool,
    /// The number of the resource, from 1.
    number: usize,
    site: &'a Site,
}

impl<'a> Order<'a> {
    pub(super) fn of(run: &'a RunInput, input: &CheckInput) -> Self {
        let live = run.live.iter().map(|live| &live.record);
        let ended = run.anomalies.iter().filter_map(|it| match it {
            Anomaly::EndedWithContext { record, .. } => Some(record),
            _ => None,
        });
        let left = live.chain(ended).filter(|it| it.sequence >= run.began);
        let mut order = Self {
            run,
            left: left.collect(),
            sites: FxHashMap::default(),
        };
        for record in &order.left {
            let (stack, kind) = (record.made.caller.stack, record.made.kind);
            let site = order.sites.entry((stack, kind));
            site.or_insert_with(|| input.names.site(stack, kind));
        }
        order
    }

    /// Returns the order of a finding's line, on which these were freed.
    pub(super) fn of_line(
        &self,
        finding: &Finding,
        freed: &[&FreedSite<'_>],
        test: &str,
    ) -> Option<String> {
        let as_often = matches!(finding.confirmed, Some(Confirmation::Repeated { count, .. })
            if count == finding.count);
        let are_known = |it: &&FreedSite<'_>| it.freed.events.len() as u64 == it.freed.count;
        let are_few = finding.count < MOST_IN_ORDER as u64;
        if !as_often || !are_few || freed.is_empty() || !freed.iter().all(are_known) {
            return None;
        }
        let mut created = Vec::new();
        let mut stacks: FxHashMap<StackId, u64> = FxHashMap::default();
        for record in &self.left {
            let (stack, kind) = (record.made.caller.stack, record.made.kind);
            let site = &self.sites[&(stack, kind)];
            let is_alike = (record.made.layer, Some(kind)) == (finding.layer, finding.resource);
            if is_alike
                && site.user_frame().and_then(line) == finding.site.user_frame().and_then(line)
            {
                created.push((record.sequence, None, site));
                *stacks.entry(stack).or_default() += 1;
            }
        }
        for it in freed {
            *stacks.entry(it.freed.allocated).or_default() += it.freed.count;
            let events = it.freed.events.iter();
            created.extend(events.map(|(at, end)| (*at, Some((*end, &it.at)), &it.allocated)));
        }
        // The ledger has counted more where something is missing here.
        let is_all = |(stack, of_stack): (&StackId, &u64)| {
            let counted = self.run.allocations.get(stack);
            counted.is_none_or(|counted| counted == of_stack)
        };
        if !stacks.iter().all(is_all) {
            return None;
        }
        created.sort_unstable_by_key(|(at, ..)| *at);
        let mut steps = Vec::new();
        let mut left = Vec::new();
        for (number, (at, freed, site)) in (1..).zip(created) {
            let step = |at, is_free, site| Step {
                at,
                is_free,
                number,
                site,
            };
            steps.push(step((at, true), false, site));
            match freed {
                Some((end, site)) => steps.push(step((end, false), true, site)),
                None => left.push(number),
            }
        }
        steps.sort_by_key(|step| step.at);
        if steps.len() > MOST_IN_ORDER {
            return None;
        }
        let places = [false, true].map(|is_free| {
            let sites = steps.iter().filter(|step| step.is_free == is_free);
            let places = places(&sites.map(|step| step.site).collect::<Vec<_>>(), test);
            // Which of its lines led to a free says little of a test.
            places
                .filter(|(is_in_test, _)| !(is_free && *is_in_test))
                .map_or_else(Vec::new, |(_, places)| places)
        });
        let left = format!("; left: {}", numbers(&left));
        let text = sentence(&steps, &places, finding) + &left;
        Some(match text.chars().count() > LONGEST {
            true => sentence(&steps, &[Vec::new(), Vec::new()], finding) + &left,
            false => text,
        })
    }
}

/// For example `allocated #1 and #2 in Screen::new, #3 in Screen::present; freed #2`.
fn sentence(steps: &[Step<'_>], places: &[Vec<String>; 2], finding: &Finding) -> String {
    let (created, freed) = finding.verbs();
    let mut places = places.each_ref().map(|places| places.iter());
    let named = steps.iter().map(|step| {
        let place = places[usize::from(step.is_free)].next();
        (step.is_free, place, step.number)
    });
    let named: Vec<_> = named.collect();
    let phases = named.chunk_by(|(before, ..), (after, ..)| before == after);
    let phases = phases.map(|phase| {
        let parts = phase.chunk_by(|(_, before, _), (_, after, _)| before == after);
        let parts = parts.map(|part| {
            let numbers = numbers(&part.iter().map(|(.., number)| *number).collect::<Vec<_>>());
            match part[0].1 {
                Some(place) => format!("{numbers} {place}"),
                None => numbers,
            }
        });
        let parts: Vec<_> = parts.collect();
        let verb = if phase[0].0 { freed } else { created };
        format!("{verb} {}", parts.join(", "))
    });
    phases.collect::<Vec<_>>().join("; ")
}

/// Returns the place of each of these sites by which they differ, the innermost such: `in Screen::new`, or `at
/// line 12` in one function; and whether that function is the test. Returns `None` if they have the same lines.
fn places(sites: &[&Site], test: &str) -> Option<(bool, Vec<String>)> {
    let frames = |depth: usize| -> Vec<Option<&Frame>> {
        let frames = sites.iter().map(|site| site.users_frames().nth(depth));
        frames.collect()
    };
    let depths = (0..).map(frames);
    let mut known = depths.take_while(|frames| frames.iter().any(Option::is_some));
    let differ = |frames: &Vec<Option<&Frame>>| {
        let mut lines = frames.iter().map(|frame| frame.and_then(line));
        let first = lines.next();
        lines.any(|line| Some(line) != first)
    };
    let frames = known.find(differ)?;
    let function = |frame: &Option<&Frame>| match frame.filter(|it| !it.is_of_test(test)) {
        Some(frame) => frame.short_function().unwrap_or_else(|| frame.shown()),
        None => TEST.to_owned(),
    };
    let functions: Vec<_> = frames.iter().map(function).collect();
    let is_one = functions.iter().all(|function| *function == functions[0]);
    let place = |(function, frame): (&String, &Option<&Frame>)| match frame.and_then(|it| it.line) {
        Some(line) if is_one => format!("at line {line}"),
        _ => format!("in {function}"),
    };
    let places = functions.iter().zip(&frames).map(place).collect();
    Some((is_one && functions[0] == TEST, places))
}

/// For example `#1, #2 and #5 to #7`.
fn numbers(of: &[usize]) -> String {
    let runs = of.chunk_by(|before, after| before + 1 == *after);
    let runs = runs.flat_map(|run| match run {
        [first, .., last] if run.len() > 2 => vec![format!("#{first} to #{last}")],
        run => run.iter().map(|number| format!("#{number}")).collect(),
    });
    listed(&runs.collect::<Vec<_>>())
}
