//! The usage of each device before and after a check, as a report shows it, and the causes of the
//! change in the memory usage of the whole device.
//!
//! The causes are only advice and never fail a check, because the driver itself and other processes
//! use the device too.

use std::collections::BTreeSet;

use super::input::CheckInput;
use super::names::NameTable;
use super::usage::{DeviceUsage, LayerName, LayerUsage, Usage, places};
use crate::ledger::{Layer, Place, PoolName};
use crate::report::{DeviceTable, Figure, Part, Purpose, Row, WholeDevice};
use crate::units::{quantity, total};

/// The driver hands out device memory in pages of this size, so an allocation of 4 bytes can take a
/// whole page.
const PAGE: u64 = 2 << 20;

/// The largest number of other processes that are listed.
const NAMED: usize = 3;

/// Returns the usage of each device before and after the check, with the driver's row first.
/// Whole-device figures can come from the second run, because the first one may have created the
/// contexts.
pub fn device_tables(input: &CheckInput) -> Vec<DeviceTable> {
    let (names, first) = (&input.names, input.first());
    let is_growth = input.facts.rounds > 1;
    let last = match is_growth {
        true => input.runs.last().unwrap_or(first),
        false => first,
    };
    let second = input.judged_runs().get(1).filter(|_| !is_growth);
    let mut places = places(&first.baseline, &last.end);
    places.sort_by_key(|place| *place == Place::HOST);
    let tables = places.into_iter().map(|place| {
        let of_second = || {
            let whole = second.and_then(|run| whole_device(place, &run.baseline, &run.end, names));
            whole.map(|whole| WholeDevice {
                second_run: true,
                ..whole
            })
        };
        let mut table = table(place, &first.baseline, &last.end, names);
        table.whole = table.whole.or_else(of_second);
        table
    });
    tables.collect()
}

fn table(place: Place, before: &Usage, after: &Usage, names: &NameTable) -> DeviceTable {
    let layers = before.layers.iter().chain(&after.layers);
    let here = layers.filter(|layer| layer.place == place);
    let mut of_layers = Vec::from_iter(here.map(|layer| &layer.name));
    of_layers.sort_unstable();
    of_layers.dedup();
    let mut rows = Vec::new();
    let mut row = |layer, figure, baseline, after, peak| {
        rows.push(Row {
            layer,
            figure,
            baseline,
            after,
            peak,
        });
    };
    for name in of_layers {
        let (was, is) = (before.layer(name, place), after.layer(name, place));
        let allocated = |level: Option<&LayerUsage>| level.map_or(0, |l| l.allocated);
        let reserved = |level: Option<&LayerUsage>| level.map_or(0, LayerUsage::reserve);
        if !matches!(name, LayerName::Pool(_)) {
            let (before, after) = (allocated(was), allocated(is));
            let peak = is.and_then(|level| level.peak);
            let peak = peak.map(|peak| peak.max(before));
            row(name.to_string(), Figure::Allocated, before, after, peak);
        }
        let (was, is) = (reserved(was), reserved(is));
        if was != 0 || is != 0 {
            row(name.to_string(), Figure::Reserved, was, is, None);
        }
    }
    let (was, is) = (before.handles_at(place), after.handles_at(place));
    if is.peak != 0 || was.live != 0 {
        let handles = "handles".to_owned();
        row(handles, Figure::Handles, was.live, is.live, Some(is.peak));
    }
    let identity = names.devices.get(&place);
    DeviceTable {
        place,
        name: identity.map(|identity| identity.name.clone()),
        uuid: identity.and_then(|identity| identity.uuid.clone()),
        rows,
        whole: whole_device(place, before, after, names),
    }
}

