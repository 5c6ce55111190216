//! A flame graph as SVG, drawn from the folded stacks. The width of a frame represents its bytes.

use inferno::flamegraph::{self, Direction, Options};

use super::folded;
use crate::exit::{ExitResult, Failure};
use crate::run::Run;

pub(super) fn render(run: &Run) -> ExitResult<Vec<u8>> {
    let folded = folded::render(run);
    let mut options = Options::default();
    options.title = "GPU memory left behind, by call stack".to_owned();
    options.count_name = "bytes".to_owned();
    // The test is at the top and the allocation at the bottom, as in a report.
    options.direction = Direction::Inverted;
    // The same run always gives the same picture.
    options.deterministic = true;
    // inferno fails for an empty input.
    let lines = match &*folded {
        "" => "no memory was left behind 1\n",
        lines => lines,
    };
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.lines(), &mut svg)
        .map_err(|why| Failure::usage(format!("cannot draw the flame graph: {why}")))?;
    Ok(svg)
}
