//! What still holds physical memory that is left.

use super::diff::Tally;
use super::input::CheckInput;
use crate::ledger::{Holding, Kind};

/// Whether a handle of this physical memory is missing its release or a range is still mapped: one
/// of the two was forgotten, and the line that allocated it does not say which. None of other memory.
pub(crate) fn what_holds(tally: &Tally, input: &CheckInput) -> Option<String> {
    let run = input.judged_runs().last()?;
    if run.holdings.is_empty() {
        return None;
    }
    let of_tally = |sequence: &u64| tally.records.binary_search(sequence).is_ok();
    let records = run.live.iter().map(|live| &live.record);
    let physical = records.filter(|record| record.made.kind == Kind::Physical);
    let physical = physical.filter(|record| of_tally(&record.sequence));
    let holdings = physical.filter_map(|record| run.holdings.get(&record.key()));
    sentence(&holdings.collect::<Vec<_>>())
}

fn sentence(holdings: &[&Holding]) -> Option<String> {
    let count =
        |held: fn(&Holding) -> bool| holdings.iter().filter(|holding| held(holding)).count();
    let named = count(|holding| holding.references != 0);
    let mapped = count(|holding| holding.maps != 0);
    let (named, mapped) = if holdings.len() == 1 {
        (
            (named != 0).then(|| "its handle was not released (cuMemRelease)".to_owned()),
            (mapped != 0).then(|| "it is still mapped (cuMemUnmap)".to_owned()),
        )
    } else {
        (
            (named != 0)
                .then(|| format!("the handles of {named} were not released (cuMemRelease)")),
            (mapped != 0).then(|| format!("the maps of {mapped} are still there (cuMemUnmap)")),
        )
    };
    let parts: Vec<_> = named.into_iter().chain(mapped).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
