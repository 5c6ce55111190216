//! Validates run files against their published schema.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

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
            panic!(
                "{}: a line does not conform to docs/schema/run-1.json, at `{}`: {line}\n\
                 If a field or a value was added, run `SCHEMA_BLESS=1 cargo test -p gpu-leak-check --lib schema`.",
                path.display(),
                wrong.instance_path(),
            );
        }
    }
}
