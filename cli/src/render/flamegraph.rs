//! A flame graph as a picture: the folded stacks drawn, the wider the more bytes.

use inferno::flamegraph::{self, Direction, Options};

use super::folded;
use crate::exit::{Failure, Outcome};
use crate::run::Run;

pub(super) fn render(run: &Run) -> Outcome<String> {
    let folded = folded::render(run);
    let mut options = Options::default();
    options.title = "GPU memory left behind, by who took it".to_owned();
    options.count_name = "bytes".to_owned();
    // Roots on top, as in a report: the test first, what it left last.
    options.direction = Direction::Inverted;
    // The same run, the same picture.
    options.deterministic = true;
    // What has no bytes has no width: an empty picture says so instead of failing.
    let lines = match &*folded {
        "" => "nothing was left behind 1\n",
        lines => lines,
    };
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.lines(), &mut svg)
        .map_err(|why| Failure::usage(format!("the flame graph cannot be drawn: {why}")))?;
    String::from_utf8(svg)
        .map_err(|why| Failure::usage(format!("the flame graph is no text: {why}")))
}
