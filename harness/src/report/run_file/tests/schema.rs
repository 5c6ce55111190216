//! Compares the published schema of a line of the run file with the types that write it.

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{Record, SCHEMA};

/// Returns the schema of one line, followed by a line break.
fn schema() -> String {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Record<'_>>().to_value();
    schema["$id"] = json!(format!("urn:gpu-leak-check:run:{SCHEMA}"));
    schema["title"] = json!(format!(
        "A line of a gpu-leak-check run file, schema {SCHEMA}"
    ));
    let records = schema["oneOf"]
        .as_array_mut()
        .expect("the schema lists the records");
    let known: Vec<Value> = records
        .iter()
        .map(|record| record["properties"]["record"]["const"].clone())
        .collect();
    records.push(json!({
        "description": "A record of a later release, which readers skip.",
        "type": "object",
        "properties": { "record": { "type": "string", "not": { "enum": known } } },
        "required": ["record"],
    }));
    as_text(&mut schema);
    serde_json::to_string_pretty(&schema).expect("the schema can be written as JSON") + "\n"
}

/// Removes rustdoc's links from the descriptions, which come from comments.
fn as_text(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace("[`", "`").replace("`]", "`");
                while let Some((start, end)) = link_target(text) {
                    text.replace_range(start..end, "");
                }
            }
            fields.values_mut().for_each(as_text);
        }
        Value::Array(values) => values.iter_mut().for_each(as_text),
        _ => {}
    }
}

/// Returns the range of `(crate::…)` in `text`.
fn link_target(text: &str) -> Option<(usize, usize)> {
    let start = text.find("(crate::")?;
    Some((start, start + text[start..].find(')')? + 1))
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let name = format!("../docs/schema/run-{SCHEMA}.json");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let schema = schema();
    if std::env::var_os("SCHEMA_BLESS").is_some() {
        fs::write(&path, &schema).unwrap();
    }
    let published = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == schema,
        "{} does not match the types. If fields or records were only added, write it again with \
         SCHEMA_BLESS=1; if a reader of the old schema would misunderstand the new files, also \
         increase SCHEMA",
        path.display()
    );
}
