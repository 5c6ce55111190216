//! A figure without an owner that rose: the sum of a probed allocator, or a reserve.
//!
//! The line and the individual block are unknown. Only the amount by which the figure rose in each
//! run is known. A rise is judged like a leak with a call site: a rise that repeats is not one-time
//! set-up, and with rounds, only a rise in every round is a finding.

use super::finding::{Found, confirmation, of_sum, repeats};
use super::growth::FEWEST_ROUNDS;
use super::input::{CheckInput, RunInput};
use super::usage::{LayerName, LayerUsage};
use crate::ledger::{Amount, Place};
use crate::report::FindingKind;
use crate::units::total;

/// How much one figure rose in each run.
#[derive(Clone, Debug)]
pub(crate) struct Rise {
    pub(crate) name: LayerName,
    pub(crate) place: Place,
    /// The rise in each run that is judged, or 0 if the figure did not rise.
    pub(crate) bytes: Vec<u64>,
}

impl Rise {
    /// Returns every figure that rose in any of `runs`. `risen` returns by how much a figure rose
    /// in a run.
    pub(crate) fn all<'a>(
        runs: impl Iterator<Item = &'a RunInput> + Clone,
        risen: impl Fn(&RunInput, &LayerUsage) -> u64,
    ) -> Vec<Self> {
        let mut rises: Vec<Self> = Vec::new();
        for (at, run) in runs.clone().enumerate() {
            for usage in &run.end.layers {
                let bytes = risen(run, usage);
                let is_it = |rise: &Self| rise.name == usage.name && rise.place == usage.place;
                if bytes != 0 {
                    let index = rises.iter().position(is_it).unwrap_or_else(|| {
                        rises.push(Self {
                            name: usage.name.clone(),
                            place: usage.place,
                            bytes: vec![0; runs.clone().count()],
                        });
                        rises.len() - 1
                    });
                    rises[index].bytes[at] = bytes;
                }
            }
        }
        rises
    }

    /// Returns the largest rise in any run.
    pub(crate) fn most(&self) -> u64 {
        self.bytes.iter().copied().max().unwrap_or(0)
    }

    /// Whether only the second of two runs shows a rise, so that a third run must decide.
    pub(crate) fn is_undecided(&self) -> bool {
        matches!(self.bytes[..], [0, second] if second != 0)
    }

    /// Returns the finding, whose kind is `repeated` if the rise repeats. Returns `None` if there
    /// was no rise or, with rounds, if the figure did not rise in every round.
    pub(crate) fn finding(&self, repeated: FindingKind, input: &CheckInput) -> Option<Found> {
        let in_runs: Vec<bool> = self.bytes.iter().map(|bytes| *bytes != 0).collect();
        let first = self.bytes.iter().copied().find(|bytes| *bytes != 0)?;
        let last = self.bytes.last().copied().unwrap_or_default();
        if input.facts.rounds > 1 {
            let in_each = in_runs.iter().all(|it| *it) && in_runs.len() >= FEWEST_ROUNDS;
            return in_each.then(|| self.grown());
        }
        let kind = match in_runs.len() == 1 || repeats(&in_runs) {
            true => repeated,
            false => FindingKind::FirstUse,
        };
        let bytes = match kind {
            // This is the amount that each run is confirmed to lose.
            FindingKind::Leaked => first.min(last),
            _ => first,
        };
        let mut finding = of_sum(kind, self.name.layer(), self.place, bytes);
        if kind == repeated {
            let last = Amount {
                count: 1,
                bytes: last,
            };
            finding.confirmed = confirmation(&in_runs, last);
        }
        let charged = match kind == repeated {
            true => self.bytes.clone(),
            false => vec![self.most()],
        };
        Some(Found {
            charged,
            ..Found::sum(finding)
        })
    }

    fn grown(&self) -> Found {
        let sum = total(self.bytes.iter().copied());
        let mut finding = of_sum(FindingKind::Grew, self.name.layer(), self.place, sum);
        let levels = self.bytes.iter().scan(0_u64, |level, bytes| {
            *level = level.saturating_add(*bytes);
            Some(Amount {
                count: 1,
                bytes: *level,
            })
        });
        finding.rounds = levels.collect();
        Found::sum(finding)
    }
}
