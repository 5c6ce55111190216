//! Allocation calls that failed. They are not findings, because they leave nothing live, but they
//! often explain a failing test.

use super::group::Tally;
use super::input::CheckInput;
use crate::ledger::event::CuResult;
use crate::ledger::{Amount, Anomaly, Kind, StackId};
use crate::units;

/// The largest number of call sites whose failed calls are reported individually.
const NAMED: usize = 5;

/// The kind of resource that the calls of one call site should have created, the error that they
/// returned, and the call site.
type Call = (Kind, CuResult, StackId);

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
        let calls = rest.iter().map(|(_, failed)| failed.amount.count).sum();
        notes.push(format!(
            "{} failed during the test",
            units::quantity(calls, "other allocate or create call")
        ));
    }
    notes
}

/// Groups the failed calls by call site. The call sites are ordered by their first failure.
fn together<'a>(anomalies: impl Iterator<Item = &'a Anomaly>) -> Vec<(Call, Tally)> {
    let mut all: Vec<(Call, Tally)> = Vec::new();
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
        let call = (kind, error, caller.stack);
        let known = all.iter().position(|(known, _)| *known == call);
        let at = known.unwrap_or_else(|| {
            all.push((call, Tally::default()));
            all.len() - 1
        });
        // Nothing was allocated, so there is no record.
        all[at].1.add(0, bytes);
    }
    all
}

/// Returns, for example, `2 × CUDA_ERROR_OUT_OF_MEMORY: 64.0 TiB of linear memory each, requested
/// at src/model.rs:40`.
fn note((call, failed): &(Call, Tally), input: &CheckInput) -> String {
    let (kind, error, stack) = *call;
    let Amount { count, bytes } = failed.amount;
    let wanted = match failed.each {
        _ if kind.is_handle() => kind.noun().to_owned(),
        Some(bytes) if count == 1 => kind.memory(bytes),
        Some(bytes) => format!("{} each", kind.memory(bytes)),
        None => format!("{} in all", kind.memory(bytes)),
    };
    format!(
        "{} × {}: {wanted}, requested at {}",
        units::count(count),
        input.names.error(error),
        input.names.site(stack, kind).location()
    )
}

#[cfg(test)]
mod tests {
    use super::{Amount, together};
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
    fn failed_calls_are_merged_for_each_call_site() {
        let anomalies = [failed(8, 1), failed(8, 2), failed(8, 1), failed(24, 2)];
        let all: [_; 2] = together(anomalies.iter()).try_into().unwrap();
        let amounts = all.map(|((_, _, stack), failed)| (stack.0, failed.amount, failed.each));
        let two = |bytes| Amount { count: 2, bytes };
        assert_eq!(amounts, [(1, two(16), Some(8)), (2, two(32), None)]);
    }
}
