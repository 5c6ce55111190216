//! The current memory usage, for a test's own assertions.

use super::readings::ask;
use super::{blind, naming, readings};
use crate::judge::{self, CheckInput, LayerName, LiveRecord, RunInput, Usage};
use crate::ledger::{self, Layer, Place, Record, ScopeId};
use crate::probe::{self, Probe};
use crate::report::check_report::Finding;
use crate::report::{Style, text};
use crate::units::total;

/// Whether this machine has a GPU that the CUDA driver can use.
///
/// ```
/// if !gpu_leak_check::gpu_available() {
///     println!("without a GPU, only allocators that report their blocks are judged");
/// }
/// ```
#[must_use]
pub fn gpu_available() -> bool {
    !blind::no_gpu()
}

/// Returns the bytes allocated at `place`: from the driver, inside caching allocators that have a
/// [`Probe`](crate::probe::Probe), and by allocators that [report their blocks](crate::observe).
/// For an allocator that reports its blocks but has no probe, its segments are counted as well.
///
/// Like all figures of this kind, the result covers only calls to the driver that are intercepted,
/// and only reports since the first check of the process or, in a program with checked tests, since
/// the program's start. [`gpu_available`] returns whether there is a GPU at all.
///
/// ```
/// use gpu_leak_check::{Place, memory_allocated};
///
/// assert_eq!(memory_allocated(Place::cuda(0)), 0);
/// ```
#[must_use]
pub fn memory_allocated(place: Place) -> u64 {
    let inside = probes_at(place).map(|it| ask(it, |probe| probe.allocated(place)));
    total(inside.chain([beside_probes(place)]))
}

/// Returns the bytes that are reserved at `place`, whether they are handed out or cached.
///
/// ```
/// use gpu_leak_check::{Place, memory_allocated, memory_reserved};
///
/// let device = Place::cuda(0);
/// let cached = memory_reserved(device) - memory_allocated(device);
/// assert_eq!(cached, 0);
/// ```
#[must_use]
pub fn memory_reserved(place: Place) -> u64 {
    let inside = probes_at(place).map(|it| ask(it, |probe| probe.reserved(place)));
    let layers = current_usage().layers;
    let pools = layers
        .iter()
        .filter(|layer| layer.place == place && matches!(layer.name, LayerName::Pool(_)));
    let cached = pools.filter_map(|pool| pool.reserved?.checked_sub(pool.allocated));
    total(inside.chain(cached).chain([beside_probes(place)]))
}

/// Returns the peak of the bytes allocated at `place` since the current run of the check began. If
/// checks are nested, the outermost one counts; if checks run at the same time, the first of them.
/// These are the bytes allocated by allocators with a [`Probe`](crate::probe::Probe) or, if there
/// are none, by the driver and by allocators that report their blocks.
///
/// A probe knows only the current figure. So the peak of its allocator is the peak of the blocks
/// that it reported, with their requested sizes, or the current figure if that is higher.
///
/// ```
/// use gpu_leak_check::{Place, max_memory_allocated};
///
/// // …
/// assert!(max_memory_allocated(Place::cuda(0)) < 64 << 20);
/// ```
#[must_use]
pub fn max_memory_allocated(place: Place) -> u64 {
    let layers = current_usage().layers;
    let at_place = || layers.iter().filter(|layer| layer.place == place);
    let is_probed = |name: &LayerName| matches!(name, LayerName::Probe(_));
    let has_probe = at_place().any(|layer| is_probed(&layer.name));
    let counted = at_place().filter(|layer| is_probed(&layer.name) == has_probe);
    total(counted.filter_map(|layer| layer.peak))
}

/// Returns the usage of each device in the form of a report's table, or a sentence if nothing is
/// known.
///
/// ```
/// println!("{}", gpu_leak_check::memory_summary());
/// ```
#[must_use]
pub fn memory_summary() -> String {
    let usage = current_usage();
    let input = input_of(RunInput {
        baseline: usage.clone(),
        end: usage,
        ..RunInput::default()
    });
    let tables = text::tables(&judge::device_tables(&input), Style::PLAIN);
    match tables.is_empty() {
        true => "no allocations are known: no GPU has been used through intercepted calls, and no \
             allocator has reported any blocks\n"
            .to_owned(),
        false => tables,
    }
}

/// Reads all figures.
fn current_usage() -> Usage {
    let snapshot = ledger::live().snapshot(ScopeId::NONE);
    readings::read(&snapshot, false, false, None)
}

fn probes_at(place: Place) -> impl Iterator<Item = &'static dyn Probe> {
    let all = probe::all().into_iter();
    all.filter(move |probe| ask(*probe, Probe::places).contains(&place))
}

/// Returns the live records for which `is_meant` returns `true`, except the segments of allocators
/// with a probe.
fn live(is_meant: impl Fn(&Record) -> bool) -> Vec<Record> {
    let ledger = ledger::live();
    let segments = readings::segments();
    let holdings = ledger.holdings().into_iter().collect();
    let mut records = ledger.select(is_meant);
    records.retain(|record| segments.owner(record, &holdings).is_none());
    records
}

/// Returns the bytes at `place` that belong to no allocator with a probe.
fn beside_probes(place: Place) -> u64 {
    let probed: Vec<_> = probe::all()
        .iter()
        .map(|probe| Layer::allocator(probe.name()))
        .collect();
    let records = live(|Record { made, .. }| {
        made.place == place && !made.kind.is_handle() && !probed.contains(&made.layer)
    });
    total(records.iter().map(|record| record.made.bytes))
}

/// Returns an input with which the current state can be judged.
fn input_of(now: RunInput) -> CheckInput {
    let mut input = CheckInput::default();
    naming::add(&mut input.names, &now);
    input.runs.push(now);
    input
}

/// The resources that were live at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    live: Vec<Record>,
}

/// Takes a snapshot of everything that is live now: allocations, blocks of allocators that report
/// their blocks, and objects. The segments of an allocator with a probe are not included.
///
/// ```
/// use gpu_leak_check::snapshot;
///
/// let before = snapshot();
/// // …
/// let new = snapshot().since(&before);
/// assert!(new.is_empty());
/// ```
#[must_use]
pub fn snapshot() -> Snapshot {
    Snapshot {
        live: live(|_| true),
    }
}

impl Snapshot {
    /// Returns the number of live resources.
    #[must_use]
    pub fn count(&self) -> usize {
        self.live.len()
    }

    /// Returns the resources that are live in this snapshot but were not in the earlier one,
    /// grouped by the line that allocated them.
    ///
    /// ```
    /// let before = gpu_leak_check::snapshot();
    /// // …
    /// for finding in gpu_leak_check::snapshot().since(&before) {
    ///     println!("{finding}");
    /// }
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Vec<Finding> {
        let known: std::collections::BTreeSet<u64> =
            earlier.live.iter().map(|record| record.sequence).collect();
        let live = self.live.iter().copied();
        let new = live.filter(|record| !known.contains(&record.sequence));
        judge::held(&input_of(RunInput {
            as_expected: true,
            live: new.map(LiveRecord::own).collect(),
            ..RunInput::default()
        }))
    }
}
