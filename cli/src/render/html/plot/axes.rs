//! Where calls and amounts lie in a picture.

use gpu_leak_check::report::model::TimelineRun;

use super::Text;

/// The picture, in its own units, and what lies around the curves.
pub(super) const WIDTH: f64 = 760.0;
pub(super) const HEIGHT: f64 = 190.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 18.0;
pub(super) const BOTTOM: f64 = 34.0;
/// Between two runs.
const GAP: f64 = 6.0;

/// Where the calls of a run lie.
pub(super) struct Lies {
    pub(super) left: f64,
    pub(super) width: f64,
    pub(super) calls: u64,
}

impl Lies {
    /// A call stands between the one before it and the one after it.
    pub(super) fn x(&self, call: u64) -> f64 {
        let part = call.min(self.calls + 1) as f64 / (self.calls + 1) as f64;
        self.left + self.width * part
    }
}

/// One for each run, side by side.
pub(super) fn boxes(runs: &[TimelineRun]) -> Vec<Lies> {
    let gaps = GAP * (runs.len().saturating_sub(1)) as f64;
    let room = WIDTH - LEFT - RIGHT - gaps;
    let all: u64 = runs.iter().map(|run| run.calls + 1).sum();
    let mut left = LEFT;
    let mut lie = |run: &TimelineRun| {
        // Half of the room is shared alike, so that no run is too narrow to be seen.
        let alike = 0.5 / runs.len() as f64;
        let by_calls = 0.5 * (run.calls + 1) as f64 / all as f64;
        let width = room * (alike + by_calls);
        let lies = Lies {
            left,
            width,
            calls: run.calls,
        };
        left += width + GAP;
        lies
    };
    runs.iter().map(&mut lie).collect()
}

/// The upright axis.
pub(super) struct Scale {
    top: f64,
    step: u64,
}

impl Scale {
    /// From 0 to a little above `most`, with three to five lines at round numbers.
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
        self.values().map(|value| unit(self.y(value))).collect()
    }

    pub(super) fn ticks(&self, amount: fn(u64) -> String) -> Vec<Text> {
        let tick = |value| Text {
            x: unit(LEFT - 6.0),
            y: unit(self.y(value) + 4.0),
            text: amount(value),
        };
        self.values().map(tick).collect()
    }
}

/// A coordinate, no finer than can be seen.
pub(super) fn unit(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
