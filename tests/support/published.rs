//! Validates run files against their published schema.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;

/// Validates each line of the run file at `path` against the published schema.
///
/// # Panics
///
/// Panics if a line is not valid.
pub fn assert_published(path: &Path) {
    static SCHEMA: OnceLock<jsonschema::Validator> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| {
        let published = include_str!("../../docs/schema/run-1.json");
        let published = serde_json::from_str(published).expect("JSON");
        jsonschema::validator_for(&published).expect("a schema")
    });
    let text = fs::read_to_string(path).expect("a run file");
    for line in text.lines() {
        let line = serde_json::from_str(line).expect("JSON");
        if let Err(wrong) = schema.validate(&line) {
            let wrong = deepest(&wrong);
            panic!(
                "{}: a line does not conform to docs/schema/run-1.json: `{}`: {wrong}\n\
                 If a field or a value was added, run `make generated`. The line is\n{line}",
                path.display(),
                wrong.instance_path(),
            );
        }
    }
}

/// Returns the error furthest inside the value. A line must conform to one of several records, and
/// the error of the record that it almost conforms to is furthest inside.
fn deepest<'a>(wrong: &'a ValidationError<'_>) -> &'a ValidationError<'a> {
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) =
        wrong.kind()
    else {
        return wrong;
    };
    let depth = |wrong: &&ValidationError<'_>| wrong.instance_path().as_str().matches('/').count();
    let inside = context.iter().flatten().map(|wrong| deepest(wrong));
    let inside = inside.filter(|inside| depth(inside) > depth(&wrong));
    inside.max_by_key(depth).unwrap_or(wrong)
}
