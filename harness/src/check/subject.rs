//! The name and location of a check.

use std::panic::Location;

use super::scopes::open::current;
use super::scopes::tree;
use crate::case::Case;
use crate::judge::Subject;
use crate::report::again;

/// Returns the subject of an annotated test.
pub(crate) fn subject_of(case: &Case) -> Subject {
    Subject {
        test: case.name().to_owned(),
        file: case.origin.file.to_owned(),
        line: case.origin.line,
        column: case.origin.column,
        again: again::command(case),
    }
}

/// Returns the subject of a block called `name` at this location. If the block is inside a check,
/// its name begins with the name of that check (`optim::trains: step`), and `again` is the command
/// of that check.
pub(crate) fn subject_at(name: &str, at: &Location<'_>) -> Subject {
    let around = current().and_then(tree::check_around);
    Subject {
        test: around.as_ref().map_or_else(
            || name.to_owned(),
            |check| format!("{}: {name}", check.test),
        ),
        file: at.file().to_owned(),
        line: at.line(),
        column: at.column(),
        again: around.and_then(|check| check.again.clone()),
    }
}