/// Splits the change in the memory usage of the device at `place` into its causes. Returns `None`
/// if the device was not read at both times.
fn whole_device(
    place: Place,
    before: &Usage,
    after: &Usage,
    names: &NameTable,
) -> Option<WholeDevice> {
    let (was, is) = (before.whole(place)?, after.whole(place)?);
    let mut parts = Vec::new();
    let mut part = |purpose, bytes| {
        if bytes != 0 {
            parts.push(Part { purpose, bytes });
        }
    };
    let driver = (driver_bytes(before, was), driver_bytes(after, is));
    part(Purpose::Driver, change(driver.0, driver.1));
    let (held, holds) = (pool_reserve(before, place), pool_reserve(after, place));
    part(Purpose::PoolReserve, change(held, holds));
    let (held, holds) = (graph_reserve(before, place), graph_reserve(after, place));
    part(Purpose::GraphReserve, change(held, holds));
    if was.context == is.context {
        let (was, is) = (was.limits, is.limits);
        let threads = names.resident_threads.get(&place).copied().unwrap_or(0);
        let threads = i64::try_from(threads).unwrap_or(0);
        let local = change(was.stack, is.stack).saturating_mul(threads);
        part(Purpose::LocalMemory, local);
        part(Purpose::Printf, change(was.printf, is.printf));
        part(Purpose::Heap, change(was.heap, is.heap));
    }
    // The sum may wrap, because a recording may contain any size.
    let known = parts
        .iter()
        .fold(0_i64, |sum, part| sum.wrapping_add(part.bytes));
    let mut unexplained = change(was.used, is.used).wrapping_sub(known);
    if unexplained != 0 && unexplained.unsigned_abs() < PAGE {
        parts.push(Part {
            purpose: Purpose::Pages,
            bytes: std::mem::take(&mut unexplained),
        });
    }
    let contexts = change(was.contexts, is.contexts);
    let hints = [
        hint(contexts, "more context", "on this device"),
        hint(change(was.code, is.code), "more module", "loaded"),
        neighbours(&names.neighbours),
    ];
    Some(WholeDevice {
        second_run: false,
        baseline: was.used,
        after: is.used,
        parts,
        unexplained,
        hints: hints.into_iter().flatten().collect(),
    })
}

/// Returns a hint such as `2 more contexts on this device`, or `None` if there are no more than
/// before.
fn hint(more: i64, noun: &str, what: &str) -> Option<String> {
    let more = u64::try_from(more).ok().filter(|more| *more != 0)?;
    Some(format!("{} {what}", quantity(more, noun)))
}

/// Returns a sentence such as `process 4242 (python3) is also using CUDA`.
fn neighbours(others: &BTreeSet<String>) -> Option<String> {
    let mut named: Vec<&str> = others.iter().map(String::as_str).take(NAMED).collect();
    if others.len() > NAMED {
        named.push("…");
    }
    let named = named.join(", ");
    match others.len() {
        0 => None,
        1 => Some(format!("process {named} is also using CUDA")),
        many => Some(format!("{many} other processes are using CUDA: {named}")),
    }
}

/// Returns how much of the device's own memory the driver has allocated.
fn driver_bytes(usage: &Usage, whole: &DeviceUsage) -> u64 {
    let layer = usage.layer(&LayerName::Layer(Layer::DRIVER), whole.place);
    layer.map_or(0, |layer| layer.allocated.saturating_sub(whole.elsewhere))
}

/// Returns the reserve of the stream-ordered pools, without the memory that they have handed out,
/// which is in the ledger.
fn pool_reserve(usage: &Usage, place: Place) -> u64 {
    let cached = |layer: &LayerUsage| match layer.name {
        LayerName::Pool(PoolName::Graph) => None,
        LayerName::Pool(_) => Some(layer.reserved?.saturating_sub(layer.allocated)),
        _ => None,
    };
    let here = usage.layers.iter().filter(|layer| layer.place == place);
    total(here.filter_map(cached))
}

/// Returns the whole reserve of the graph pool.
fn graph_reserve(usage: &Usage, place: Place) -> u64 {
    let graphs = LayerName::Pool(PoolName::Graph);
    usage.layer(&graphs, place).map_or(0, LayerUsage::reserve)
}

