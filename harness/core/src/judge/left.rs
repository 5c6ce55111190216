//! Decides whether a run left anything. If it did, the check waits for frees that are in flight.
//! This happens long before the check is judged.

use super::diff::is_own;
use super::input::{LiveRecord, Ownership, RunInput};
use super::reserve::is_more_reserved;
use super::usage::{LayerName, LayerUsage};
use crate::ledger::StackId;

/// Whether anything is left that a free in flight could still free. `is_cudas_own` says whether
/// one of CUDA's own libraries made the call with this backtrace.
pub fn is_anything_left(run: &RunInput, is_cudas_own: impl Fn(StackId) -> bool) -> bool {
    let is_left = |live: &LiveRecord| {
        matches!(live.owner, Ownership::Session | Ownership::Foreign(_))
            && is_own(live, run, &is_cudas_own)
    };
    // The record of a resource whose free is in flight is not live, so the figures of pools and
    // probes are also compared.
    let is_read = |usage: &LayerUsage| !matches!(usage.name, LayerName::Layer(_));
    run.live.iter().any(is_left)
        || !run.anomalies.is_empty()
        || is_more_reserved(run)
        || rose(run, is_read)
}

/// Whether a sum that only a probe counts, or a reserve, rose in a run.
pub(crate) fn sum_or_reserve_rose(run: &RunInput) -> bool {
    is_more_reserved(run) || rose(run, |usage| matches!(usage.name, LayerName::Probe(_)))
}

/// Whether any layer for which `is_counted` holds has handed out more than at the baseline.
fn rose(run: &RunInput, is_counted: impl Fn(&LayerUsage) -> bool) -> bool {
    run.end.layers.iter().any(|usage| {
        let before = run.baseline.layer(&usage.name, usage.place);
        is_counted(usage) && usage.allocated > before.map_or(0, |it| it.allocated)
    })
}
