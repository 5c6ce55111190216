//! How usage changed while a check ran.

use serde::{Deserialize, Serialize};

use super::Figure;
#[cfg(doc)]
use super::{DeviceTable, Row, When};
use crate::ledger::Place;

/// How what was held moved while the check ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// The runs of the body, in their order.
    pub runs: Vec<TimelineRun>,
    /// How many rounds before the last ones are left out.
    #[serde(default)]
    pub left_out: u64,
}

/// One run of the body. Its moments are allocating and freeing calls of the process, from 1, as in
/// [`When`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct TimelineRun {
    /// What it was for.
    pub purpose: RunPurpose,
    /// How many calls there were until all that comes back had come back.
    pub calls: u64,
    /// How many of them until the body had ended; what follows is the check, emptying caches.
    pub body: u64,
    /// A curve for each figure that moved.
    pub curves: Vec<Course>,
}

/// What a run of the body is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RunPurpose {
    /// To be judged.
    #[default]
    Judged,
    /// To confirm what the one before it found.
    Confirming,
    /// One of several that are judged together.
    Round,
}

/// How one figure of [`DeviceTable`] moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Course {
    /// Where.
    pub place: Place,
    /// As in [`Row::layer`].
    pub layer: String,
    /// What is counted.
    pub figure: Figure,
    /// The value when the run began.
    pub start: u64,
    /// The most at any moment, to the byte; of what is reserved, the most that was read.
    pub peak: u64,
    /// In the order of their calls, at most some 250. Of what is reserved only what was read: before
    /// the body, at its end and after it.
    pub points: Vec<Point>,
}

impl Course {
    /// Returns the value at the end.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.points.last().map_or(self.start, |point| point.2)
    }
}

/// From this call up to the next point's, the figure was between the least and the most: `[call,
/// least, most]`. Up to a hundred calls each has its point, with one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Point(pub u64, pub u64, pub u64);
