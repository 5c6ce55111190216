//! The expected result of every check of a program, computed only from what the program did.
//!
//! The model follows the documented rules, not the harness's code. It identifies each block that a
//! session leaves. If the body runs again, only two things are leaks: blocks that were left at one
//! call site in two runs, one of them the last; and blocks that each of three runs left in one
//! place of one allocator. A tolerance applies to each run separately. With rounds, only an
//! increase in every round is a finding, and a tolerance applies to the sum of the increases. A sum
//! that something else may have changed has no owner, and a check that covers such a sum is never
//! clean. The sessions around a nested check count only its first run.

mod comparison;
mod further_runs;
mod rounds;
mod runs;

use std::collections::{BTreeMap, BTreeSet};

use gpu_leak_check::report::check_report::{Confirmation, Finding, FindingKind, Report};

use super::allocators::{Allocator, Sum};
use super::sites;
use super::trace::{Block, Kind, Owner, Reserved, Run, Session, Tick, Trace};

/// Returns the errors in the harness's reports about a program.
pub(super) fn violations(trace: &Trace) -> Vec<String> {
    let mut all = Vec::new();
    for number in 0..trace.sessions.len() {
        let of_session = session_violations(trace, number);
        let name = format!("s{number} ({:?})", trace.sessions[number].kind);
        all.extend(of_session.into_iter().map(|what| format!("{name}: {what}")));
    }
    all
}

/// A number of blocks, and their total size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    count: u64,
    bytes: u64,
}

