//! Allocation calls that failed. They are not findings, because nothing is live because of them,
//! but they often explain a failing test.

use super::input::CheckInput;
use crate::ledger::event::CuResult;
use crate::ledger::{Anomaly, Kind, StackId};
use crate::units;

/// How many are reported individually.
const NAMED: usize = 5;

/// The failed calls of one call site.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedAllocations {
    kind: Kind,
    error: CuResult,
    stack: StackId,
    count: u64,
    bytes: u64,
    each: Option<u64>,
}

/// Returns a note for each call site whose calls failed in the first run, or in any round.
pub(crate) fn notes(input: &CheckInput) -> Vec<String> {
    let runs = match input.facts.rounds > 1 {
        true => &input.runs[..],
        false => &input.runs[..1],
    };
    let all = together(runs.iter().flat_map(|run| &run.anomalies));
    let named = all.iter().take(NAMED);
    let mut notes: Vec<_> = named.map(|failed| note(failed, input)).collect();
    if let Some(rest @ [_, ..]) = all.get(NAMED..) {
        let calls = rest.iter().map(|failed| failed.count).sum();
        notes.push(format!(
            "{} failed during the test",
            units::quantity(calls, "other creating call")
        ));
    }
    notes
}

/// Groups the failed calls by call site, ordered by the first failure of each.
fn together<'a>(anomalies: impl Iterator<Item = &'a Anomaly>) -> Vec<FailedAllocations> {
    let mut all: Vec<FailedAllocations> = Vec::new();
    for anomaly in anomalies {
        let Anomaly::FailedCreation {
            kind,
            bytes,
            caller,
            error,
        } = *anomaly
        else {
            continue;
        };
        let is_same = |known: &&mut FailedAllocations| {
            (known.kind, known.error, known.stack) == (kind, error, caller.stack)
        };
        match all.iter_mut().find(is_same) {
            Some(known) => {
                known.count += 1;
                known.bytes = known.bytes.saturating_add(bytes);
                known.each = known.each.filter(|each| *each == bytes);
            }
            None => all.push(FailedAllocations {
                kind,
                error,
                stack: caller.stack,
                count: 1,
                bytes,
                each: Some(bytes),
            }),
        }
    }
    all
}

/// For example `2 × CUDA_ERROR_OUT_OF_MEMORY: 64.0 TiB of linear memory each, requested at
/// src/model.rs:40`.
fn note(failed: &FailedAllocations, input: &CheckInput) -> String {
    let FailedAllocations { kind, count, .. } = *failed;
    let wanted = match failed.each {
        _ if kind.is_handle() => units::noun(kind).to_owned(),
        Some(bytes) if count == 1 => units::memory(kind, bytes),
        Some(bytes) => format!("{} each", units::memory(kind, bytes)),
        None => format!("{} in all", units::memory(kind, failed.bytes)),
    };
    format!(
        "{} × {}: {wanted}, requested at {}",
        units::count(count),
        input.names.error(failed.error),
        input.names.site(failed.stack, kind).location()
    )
}

#[cfg(test)]
mod tests {
    use super::{FailedAllocations, together};
    use crate::ledger::event::{Caller, StackId};
    use crate::ledger::{Anomaly, Kind};

    fn failed(bytes: u64, stack: u32) -> Anomaly {
        Anomaly::FailedCreation {
            kind: Kind::Linear,
            bytes,
            caller: Caller {
                stack: StackId(stack),
                ..Caller::default()
            },
            error: 2,
        }
    }

    #[test]
    fn calls_of_one_place_are_one_and_those_of_another_are_not() {
        let all = together([failed(8, 1), failed(8, 2), failed(8, 1), failed(24, 2)].iter());
        let expected = |stack, bytes, each| FailedAllocations {
            kind: Kind::Linear,
            error: 2,
            stack: StackId(stack),
            count: 2,
            bytes,
            each,
        };
        assert_eq!(all, [expected(1, 16, Some(8)), expected(2, 32, None)]);
    }
}
