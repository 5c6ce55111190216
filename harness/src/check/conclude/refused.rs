//! Creating calls that failed: no finding, for nothing is live because of them, but a fact that
//! explains many a test.

use crate::check::names::Names;
use crate::judge::Refused;
use crate::units;

/// So many are told one by one.
const TOLD: usize = 5;

/// A sentence for each place whose calls failed.
pub(crate) fn notes(all: &[Refused], names: &dyn Names) -> Vec<String> {
    let mut notes: Vec<_> = all
        .iter()
        .take(TOLD)
        .map(|refused| note(refused, names))
        .collect();
    if let Some(rest @ [_, ..]) = all.get(TOLD..) {
        let calls = rest.iter().map(|refused| refused.count).sum();
        notes.push(format!(
            "{} failed inside the test",
            units::quantity(calls, "other creating call")
        ));
    }
    notes
}

/// `2 × CUDA_ERROR_OUT_OF_MEMORY: 64.0 TiB of linear memory each, asked for at src/model.rs:40`
fn note(refused: &Refused, names: &dyn Names) -> String {
    let Refused { kind, count, .. } = *refused;
    let wanted = match refused.each {
        _ if kind.is_handle() => units::noun(kind).to_owned(),
        Some(bytes) if count == 1 => {
            format!("{} of {} memory", units::exact_size(bytes), kind.name())
        }
        Some(bytes) => format!(
            "{} of {} memory each",
            units::exact_size(bytes),
            kind.name()
        ),
        None => format!(
            "{} of {} memory in all",
            units::exact_size(refused.bytes),
            kind.name()
        ),
    };
    format!(
        "{} × {}: {wanted}, asked for at {}",
        units::count(count),
        names.error(refused.error),
        names.site(refused.stack, kind).location()
    )
}