impl Amount {
    const fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }

    const fn is_zero(self) -> bool {
        self.count == 0
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// An allocator and one of its places.
type Class = (Allocator, u8);

/// A layer and a place. A tolerance applies to each such pair.
type Layer = (&'static str, String);

/// The blocks that the runs of a session left behind at one call site.
#[derive(Clone, Debug, Default)]
struct Group {
    /// For each run, the amount that was live at its end.
    left: Vec<Amount>,
    /// For each run, the amount that was still live at the end of the last run.
    kept: Vec<Amount>,
    /// After each run, the amount from this run and all earlier runs that was still live.
    level: Vec<Amount>,
    /// Whether a nested check failed because of some of these blocks and so ended a run.
    is_settled: bool,
}

impl Group {
    fn new(runs: usize) -> Self {
        Self {
            left: vec![Amount::default(); runs],
            kept: vec![Amount::default(); runs],
            level: vec![Amount::default(); runs],
            is_settled: false,
        }
    }

    /// For each run, the bytes that are sure to repeat: the minimum over all runs with leaks.
    fn repeated(&self) -> Vec<u64> {
        let least = self
            .kept
            .iter()
            .filter(|kept| !kept.is_zero())
            .map(|kept| kept.bytes)
            .min();
        let of_run = |kept: &Amount| kept.bytes.min(least.unwrap_or(0));
        self.kept.iter().map(of_run).collect()
    }

    /// Whether at least two runs, including the last, left some of these blocks for good.
    fn repeats(&self) -> bool {
        repeats(
            &self
                .kept
                .iter()
                .map(|kept| !kept.is_zero())
                .collect::<Vec<_>>(),
        )
    }

    fn is_left(&self) -> bool {
        self.left.iter().any(|left| !left.is_zero())
    }

    fn is_kept(&self) -> bool {
        self.kept.iter().any(|kept| !kept.is_zero())
    }
}

/// Whether a property repeats: at least two runs have it, including the last.
fn repeats(in_runs: &[bool]) -> bool {
    in_runs.iter().filter(|it| **it).count() >= 2 && in_runs.last() == Some(&true)
}

fn gains(levels: impl IntoIterator<Item = Amount>) -> bool {
    let mut before = Amount::default();
    levels.into_iter().all(|level| {
        let was = std::mem::replace(&mut before, level);
        level.count > was.count || level.bytes > was.bytes
    })
}

/// A session in the model.
struct View<'a> {
    trace: &'a Trace,
    number: usize,
    session: &'a Session,
    /// The runs that count. A run after the first one does not count if it panicked.
    judged: Vec<&'a Run>,
    runs: usize,
    /// Whether a run after the first panicked.
    could_not_repeat: bool,
    rounds: u32,
    /// Whether the check runs the body again to confirm what the first run left.
    confirms: bool,
    /// Whether this is part of a run that only confirms, and leaves its findings to the surrounding
    /// check.
    is_confirming: bool,
    groups: BTreeMap<(Class, u8), Group>,
    allowed: BTreeMap<(Class, u8), Group>,
    /// For each sum, its increase in each run.
    sums: Vec<(Sum, Vec<u64>)>,
    /// The increase in the pool's reserve in each run, without segments that contain a block.
    reserve: Vec<u64>,
    is_ambiguous: bool,
    /// Whether a thread of a surrounding check changed a sum or a reserve during a judged run.
    /// Neither check knows the owner of the change, so the outer one judges it.
    is_mixed: bool,
}

fn session_violations(trace: &Trace, number: usize) -> Vec<String> {
    let session = &trace.sessions[number];
    let Some(view) = View::of(trace, number) else {
        // There is no report of a warm-up run that panicked, or of a scope that was never finished.
        return Vec::new();
    };
    let Some(report) = &session.report else {
        if session.kind == Kind::Scope {
            return Vec::new();
        }
        return vec!["no report".to_owned()];
    };
    let mut wrong = Vec::new();
    view.check_runs(&mut wrong);
    let expected = view.expected();
    view.check_outcome(&expected, report, &mut wrong);
    view.check_status(&expected, report, &mut wrong);
    view.check_left(&expected, report, &mut wrong);
    view.check_findings(report, &mut wrong);
    if !wrong.is_empty() {
        wrong.push(format!("its report: {}", summary(report)));
    }
    wrong
}

/// Formats a report as one line.
fn summary(report: &Report) -> String {
    let findings: Vec<_> = (report.findings.iter())
        .map(|finding| {
            let site = site_of(finding).map_or("-".to_owned(), |site| site.to_string());
            format!(
                "{} {} × {} B of {} on {} at {site}",
                finding.kind.name(),
                finding.count,
                finding.bytes,
                finding.layer,
                finding.place
            )
        })
        .collect();
    let reason = report.reason.as_ref().map(|reason| reason.code.name());
    format!(
        "{} {reason:?} {findings:?} {:?}",
        report.status.name(),
        report.notes
    )
}

fn site_of(finding: &Finding) -> Option<u8> {
    let functions = finding
        .site
        .frames
        .iter()
        .filter_map(|frame| frame.function.as_deref());
    functions.into_iter().find_map(sites::of_function)
}

/// Returns the findings that made a session fail.
fn findings_of(session: &Session) -> impl Iterator<Item = &Finding> {
    let findings = session.report.iter().flat_map(|report| &report.findings);
    findings.filter(|finding| finding.kind.is_failure())
}

fn is_of(finding: &Finding, (allocator, place): Class) -> bool {
    finding.layer.to_string() == allocator.layer() && finding.place == allocator.place(place)
}

/// Whether the finding is about this sum, which only a probe knows.
fn is_of_sum(finding: &Finding, sum: Sum) -> bool {
    let (layer, place) = layer_of_sum(sum);
    let is_there = finding.layer.to_string() == layer && finding.place.to_string() == place;
    is_there && site_of(finding).is_none()
}

fn is_of_three_runs(finding: &Finding) -> bool {
    finding
        .confirmed
        .as_ref()
        .is_some_and(|confirmed| matches!(confirmed, Confirmation::Repeated { of: 3, .. }))
}

fn layer((allocator, place): Class) -> Layer {
    (allocator.layer(), allocator.place(place).to_string())
}

fn layer_of_sum(sum: Sum) -> Layer {
    (sum.layer(), sum.place().to_string())
}

impl<'a> View<'a> {
    fn of(trace: &'a Trace, number: usize) -> Option<Self> {
        let session = &trace.sessions[number];
        let all: Vec<&Run> = session.runs.iter().map(|run| &trace.runs[*run]).collect();
        let (first, further) = all.split_first()?;
        let valid = further.iter().take_while(|run| !run.panicked);
        let judged: Vec<&Run> = std::iter::once(*first).chain(valid.copied()).collect();
        let is_confirming = is_confirming(trace, session);
        let mut view = Self {
            could_not_repeat: judged.len() != all.len(),
            runs: all.len(),
            judged,
            trace,
            number,
            session,
            rounds: session.settings.rounds,
            confirms: session.settings.confirm && !is_confirming,
            is_confirming: is_confirming && session.settings.confirm,
            groups: BTreeMap::new(),
            allowed: BTreeMap::new(),
            sums: Vec::new(),
            reserve: Vec::new(),
            is_ambiguous: false,
            is_mixed: false,
        };
        view.is_mixed = view.is_mixed();
        view.add_blocks();
        view.sums = Sum::ALL
            .iter()
            .map(|sum| (*sum, view.rises(*sum)))
            .collect();
        view.reserve = view.unexplained();
        Some(view)
    }

    fn end(&self, run: usize) -> Tick {
        self.judged[run].ended.expect("the program is over")
    }

    fn began(&self, run: usize) -> Tick {
        self.judged[run].began
    }

    /// Returns the judged run of this check in which the block was allocated, if there is one.
    fn run_of(&self, block: &Block) -> Option<usize> {
        match block.owner {
            Owner::Run(owner) => {
                let own = self.trace.run_of(self.number, owner)?;
                let run = self.session.runs.iter().position(|run| *run == own)?;
                (run < self.judged.len()).then_some(run)
            }
            // If no other test can run, the block belongs to the check.
            Owner::Nobody if !self.trace.has_neighbour => {
                (0..self.judged.len()).find(|run| self.is_in(*run, block.made))
            }
            Owner::Nobody | Owner::Neighbour => None,
        }
    }

    fn is_in(&self, run: usize, at: Tick) -> bool {
        self.began(run) < at && at < self.end(run)
    }

    fn add_blocks(&mut self) {
        let runs = self.judged.len();
        let settled: Vec<&Finding> = self.settled_by().flat_map(findings_of).collect();
        let left_again = self.left_again();
        for (number, block) in self.trace.blocks.iter().enumerate() {
            let Some(run) = self.run_of(block).filter(|_| !left_again.contains(&number)) else {
                continue;
            };
            if let Some(freed) = block.ambiguous {
                let is_of_run = |run| self.is_in(run, freed) && !self.is_in_further_run(run, freed);
                self.is_ambiguous |= (0..runs).any(is_of_run);
                continue;
            }
            let ends: Vec<Tick> = (0..runs).map(|run| self.end(run)).collect();
            let remains = |end: Tick| {
                let is_live = block.freed.is_none_or(|freed| freed > end);
                is_live
                    && block
                        .handed_over
                        .is_none_or(|handed_over| handed_over > end)
            };
            let key = ((block.allocator, block.place), block.site);
            let groups = if block.is_allowed {
                &mut self.allowed
            } else {
                &mut self.groups
            };
            let group = groups.entry(key).or_insert_with(|| Group::new(runs));
            group.is_settled |= settled.iter().any(|finding| {
                let is_here = is_of(finding, key.0);
                // A finding that is confirmed by layer, place and kind also covers other call
                // sites.
                let is_of_class = finding.kind == FindingKind::Grew || is_of_three_runs(finding);
                is_here && (is_of_class || site_of(finding) == Some(block.site))
            });
            if remains(ends[run]) {
                group.left[run].add(block.bytes);
            }
            if remains(ends[runs - 1]) {
                group.kept[run].add(block.bytes);
            }
            for (level, end) in group.level.iter_mut().zip(&ends).skip(run) {
                if remains(*end) {
                    level.add(block.bytes);
                }
            }
        }
    }

    /// Returns the nested checks whose failure ended the first run.
    fn settled_by(&self) -> impl Iterator<Item = &'a Session> {
        let inner = self.inside().filter(|inner| self.may_have_ended_by(inner));
        inner.filter(|_| self.judged[0].panicked)
    }

    /// Whether the panic of this nested check may have ended the first run, because nothing in
    /// between caught it.
    fn may_have_ended_by(&self, inner: &Session) -> bool {
        let mut session = inner;
        loop {
            if !session.panicked || session.is_caught {
                return false;
            }
            let Some(run) = session.parent else {
                return false;
            };
            if self.trace.runs[run].session == self.number {
                return true;
            }
            session = self.trace.session_of(run);
        }
    }

    /// Returns the sessions inside this one.
    fn inside(&self) -> impl Iterator<Item = &'a Session> {
        let (trace, number) = (self.trace, self.number);
        let all = trace.sessions.iter().skip(number + 1);
        all.filter(move |inner| {
            let parent = inner.parent.and_then(|parent| trace.run_of(number, parent));
            parent.is_some()
        })
    }

    fn is_mixed(&self) -> bool {
        let sum_changes = self.trace.sum_changes.iter().map(|it| (it.by, it.at));
        let segments = self.trace.segments.iter().map(|it| (it.by, it.at));
        sum_changes.chain(segments).any(|(by, at)| {
            let is_inside = (0..self.judged.len()).any(|run| self.is_in(run, at));
            let is_others = |run| self.trace.run_of(self.number, run).is_none();
            is_inside && matches!(by, Owner::Run(run) if is_others(run))
        })
    }

    fn rises(&self, sum: Sum) -> Vec<u64> {
        // If a nested check of the first run failed because of a change, the change is not reported
        // again. The nested check's report has the figure of one run, although the check may have
        // made several runs.
        let settled: Vec<&Session> = (self.settled_by())
            .filter(|inner| findings_of(inner).any(|finding| is_of_sum(finding, sum)))
            .collect();
        let is_settled = |at: Tick| {
            let mut runs = settled.iter().flat_map(|inner| &inner.runs);
            runs.any(|run| {
                let run = &self.trace.runs[*run];
                run.began < at && run.ended.is_none_or(|ended| at <= ended)
            })
        };
        let rise = |run| {
            let sum_changes = self.trace.sum_changes.iter();
            let sum_changes = sum_changes.filter(|it| it.sum == sum && self.is_in(run, it.at));
            let sum_changes = sum_changes.filter(|it| !is_settled(it.at));
            let rise = u64::try_from(sum_changes.map(|it| it.bytes).sum::<i64>()).unwrap_or(0);
            rise.saturating_sub(self.raised_again(sum, run, |at| !is_settled(at)))
        };
        (0..self.judged.len()).map(rise).collect()
    }

    fn unexplained(&self) -> Vec<u64> {
        let runs = 0..self.judged.len();
        if self.trace.has_neighbour || self.is_mixed {
            return runs.map(|_| 0).collect();
        }
        let left_again = self.left_again();
        let is_used = |segment: &Reserved, end: Tick| {
            let range = segment.address..segment.address + segment.bytes;
            let mut blocks = self.trace.blocks.iter().enumerate();
            blocks.any(|(number, block)| {
                let is_live = block.made < end && block.freed.is_none_or(|freed| freed > end);
                range.contains(&block.address) && is_live && !left_again.contains(&number)
            })
        };
        let rise = |run| {
            let segments = self.trace.segments.iter();
            let new = segments.filter(|segment| self.is_in(run, segment.at));
            let unused = new.filter(|segment| !is_used(segment, self.end(run)));
            let bytes: u64 = unused.map(|segment| segment.bytes).sum();
            bytes.saturating_sub(self.reserved_again(run))
        };
        let mut rises: Vec<u64> = runs.map(rise).collect();
        let sum: u64 = rises.iter().sum();
        for rise in &mut rises {
            let reached = if self.rounds > 1 { sum } else { *rise };
            if reached <= self.session.settings.reserved_tolerance {
                *rise = 0;
            }
        }
        rises
    }

    /// Whether the session ended with a panic of its body or of a nested check.
    fn body_failed(&self) -> bool {
        let decides = |run: &usize| self.trace.runs[*run].panicked;
        match self.rounds > 1 {
            true => self.session.runs.iter().any(decides),
            false => self.judged[0].panicked,
        }
    }
}

