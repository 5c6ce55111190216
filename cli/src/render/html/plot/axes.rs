//! The coordinates of calls and amounts in a picture.

use gpu_leak_check::report::check_report::TimelineRun;

/// The size of the picture in its own units, and its margins.
pub(super) const WIDTH: f64 = 760.0;
pub(super) const HEIGHT: f64 = 190.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 18.0;
pub(super) const BOTTOM: f64 = 34.0;
/// The space between two runs.
const GAP: f64 = 6.0;

/// A text and its position.
#[derive(Debug)]
pub(in super::super) struct Text {
    pub(in super::super) x: String,
    pub(in super::super) y: String,
    pub(in super::super) text: String,
}

/// The horizontal extent of a run.
pub(super) struct RunSpan {
    pub(super) left: f64,
    pub(super) width: f64,
    pub(super) calls: u64,
}

impl RunSpan {
    /// Returns the coordinate of a call.
    pub(super) fn x(&self, call: u64) -> f64 {
        let all = self.calls as f64 + 1.0;
        let part = (call as f64).min(all) / all;
        self.left + self.width * part
    }
}

/// Returns the extents of the runs, which are placed side by side.
pub(super) fn spans(runs: &[TimelineRun]) -> Vec<RunSpan> {
    let gaps = GAP * (runs.len().saturating_sub(1)) as f64;
    let room = WIDTH - LEFT - RIGHT - gaps;
    // A damaged run file may contain any number of calls, so the sum must not be an integer, which
    // could overflow.
    let all: f64 = runs.iter().map(|run| run.calls as f64 + 1.0).sum();
    let mut left = LEFT;
    let mut span = |run: &TimelineRun| {
        // Half of the width is shared equally, so that every run can be seen.
        let equal_share = 0.5 / runs.len() as f64;
        let by_calls = 0.5 * (run.calls as f64 + 1.0) / all;
        let width = room * (equal_share + by_calls);
        let span = RunSpan {
            left,
            width,
            calls: run.calls,
        };
        left += width + GAP;
        span
    };
    runs.iter().map(&mut span).collect()
}

/// The vertical axis.
pub(super) struct Scale {
    top: f64,
    step: u64,
}

impl Scale {
    /// Creates a scale from 0 to a little above `most`, with three to five lines at round numbers.
    pub(super) fn to(most: u64, of_handles: bool) -> Self {
        let most = most.max(1);
        let step = if of_handles {
            let rough = most.div_ceil(4).max(1);
            let tens = 10_u64.pow(rough.ilog10());
            [1, 2, 5, 10]
                .map(|by: u64| by.saturating_mul(tens))
                .into_iter()
                .find(|step| *step >= rough)
                .unwrap_or(rough)
        } else {
            most.div_ceil(4)
                .checked_next_power_of_two()
                .unwrap_or(1 << 63)
        };
        Self {
            top: most as f64 * 1.08,
            step,
        }
    }

    pub(super) fn y(&self, value: u64) -> f64 {
        let part = value as f64 / self.top;
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * part.min(1.0)
    }

    fn values(&self) -> impl Iterator<Item = u64> {
        let values = (0_u64..).map_while(|times| times.checked_mul(self.step));
        values.take_while(|value| *value as f64 <= self.top).take(6)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.values()
            .map(|value| coordinate(self.y(value)))
            .collect()
    }

    pub(super) fn ticks(&self, amount: fn(u64) -> String) -> Vec<Text> {
        let tick = |value| Text {
            x: coordinate(LEFT - 6.0),
            y: coordinate(self.y(value) + 4.0),
            text: amount(value),
        };
        self.values().map(tick).collect()
    }
}

/// Formats a coordinate for SVG, with no more precision than is visible.
pub(super) fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
