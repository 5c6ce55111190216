//! Converts the readings of the ledger's meters to the peaks of a report.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::input::{CheckInput, RunInput};
use super::names::NameTable;
use crate::ledger::{GraphUsage, InTurn, Kind, MeterReading, SiteUsage};
use crate::report::{GraphMemory, Peak, Reusable, Share, When};
use crate::units::quantity;

/// The largest number of source lines of a peak that are listed.
const MAX_LINES: usize = 100;
/// The largest number of listed groups of allocations that could have shared a buffer.
const MAX_REUSABLE: usize = 16;

/// Returns the peak of each layer at each place where the check allocated, taken from the run in
/// which it was highest. Returns nothing if no run has a log.
pub fn peaks(input: &CheckInput) -> Vec<Peak> {
    let mut highest: BTreeMap<_, (usize, &MeterReading)> = BTreeMap::new();
    for (number, run) in input.judged_runs().iter().enumerate() {
        for reading in run.peaks.iter().filter(|reading| reading.made != 0) {
            // The key contains the layer's name, because the layer's ID depends on the order of
            // first use.
            let key = (reading.place, reading.layer.to_string());
            let highest = highest.entry(key).or_insert((number, reading));
            if highest.1.peak < reading.peak {
                *highest = (number, reading);
            }
        }
    }
    let peak = |((place, layer), (number, reading)): (_, (usize, &MeterReading))| {
        let run = &input.runs[number];
        let call = call(run, reading.peak_at);
        Peak {
            place,
            layer,
            bytes: reading.peak,
            run: number as u64 + 1,
            call,
            calls: calls(run),
            lines: shares(&reading.at_peak, run, &input.names, MAX_LINES, true, |it| {
                it.bytes
            }),
            reusable: reusable(&reading.in_turn, &input.names),
        }
    };
    highest.into_iter().map(peak).collect()
}

/// Returns the graphs of the check that hold more memory at once than they would need if their
/// nodes ran in order.
pub fn graph_memory(input: &CheckInput) -> Vec<GraphMemory> {
    let Some(run) = input.runs.iter().find(|run| !run.graphs.is_empty()) else {
        return Vec::new();
    };
    let memory = |usage: &GraphUsage| GraphMemory {
        place: usage.place,
        bytes: usage.bytes,
        in_order: usage.in_order,
        lines: shares(&usage.sites, run, &input.names, MAX_LINES, false, |it| {
            it.bytes
        }),
    };
    run.graphs.iter().map(memory).collect()
}

/// Returns which call of the run an event is, counted from 1, or 0 if the event was before the run.
pub(super) fn call(run: &RunInput, event: u64) -> u64 {
    // A whole program has no earlier events.
    event.saturating_add(1).saturating_sub(run.began.max(1))
}

/// Returns the number of calls of a run, or 0 if it is unknown.
fn calls(run: &RunInput) -> u64 {
    run.timeline.calls.max(run.calls())
}

/// Returns the usage of these call sites by source line, the one with the largest `amount` first.
/// Lines beyond the first `most` are merged into one entry. `is_peak` says whether the usage is the
/// contents of a peak, which may include allocations from before the run.
pub(super) fn shares(
    sites: &[SiteUsage],
    run: &RunInput,
    names: &NameTable,
    most: usize,
    is_peak: bool,
    amount: fn(&Share) -> u64,
) -> Vec<Share> {
    let mut lines: BTreeMap<String, Share> = BTreeMap::new();
    for site in sites {
        let at = names.site(site.stack, Kind::Linear).location();
        let share = lines.entry(at.clone()).or_insert_with(|| Share {
            at,
            ..Share::default()
        });
        add(share, &share_of(site, run, is_peak));
    }
    let mut lines: Vec<Share> = lines.into_values().collect();
    lines.sort_by_key(|share| Reverse(amount(share)));
    if lines.len() > most {
        let rest = lines.split_off(most.saturating_sub(1));
        let mut sum = Share {
            at: quantity(rest.len() as u64, "other line"),
            ..Share::default()
        };
        rest.iter().for_each(|share| add(&mut sum, share));
        lines.push(sum);
    }
    lines
}

fn share_of(site: &SiteUsage, run: &RunInput, is_peak: bool) -> Share {
    let (first, last) = (call(run, site.allocated.0), call(run, site.allocated.1));
    Share {
        count: site.count,
        bytes: site.bytes,
        at: String::new(),
        when: (first != 0).then(|| When {
            first,
            last,
            of: calls(run),
        }),
        earlier: if is_peak && last == 0 { site.count } else { 0 },
    }
}

fn add(sum: &mut Share, share: &Share) {
    // The sums saturate, because a recording may contain any numbers.
    sum.count = sum.count.saturating_add(share.count);
    sum.bytes = sum.bytes.saturating_add(share.bytes);
    sum.earlier = sum.earlier.saturating_add(share.earlier);
    sum.when = match (sum.when, share.when) {
        (Some(one), Some(other)) => Some(When {
            first: one.first.min(other.first),
            last: one.last.max(other.last),
            of: one.of.max(other.of),
        }),
        (one, other) => one.or(other),
    };
}

/// Returns these allocations, grouped by source line and size.
pub(super) fn reusable(in_turn: &[InTurn], names: &NameTable) -> Vec<Reusable> {
    let mut lines: BTreeMap<(String, u64), Reusable> = BTreeMap::new();
    for it in in_turn {
        let at = names.site(it.stack, Kind::Linear).location();
        let line = lines.entry((at.clone(), it.bytes)).or_insert(Reusable {
            at,
            each: it.bytes,
            count: 0,
            buffers: 0,
        });
        line.count = line.count.saturating_add(it.count);
        line.buffers += 1;
    }
    let mut lines: Vec<Reusable> = lines.into_values().collect();
    lines.sort_by_key(|it| Reverse(it.each.saturating_mul(it.saved())));
    lines.truncate(MAX_REUSABLE);
    lines
}
