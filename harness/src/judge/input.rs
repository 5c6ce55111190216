//! Everything that the judgement of one check looks at, as data.
//!
//! A session collects it, a recording keeps it, and [`judge`](super::judge) is a function of it:
//! what a check came to can be worked out again from this alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::budget::{Budget, UsageOverBudget};
use super::segments::SegmentMap;
use super::trend::Trend;
use super::usage::{Amount, LayerName, Usage};
use crate::allow::{Date, Suppression};
use crate::device::contexts::DeviceName;
use crate::device::quiesce::Poisoned;
use crate::ledger::event::{CuResult, Key, ThreadNumber};
use crate::ledger::{Anomaly, Holding, Kind, Place, Record, ScopeId, StackId};
use crate::options::Expect;
use crate::report::allocators::{self, Allocator};
use crate::report::model::{AllowedBy, Frame, PrimaryKept, Reason, Site, TimelineRun};
use crate::report::{is_cudas_own_frames, site_of};

/// One check, from its first baseline to the end of its last run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CheckInput {
    /// What is checked.
    pub(crate) subject: Subject,
    /// What the test states about itself.
    pub(crate) facts: Facts,
    /// The runs of the body, in their order; at least one.
    pub(crate) runs: Vec<RunInput>,
    /// Why the driver's calls could not be seen, if they could not.
    pub(crate) untraced: Option<Untraced>,
    /// Of a whole program, what its snapshots have shown.
    #[serde(default)]
    pub(crate) trend: Option<Trend>,
    /// What stacks, devices, threads and errors are called.
    pub(crate) names: NameTable,
    /// The day, for suppressions that expire.
    pub(crate) today: Date,
}

/// What a check is called and where it stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The test's name as libtest prints it, or the name of a block or program.
    pub(crate) test: String,
    /// The file in which the check stands.
    pub(crate) file: String,
    /// The line, from 1; 0 for a program that was watched from outside.
    pub(crate) line: u32,
    /// The column, from 1.
    pub(crate) column: u32,
    /// The command that runs this check alone.
    pub(crate) again: Option<String>,
}

/// What a test states about itself, by its attribute and the configuration file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// Bytes that may stay allocated, per device and layer, inclusive.
    pub(crate) tolerance: u64,
    /// Bytes that may stay reserved, per device and layer, inclusive.
    pub(crate) reserved_tolerance: u64,
    /// Limits of what the test itself creates.
    pub(crate) budget: Budget,
    /// How often the body runs to see what grows; 1: it is judged by what it leaves.
    pub(crate) rounds: u32,
    /// Whether findings need a second run to be believed.
    pub(crate) confirm: bool,
    /// What the test is to leave, exactly.
    pub(crate) expect: Option<Expect>,
    /// What may stay.
    pub(crate) suppressions: Vec<Suppression>,
    /// Whether the check is a whole program that was watched from outside: nothing ran before it
    /// and nothing comes after it, so what libraries keep for the process is no leak.
    pub(crate) whole_program: bool,
}

