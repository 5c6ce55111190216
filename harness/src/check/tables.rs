//! What each device held, before and after, as a report shows it.

use crate::judge::{self, LayerName, LayerUsage, NameTable, Usage};
use crate::ledger::Place;
use crate::report::model::{DeviceTable, Figure, Row, WholeDevice};
use crate::units;

/// What each device held before and after, the driver first.
pub(crate) fn tables(before: &Usage, after: &Usage, names: &NameTable) -> Vec<DeviceTable> {
    let mut places = before.places();
    places.extend(after.places());
    places.sort_by_key(|place| (*place == Place::HOST, *place));
    places.dedup();
    places
        .into_iter()
        .map(|place| table(place, before, after, names))
        .collect()
}

fn table(place: Place, before: &Usage, after: &Usage, names: &NameTable) -> DeviceTable {
    let mut levels: Vec<&LayerName> = Vec::new();
    for level in before
        .layers
        .iter()
        .chain(&after.layers)
        .filter(|level| level.place == place)
    {
        if !levels.contains(&&level.name) {
            levels.push(&level.name);
        }
    }
    levels.sort();
    let mut rows = Vec::new();
    for name in levels {
        let (was, is) = (before.layer(name, place), after.layer(name, place));
        let row = |figure, baseline, after, peak| Row {
            layer: name.to_string(),
            figure,
            baseline,
            after,
            peak,
            remark: None,
        };
        let allocated = |level: Option<&LayerUsage>| level.map_or(0, |l| l.allocated);
        let reserved = |level: Option<&LayerUsage>| level.and_then(|l| l.reserved);
        if !matches!(name, LayerName::Pool(_)) {
            let peak = is.and_then(|level| level.peak);
            rows.push(row(Figure::Allocated, allocated(was), allocated(is), peak));
        }
        if let (Some(_), _) | (_, Some(_)) = (reserved(was), reserved(is)) {
            let (was, is) = (reserved(was).unwrap_or(0), reserved(is).unwrap_or(0));
            if was != 0 || is != 0 {
                rows.push(row(Figure::Reserved, was, is, None));
            }
        }
    }
    let (was, is) = (before.handles_at(place), after.handles_at(place));
    if is.peak != 0 || was.live != 0 {
        rows.push(Row {
            layer: "handles".into(),
            figure: Figure::Handles,
            baseline: was.live,
            after: is.live,
            peak: Some(is.peak),
            remark: None,
        });
    }
    let identity = names.device(place).cloned();
    DeviceTable {
        place,
        name: identity.as_ref().map(|identity| identity.name.clone()),
        uuid: identity.and_then(|identity| identity.uuid),
        rows,
        whole: whole_device(place, before, after, names),
    }
}

/// Adds what only the second run can tell of whole devices: the first one made their contexts.
pub(crate) fn complete(
    tables: &mut [DeviceTable],
    before: &Usage,
    after: &Usage,
    names: &NameTable,
) {
    for table in tables.iter_mut().filter(|table| table.whole.is_none()) {
        let whole = whole_device(table.place, before, after, names);
        table.whole = whole.map(|whole| WholeDevice {
            second_run: true,
            ..whole
        });
    }
}

/// The whole device's change, taken apart. A rest that another process may have made is not told.
fn whole_device(
    place: Place,
    before: &Usage,
    after: &Usage,
    names: &NameTable,
) -> Option<WholeDevice> {
    let told = judge::reconcile(place, before, after, || names.resident_threads(place))?;
    if told.unexplained != 0 && names.other_processes {
        return None;
    }
    let hint = |more: i64, noun, what: &str| {
        let more = u64::try_from(more).unwrap_or(0);
        (more != 0).then(|| format!("{} {what}", units::quantity(more, noun)))
    };
    let hints = [
        hint(told.contexts, "context", "more on this device"),
        hint(told.code, "module", "more loaded"),
    ];
    Some(WholeDevice {
        second_run: false,
        baseline: told.baseline,
        after: told.after,
        parts: told.parts,
        unexplained: told.unexplained,
        hints: hints.into_iter().flatten().collect(),
    })
}
