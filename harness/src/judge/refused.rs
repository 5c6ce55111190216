//! Calls that should have made something and failed, put together by where they stand.

use crate::ledger::event::CuResult;
use crate::ledger::{Anomaly, Kind, StackId};

/// Failed calls of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// What was asked for.
    pub(crate) kind: Kind,
    /// The driver's answer.
    pub(crate) error: CuResult,
    /// Where.
    pub(crate) stack: StackId,
    /// How often.
    pub(crate) count: u64,
    /// How many bytes in all.
    pub(crate) bytes: u64,
    /// How many each time, where that was always the same.
    pub(crate) each: Option<u64>,
}

/// The calls among `anomalies` that failed, in the order of their first failure.
pub(crate) fn refused(anomalies: &[Anomaly]) -> Vec<Refused> {
    let failed = anomalies.iter().filter_map(|anomaly| match *anomaly {
        Anomaly::FailedCreation {
            kind,
            bytes,
            caller,
            error,
        } => Some(Refused {
            kind,
            error,
            stack: caller.stack,
            count: 1,
            bytes,
            each: Some(bytes),
        }),
        _ => None,
    });
    let mut all = Vec::new();
    add_refused(&mut all, failed);
    all
}

/// Adds `more` calls that failed to those known.
pub(crate) fn add_refused(all: &mut Vec<Refused>, more: impl IntoIterator<Item = Refused>) {
    let place = |it: &Refused| (it.kind, it.error, it.stack);
    for new in more {
        match all.iter_mut().find(|known| place(known) == place(&new)) {
            Some(known) => {
                known.count += new.count;
                known.bytes = known.bytes.saturating_add(new.bytes);
                known.each = known.each.filter(|_| known.each == new.each);
            }
            None => all.push(new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Anomaly, Kind, Refused, StackId, refused};
    use crate::ledger::event::Caller;

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
        let told = refused(&[failed(8, 1), failed(8, 2), failed(8, 1), failed(24, 2)]);
        let expected = |stack, bytes, each| Refused {
            kind: Kind::Linear,
            error: 2,
            stack: StackId(stack),
            count: 2,
            bytes,
            each,
        };
        assert_eq!(told, [expected(1, 16, Some(8)), expected(2, 32, None)]);
    }
}