/// Whether a session is part of a run that only confirms what an earlier one left.
fn is_confirming(trace: &Trace, session: &Session) -> bool {
    let mut around = session.parent;
    while let Some(run) = around {
        let outer = trace.session_of(run);
        let further = outer
            .runs
            .iter()
            .position(|it| *it == run)
            .is_some_and(|at| at > 0);
        if further && outer.settings.rounds <= 1 {
            return true;
        }
        around = outer.parent;
    }
    false
}

/// The bytes that the runs of a session leaked in one layer and one place.
struct Lost {
    /// For each run, the minimum number of bytes that are confirmed at call sites.
    least: Vec<u64>,
    /// For each run, all bytes that it left for good at the call sites of a leak.
    most: Vec<u64>,
    /// The bytes of one-time set-up.
    once: u64,
    /// Whether each of three runs left something, at any call site.
    is_in_all: bool,
    /// Whether any of these bytes are a leak.
    is_confirmed: bool,
}

impl Lost {
    fn new(runs: usize) -> Self {
        Self {
            least: vec![0; runs],
            most: vec![0; runs],
            once: 0,
            is_in_all: false,
            is_confirmed: false,
        }
    }

    fn add(&mut self, bytes: Vec<u64>) {
        for (sum, bytes) in self.least.iter_mut().zip(bytes) {
            *sum += bytes;
        }
    }
}

