//! The usage of each device before and after a check, as a report shows it.

use std::collections::BTreeSet;

use super::input::CheckInput;
use super::names::NameTable;
use super::usage::{LayerName, LayerUsage, Usage};
use super::whole_device::whole_device;
use crate::ledger::Place;
use crate::report::{DeviceTable, Figure, Row, WholeDevice};

/// Returns the usage of each device before and after the check, the driver first. Whole-device
/// figures can come from the second run, because the first one may have created the contexts.
pub fn device_tables(input: &CheckInput) -> Vec<DeviceTable> {
    let (names, first) = (&input.names, input.first());
    let is_growth = input.facts.rounds > 1;
    let last = match is_growth {
        true => input.runs.last().unwrap_or(first),
        false => first,
    };
    let second = input.judged_runs().get(1).filter(|_| !is_growth);
    let mut places = Vec::from_iter(&first.baseline.places() | &last.end.places());
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
    let of_layers: BTreeSet<&LayerName> = here.map(|layer| &layer.name).collect();
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
        let reserved = |level: Option<&LayerUsage>| level.and_then(|l| l.reserved).unwrap_or(0);
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
    let identity = names.devices.get(&place).cloned();
    DeviceTable {
        place,
        name: identity.as_ref().map(|identity| identity.name.clone()),
        uuid: identity.and_then(|identity| identity.uuid),
        rows,
        whole: whole_device(place, before, after, names),
    }
}