/// One run of the body, between its baseline and its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RunInput {
    /// The scope that the body had.
    pub(crate) scope: ScopeId,
    /// When the run began, in the order of the ledger's events.
    pub(crate) began: u64,
    /// When the body had ended.
    pub(crate) ended: u64,
    /// How many allocating and freeing calls there were while the body ran; none in recordings of
    /// older releases where threads made some of them at once.
    pub(crate) calls: Option<u64>,
    /// Whether the body ended as it should.
    pub(crate) as_expected: bool,
    /// Every figure before the body.
    pub(crate) baseline: Usage,
    /// Every figure after it, once everything was given back that can be.
    pub(crate) end: Usage,
    /// What is live at the end and was created since the check's first run began.
    pub(crate) live: Vec<LiveRecord>,
    /// What happened beside the coming and going of records.
    pub(crate) anomalies: Vec<Anomaly>,
    /// What the run freed that a failing free was about, in runs that keep note of it.
    #[serde(default)]
    pub(crate) freed_before: Vec<Freed>,
    /// How often the stacks of what is live allocated during the run.
    #[serde(with = "pairs")]
    pub(crate) allocations: BTreeMap<StackId, u64>,
    /// The budgets that the run exceeded.
    pub(crate) over_budget: Vec<UsageOverBudget>,
    /// The ranges that probed allocators held before the body.
    #[serde(default)]
    pub(crate) segments_before: SegmentMap,
    /// The ranges that probed allocators hold.
    pub(crate) segments: SegmentMap,
    /// The allocators that have a probe.
    pub(crate) probed: Vec<String>,
    /// What holds the physical memory that is live.
    #[serde(with = "pairs")]
    pub(crate) holdings: BTreeMap<Key, Holding>,
    /// Sums for which a check inside this one failed already.
    pub(crate) failed_inside: Vec<FailedSum>,
    /// Who else was at work in the process.
    pub(crate) others: Others,
    /// What nobody can be charged with.
    pub(crate) owner_unknown: Amount,
    /// What was allocated before the run and freed inside it.
    pub(crate) freed_earlier: Amount,
    /// What the run handed over to others.
    pub(crate) handed_over: Amount,
    /// A context that failed before the body began.
    pub(crate) broken_before: Option<Poisoned>,
    /// A context that failed while it ran.
    pub(crate) broken_inside: Option<Poisoned>,
    /// Primary contexts that the body retained more often than it released them.
    pub(crate) primaries: Vec<PrimaryKept>,
    /// Threads of the run that had not ended.
    pub(crate) threads_running: u64,
    /// Whether any source reported anything.
    pub(crate) saw_events: bool,
    /// How usage moved.
    pub(crate) timeline: TimelineRun,
}

/// A record that the run freed, and where.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Freed {
    /// The record.
    pub(crate) record: Record,
    /// The stack of the call that freed it.
    pub(crate) stack: StackId,
}

/// A record that is live at the end of a run, and whose it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LiveRecord {
    /// The record.
    #[serde(flatten)]
    pub(crate) record: Record,
    /// Whose it is.
    pub(crate) owner: Ownership,
}

/// Whose a record is, as seen by the check that found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ownership {
    /// The check's own.
    Session,
    /// Created by a thread outside every scope while nothing but the check could run.
    Foreign(ThreadNumber),
    /// The check's own, and it may stay: the code that created it, or a check inside this one, says
    /// so of this very object.
    Allowed(AllowedBy),
    /// Created by the check and another's to free since.
    HandedOver,
    /// Of another check, such as the one around this one: it explains what an allocator keeps, and
    /// nothing else.
    Another,
}

/// Who else may have been at work in the process during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Others {
    /// Whether another check ran at the same time.
    pub(crate) checks: bool,
    /// Whether anything else could run: an unchecked test, a thread that an earlier test left.
    pub(crate) anything: bool,
    /// Whether something outside every scope allocated or freed meanwhile.
    pub(crate) seen: bool,
}

impl Others {
    /// Whether a sum that rose may be another's: sums have no owner.
    pub(crate) const fn may_have_moved_sums(self) -> bool {
        self.checks || self.anything
    }
}

/// A sum that rose and for which a check inside this one has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailedSum {
    /// Whose sum.
    pub(crate) layer: LayerName,
    /// Where.
    pub(crate) place: Place,
    /// Allocated bytes.
    pub(crate) allocated: u64,
    /// Reserved bytes.
    pub(crate) reserved: u64,
}

/// Why the driver's calls could not be seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Untraced {
    /// Whether they were seen at first: what followed says nothing then.
    pub(crate) lost: bool,
    /// Why, and what to do.
    pub(crate) reason: Reason,
    /// Whether there was anything to see: the program uses the driver.
    pub(crate) driver_in_use: bool,
}