/// The expected result of a session.
#[derive(Default)]
struct Expected {
    /// The reason why the session must fail, if it must.
    must_fail: Option<String>,
    /// Whether the session may either fail or pass.
    may_fail: bool,
    /// The reason why the session must be inconclusive unless it fails.
    inconclusive: Option<&'static str>,
    /// Places whose leaks are within the tolerance, and may be omitted from the report.
    tolerated: BTreeSet<Layer>,
    /// Places whose one-time set-up is also within the tolerance.
    tolerated_once: BTreeSet<Layer>,
    /// The allocators and places where a leak at one call site explains what the runs left at other
    /// call sites. The report may omit the latter.
    confirmed: BTreeSet<Class>,
}

impl Expected {
    /// Whether the group may be omitted because it is within the tolerance.
    fn may_be_silent(&self, class: Class, group: &Group) -> bool {
        let layer = &layer(class);
        if self.confirmed.contains(&class) && self.tolerated.contains(layer) {
            return true;
        }
        match group.kept.len() == 1 || group.repeats() {
            true => self.tolerated.contains(layer),
            // If a later run freed the memory, the report must say so.
            false => self.tolerated_once.contains(layer) && group.left == group.kept,
        }
    }
}

impl View<'_> {
    /// Returns the sums that nothing else can have changed.
    fn judged_sums(&self) -> impl Iterator<Item = (Sum, &[u64])> {
        let sums = self
            .sums
            .iter()
            .filter(|_| !self.trace.has_neighbour && !self.is_mixed);
        sums.map(|(sum, rises)| (*sum, &rises[..]))
    }

    fn expected(&self) -> Expected {
        let mut expected = Expected::default();
        match self.rounds > 1 {
            true => self.expect_of_rounds(&mut expected),
            false => self.expect_of_runs(&mut expected),
        }
        let most = |rises: &[u64]| rises.iter().max().copied().unwrap_or(0);
        let tolerance = self.session.settings.tolerance;
        if self.trace.has_neighbour && self.sums.iter().any(|(_, rises)| most(rises) > tolerance) {
            expected.inconclusive = Some("something else may have changed a sum");
        }
        expected.may_fail |= self.is_mixed;
        if self.is_ambiguous {
            expected.inconclusive = Some("a free may have meant either of two places");
        }
        if self.could_not_repeat && self.rounds <= 1 && self.judged.len() == 1 {
            if expected.must_fail.take().is_some() {
                expected.inconclusive = Some("the body could not be repeated");
            }
            expected.may_fail = false;
        }
        if self.could_not_repeat
            && self.rounds <= 1
            && self.judged.len() == 2
            && self.is_undecided()
        {
            expected.inconclusive = Some("the run that was to decide ended differently");
        }
        expected
    }
}
