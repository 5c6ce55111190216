//! The name and location of a check.

use std::panic::Location;
use std::sync::Arc;
use std::thread;

use super::scopes::open::current;
use super::scopes::tree;
use crate::case::Case;
use crate::judge::Subject;
use crate::registry;
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

/// Returns the subject of a block called `name` at this location. If the block is inside a check or
/// an annotated test, its name begins with the name of that check or test (`optim::trains: step`),
/// and it can be run alone with the command of that check or test.
pub(crate) fn subject_at(name: &str, at: &Location<'_>) -> Subject {
    let around = current().map_or_else(unchecked_test, tree::check_around);
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

/// Returns the subject of the annotated test whose body runs on this thread although the test is
/// not checked. The thread has the name of that test.
fn unchecked_test() -> Option<Arc<Subject>> {
    let thread = thread::current();
    let mut cases = registry::cases().into_iter();
    let case = cases.find(|case| thread.name() == Some(case.name()))?;
    Some(Arc::new(subject_of(case)))
}