/// What things are called.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NameTable {
    /// The frames of each stack that a judgement may ask for.
    #[serde(with = "pairs")]
    pub(crate) frames: BTreeMap<StackId, Vec<Frame>>,
    /// The names of CUDA devices.
    pub(crate) devices: Vec<(Place, DeviceName)>,
    /// How many threads each device runs at once.
    pub(crate) resident_threads: Vec<(Place, u64)>,
    /// The driver's names of errors.
    pub(crate) errors: Vec<(CuResult, String)>,
    /// The names of threads.
    pub(crate) threads: Vec<(ThreadNumber, String)>,
    /// The test that broke a context.
    pub(crate) broken_by: Option<String>,
    /// Whether another process is seen to use CUDA.
    pub(crate) other_processes: bool,
}

impl NameTable {
    /// The frames of a stack; none where nobody thought that they would be asked for.
    fn frames(&self, stack: StackId) -> &[Frame] {
        self.frames.get(&stack).map_or(&[], Vec::as_slice)
    }

    /// The call site of a stack at which something of `kind` was allocated or freed.
    pub(crate) fn site(&self, stack: StackId, kind: Kind) -> Site {
        site_of(self.frames(stack).to_vec(), kind)
    }

    /// Whether one of CUDA's own libraries made the call, not the program.
    pub(crate) fn is_cudas_own(&self, stack: StackId) -> bool {
        is_cudas_own_frames(self.frames(stack))
    }

    /// The known caching allocator through which memory was allocated at this stack.
    pub(crate) fn allocator(&self, stack: StackId) -> Option<&'static Allocator> {
        allocators::of(self.frames(stack))
    }

    /// The name of a device.
    pub(crate) fn device(&self, place: Place) -> Option<&DeviceName> {
        answer(&self.devices, &place)
    }

    /// How many threads the device at `place` runs at once; 0 where nobody knows.
    pub(crate) fn resident_threads(&self, place: Place) -> u64 {
        answer(&self.resident_threads, &place).copied().unwrap_or(0)
    }

    /// The driver's name of an error.
    pub(crate) fn error(&self, error: CuResult) -> String {
        let known = answer(&self.errors, &error).cloned();
        known.unwrap_or_else(|| format!("CUresult {error}"))
    }

    /// The name of a thread.
    pub(crate) fn thread(&self, thread: ThreadNumber) -> String {
        let known = answer(&self.threads, &thread).cloned();
        known.unwrap_or_else(|| format!("thread {}", thread.0))
    }
}

fn answer<'a, Q: PartialEq, A>(answers: &'a [(Q, A)], question: &Q) -> Option<&'a A> {
    let found = answers.iter().find(|(asked, _)| asked == question);
    found.map(|(_, answer)| answer)
}

impl CheckInput {
    /// The first run, from which the baseline of the whole check is taken.
    pub(crate) fn first(&self) -> &RunInput {
        &self.runs[0]
    }

    /// The runs that say something of what repeats: a further run that did not end as it should
    /// says nothing.
    pub(crate) fn judged_runs(&self) -> &[RunInput] {
        let further = self.runs.iter().skip(1);
        let valid = further.take_while(|run| run.as_expected).count();
        &self.runs[..1 + valid]
    }

    /// Whether a run that was to confirm what an earlier one left did not end as it should.
    pub(crate) fn could_not_repeat(&self) -> bool {
        self.judged_runs().len() != self.runs.len()
    }

    /// A context that is broken, by this check or before it: every call in it fails.
    pub(crate) fn broken_context(&self) -> Option<Poisoned> {
        let of_run = |run: &RunInput| run.broken_inside.or(run.broken_before);
        self.runs.iter().find_map(of_run)
    }

    /// Takes everything out: the run's settings say that nothing is judged.
    pub(crate) fn switch_off(&mut self, why: Untraced) {
        for run in &mut self.runs {
            *run = RunInput {
                scope: run.scope,
                as_expected: run.as_expected,
                ..RunInput::default()
            };
        }
        self.untraced = Some(why);
    }

    /// Whether not every call was heard: what was freed may have gone unheard.
    pub(crate) fn was_partly_heard(&self) -> bool {
        self.untraced.as_ref().is_some_and(|untraced| untraced.lost)
    }
}

/// A map whose keys are no texts.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K, V, D>(input: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Vec::deserialize(input).map(BTreeMap::from_iter)
    }
}
