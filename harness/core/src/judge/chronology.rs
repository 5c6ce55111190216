//! Finds the order in which the resources of a leak's line were created and freed in the run that
//! confirmed the leak. The mistake is often between two frees, or before the first one. A line is
//! described only if everything that happened on it is known.

use std::collections::BTreeMap;

use super::input::{CheckInput, RunInput};
use super::passages::{FreedSite, line};
use crate::ledger::{Anomaly, StackId};
use crate::report::{Confirmation, Finding, Site, name, without_modules};
use crate::units::{listed, size};

/// The largest number of calls that are listed.
pub const MOST_IN_ORDER: usize = 12;
/// If a run left this many resources or more, the order on a line is not determined.
const MOST_LEFT: usize = 1000;

/// A resource that was created on the line.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Created {
    /// The sequence number of the event that created it.
    at: u64,
    /// The sequence number of the event after its free, if it was freed.
    until: Option<u64>,
    /// The functions on the stack of the call that created it, innermost first.
    callers: Vec<String>,
    bytes: u64,
}

/// Returns the order in which `run` allocated the resources of a finding's line and freed some of
/// them, which `freed` lists. Also returns which event created the first resource that is left.
pub(super) fn of_line(
    finding: &Finding,
    freed: &[&FreedSite<'_>],
    run: &RunInput,
    input: &CheckInput,
) -> Option<(String, u64)> {
    let as_often = matches!(finding.confirmed, Some(Confirmation::Repeated { count, .. })
        if count == finding.count);
    let are_known = |it: &&FreedSite<'_>| it.freed.events.len() as u64 == it.freed.count;
    if !as_often || freed.is_empty() || !freed.iter().all(are_known) {
        return None;
    }
    let live = run.live.iter().map(|live| &live.record);
    let ended = run.anomalies.iter().filter_map(Anomaly::ended);
    let left = live.chain(ended).filter(|it| {
        let class = (it.made.layer, Some(it.made.kind));
        it.sequence >= run.began && class == (finding.layer, finding.resource)
    });
    let left: Vec<_> = left.take(MOST_LEFT).collect();
    if left.len() == MOST_LEFT {
        return None;
    }
    let mut all: Vec<Created> = Vec::new();
    let mut stacks: BTreeMap<StackId, u64> = BTreeMap::new();
    let functions = |site: &Site| {
        let inside = site.users_frames();
        let inside = inside.take_while(|it| !it.is_of_test(&input.subject.test));
        inside.map(name).collect()
    };
    let of_finding = finding.site.user_frame().and_then(line);
    for record in left {
        let stack = record.made.caller.stack;
        let site = input.names.site(stack, record.made.kind);
        if site.user_frame().and_then(line) == of_finding {
            all.push(Created {
                at: record.sequence,
                until: None,
                callers: functions(&site),
                bytes: record.made.bytes,
            });
            *stacks.entry(stack).or_default() += 1;
        }
    }
    for it in freed {
        let events = it.freed.events.iter();
        all.extend(events.map(|(at, until, bytes)| Created {
            at: *at,
            until: Some(*until),
            callers: functions(&it.allocated),
            bytes: *bytes,
        }));
        *stacks.entry(it.freed.allocated).or_default() += it.freed.count;
    }
    // If the ledger counted more allocations, some of them are missing here.
    let is_all = |(stack, count): (&StackId, &u64)| {
        run.allocations
            .get(stack)
            .is_none_or(|counted| counted == count)
    };
    if all.len() > MOST_IN_ORDER || !stacks.iter().all(is_all) {
        return None;
    }
    all.sort_unstable();
    // The resources are distinguished by the innermost function in which their callers differ.
    let depths = 0..all.iter().map(|it| it.callers.len()).max()?;
    let differs = |it: &Created, at: usize| it.callers.get(at) != all[0].callers.get(at);
    let mut differing = depths.filter(|at| all.iter().any(|it| differs(it, *at)));
    let depth = differing.next();
    let mut steps = Vec::new();
    let mut left = Vec::new();
    let (created_verb, freed_verb) = finding.verbs();
    let are_sized = all.iter().any(|it| it.bytes != all[0].bytes);
    for (number, it) in (1..).zip(&all) {
        let of_size = match are_sized {
            true => format!(" of {}", size(it.bytes)),
            false => String::new(),
        };
        let function = depth.map_or_else(String::new, |at| {
            let caller = it.callers.get(at).map(|it| without_modules(it));
            format!(" in {}", caller.as_deref().unwrap_or("the test"))
        });
        steps.push(((it.at, 1), created_verb, of_size + &function, number));
        match it.until {
            // The free came before the event with the sequence number `until`.
            Some(until) => steps.push(((until, 0), freed_verb, String::new(), number)),
            None => left.push(number),
        }
    }
    steps.sort_unstable();
    let mut phases = String::new();
    for phase in steps.chunk_by(|before, after| before.1 == after.1) {
        let parts = phase.chunk_by(|before, after| before.2 == after.2);
        let parts = parts.map(|part| {
            let of_part: Vec<usize> = part.iter().map(|it| it.3).collect();
            numbers(&of_part) + &part[0].2
        });
        phases += &format!("{} {}; ", phase[0].1, parts.collect::<Vec<_>>().join(", "));
    }
    let first = all.iter().find(|it| it.until.is_none())?.at;
    let text = format!("{phases}left: {}", numbers(&left));
    (steps.len() <= MOST_IN_ORDER).then_some((text, first))
}

/// Returns, for example, `#1, #2 and #5 to #7`.
fn numbers(of: &[usize]) -> String {
    let runs = of.chunk_by(|before, after| before + 1 == *after);
    let runs = runs.flat_map(|run| match run {
        [first, _, .., last] => vec![format!("#{first} to #{last}")],
        run => run.iter().map(|number| format!("#{number}")).collect(),
    });
    listed(&runs.collect::<Vec<_>>())
}
