//! Sentences about a run that judge nothing.

use crate::check::recording::Limits;
use crate::judge::{self, Held, What};
use crate::ledger::HandedOver;
use crate::units::{exact_size, quantity};

/// What stayed and may, and what stayed beyond that.
pub(super) fn tolerance(limits: &Limits, tolerated: &[Held], held: &[Held]) -> Vec<String> {
    let limit = exact_size(limits.tolerance);
    let mut remarks = Vec::new();
    let stayed = judge::total(tolerated.iter().map(|held| held.bytes));
    if stayed != 0 {
        let stayed = exact_size(stayed);
        remarks.push(format!("{stayed} stayed, within the tolerance of {limit}"));
    }
    // Rounds are judged by what grows.
    if limits.rounds <= 1 {
        let exceeding = judge::exceeding(limits.tolerance, held).into_iter();
        remarks.extend(exceeding.map(|(layer, place, bytes)| {
            let stayed = exact_size(bytes);
            format!(
                "{stayed} of {layer} memory on {place} stayed, more than the tolerance of {limit}"
            )
        }));
    }
    remarks
}

/// What the test made and is another's now.
pub(super) fn handed_over(what: HandedOver) -> String {
    format!(
        "{}, {}, handed over inside the test",
        quantity(what.count, "object"),
        exact_size(what.bytes)
    )
}

/// What was there before and was freed; none where nothing was.
pub(super) fn returned(count: u64, bytes: u64) -> Option<String> {
    (count != 0).then(|| {
        format!(
            "{}, {}, taken before the test and given back inside it: no credit",
            quantity(count, "object"),
            exact_size(bytes)
        )
    })
}

/// That an allocator's figure which rose is nobody's.
pub(super) fn not_judged(held: &Held) -> Option<String> {
    let (risen, what) = match &held.key.what {
        What::HandedOut => (format!("handed out by {}", held.key.layer), "a sum"),
        What::Reserve(holder) => (format!("reserved by {holder}"), "a reserve"),
        _ => return None,
    };
    Some(format!(
        "{} more {risen} on {}, not judged: threads of no check took memory meanwhile, and {what} \
         has no owner",
        exact_size(held.bytes),
        held.key.place
    ))
}