fn change(before: u64, after: u64) -> i64 {
    after.cast_signed().wrapping_sub(before.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::{DeviceUsage, NameTable, Part, Purpose, Usage, WholeDevice, whole_device};
    use crate::judge::{ContextLimits, LayerName, LayerUsage};
    use crate::ledger::event::ContextUid;
    use crate::ledger::{Layer, Place, PoolName};

    const MIB: u64 = 1 << 20;

    fn whole(used: u64) -> DeviceUsage {
        DeviceUsage {
            place: Place::cuda(0),
            context: ContextUid(1),
            used,
            limits: ContextLimits {
                stack: 1024,
                printf: MIB,
                heap: 8 * MIB,
            },
            elsewhere: 0,
            contexts: 1,
            code: 0,
        }
    }

    fn usage(whole: DeviceUsage, levels: &[(LayerName, u64, Option<u64>)]) -> Usage {
        let level = |(name, allocated, reserved): &(LayerName, u64, Option<u64>)| LayerUsage {
            reported: None,
            in_motion: 0,
            rounding: 0,
            name: name.clone(),
            place: Place::cuda(0),
            allocated: *allocated,
            peak: None,
            reserved: *reserved,
        };
        Usage {
            layers: levels.iter().map(level).collect(),
            whole_devices: vec![whole],
            ..Usage::default()
        }
    }

    fn names() -> NameTable {
        NameTable {
            resident_threads: [(Place::cuda(0), 132 * 2048)].into(),
            ..NameTable::default()
        }
    }

    fn between(before: &Usage, after: &Usage) -> WholeDevice {
        whole_device(Place::cuda(0), before, after, &names()).expect("both were read")
    }

    fn driver(allocated: u64) -> (LayerName, u64, Option<u64>) {
        (LayerName::Layer(Layer::DRIVER), allocated, None)
    }

    fn part(purpose: Purpose, bytes: u64) -> Part {
        let bytes = bytes.cast_signed();
        Part { purpose, bytes }
    }

    #[test]
    fn memory_of_the_ledger_and_the_pools_is_accounted_for() {
        let pool = |used, reserved| (LayerName::Pool(PoolName::Default), used, Some(reserved));
        let graphs = |reserved| (LayerName::Pool(PoolName::Graph), 0, Some(reserved));
        let before = usage(whole(500 * MIB), &[driver(MIB)]);
        let after = usage(
            whole(566 * MIB),
            // 1 MiB of the pool's 32 MiB is already in the driver's figure.
            &[driver(4 * MIB), pool(MIB, 32 * MIB), graphs(32 * MIB)],
        );
        let reported = between(&before, &after);
        assert_eq!(
            reported.parts,
            [
                part(Purpose::Driver, 3 * MIB),
                part(Purpose::PoolReserve, 31 * MIB),
                part(Purpose::GraphReserve, 32 * MIB),
            ]
        );
        assert_eq!(reported.unexplained, 0);
    }

    #[test]
    fn less_than_a_page_is_rounding_and_more_is_unexplained() {
        let before = usage(whole(0), &[]);
        let reported = between(&before, &usage(whole(2 * MIB), &[driver(4)]));
        let rest = part(Purpose::Pages, 2 * MIB - 4);
        assert_eq!(reported.parts, [part(Purpose::Driver, 4), rest]);
        assert_eq!(reported.unexplained, 0);
        let reported = between(&before, &usage(whole(2 * MIB), &[]));
        assert_eq!((reported.parts.len(), reported.unexplained), (0, 2 << 20));
    }

    #[test]
    fn local_memory_of_kernels_is_derived_from_the_limit_of_the_context() {
        // This was measured on an H200 for a kernel with a local array of 16 KiB.
        let grown = 4_055_040 * 1024;
        let mut is = whole(500 * MIB + grown);
        is.limits.stack = 16 * 1024;
        let reported = between(&usage(whole(500 * MIB), &[]), &usage(is, &[]));
        assert_eq!(reported.parts, [part(Purpose::LocalMemory, grown)]);
        assert_eq!(reported.unexplained, 0);
        // Another context's limits do not apply to this one.
        is.context = ContextUid(2);
        let reported = between(&usage(whole(500 * MIB), &[]), &usage(is, &[]));
        assert_eq!(
            (reported.parts.len(), reported.unexplained),
            (0, grown.cast_signed())
        );
    }

    #[test]
    fn memory_that_may_lie_elsewhere_is_not_expected_on_the_device() {
        let mut is = whole(0);
        is.elsewhere = 64 * MIB;
        let reported = between(&usage(whole(0), &[]), &usage(is, &[driver(64 * MIB)]));
        assert_eq!((reported.parts.len(), reported.unexplained), (0, 0));
    }

    #[test]
    fn freed_memory_is_a_negative_part() {
        let before = usage(whole(4 * MIB), &[driver(4 * MIB)]);
        let reported = between(&before, &usage(whole(0), &[]));
        let back = Part {
            purpose: Purpose::Driver,
            bytes: -4 << 20,
        };
        assert_eq!((reported.parts, reported.unexplained), (vec![back], 0));
    }

    #[test]
    fn a_device_that_was_not_read_at_both_times_is_not_reported() {
        let read = usage(whole(0), &[]);
        let (nothing, place) = (Usage::default(), Place::cuda(0));
        assert_eq!(whole_device(place, &nothing, &read, &names()), None);
        assert_eq!(whole_device(place, &read, &nothing, &names()), None);
    }
}
