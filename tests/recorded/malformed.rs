//! Files that are not recordings, and damaged recordings. Reading one causes at most a single
//! error, which names the file and the line, but never a panic.

use std::fs;
use std::path::Path;

use gpu_leak_check::recording;
use serde_json::{Value, json};

/// A real recording, with a leak.
const RECORDING: &str = include_str!("../recordings/stand-in-keeps_an_allocation.jsonl");

/// Fails unless the file is judged, or rejected with a message that contains its name and the
/// number of one of its lines.
#[track_caller]
fn assert_judged_or_refused(path: &Path, content: &[u8]) -> Option<String> {
    fs::write(path, content).expect("a writable directory");
    let error = recording::replay(path).err()?.to_string();
    let place = format!("{}:", path.display());
    let rest = error.strip_prefix(&place);
    let rest = rest.unwrap_or_else(|| panic!("no file in {error:?}"));
    if let Some((line, _)) = rest.split_once(": ")
        && let Ok(line) = line.parse::<usize>()
    {
        let lines = content.split(|byte| *byte == b'\n').count();
        assert!((1..=lines).contains(&line), "{error}");
    }
    Some(error)
}

#[test]
fn a_recording_cut_off_anywhere_is_judged_as_far_as_it_goes() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("cut.jsonl");
    let first = RECORDING.find('\n').expect("a header");
    for length in (first + 1..RECORDING.len()).step_by(97) {
        let error = assert_judged_or_refused(&path, &RECORDING.as_bytes()[..length]);
        assert_eq!(error, None);
    }
}

#[test]
fn a_recording_without_one_of_its_lines_is_judged_or_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("line.jsonl");
    let lines: Vec<&str> = RECORDING.split_inclusive('\n').collect();
    let is_event = |line: &&str| line.contains(r#""record":"event""#);
    let last_event = lines.iter().rposition(is_event).expect("events");
    for missing in 0..lines.len() {
        let mut rest = lines.clone();
        let line = rest.remove(missing);
        let error = assert_judged_or_refused(&path, rest.concat().as_bytes());
        if is_event(&line) && missing < last_event {
            let error = error.expect("the next event shows it");
            assert!(error.contains("directly follows event"), "{error}");
        }
    }
}

#[test]
fn a_recording_with_any_other_value_is_judged_or_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("value.jsonl");
    let lines: Vec<Value> = RECORDING.lines().map(parsed).collect();
    let strange = [
        json!(u64::MAX),
        json!(-1),
        json!(0),
        json!(1.5),
        json!("allocator:of-nobody"),
        json!(null),
        json!([]),
        json!({}),
    ];
    for number in 0..lines.len() {
        let mut places = Vec::new();
        leaves(&lines[number], String::new(), &mut places);
        for (index, place) in places.iter().enumerate() {
            // Tries a few replacements for each value. The only requirement is that nothing panics.
            let other = &strange[(number + index) % strange.len()];
            let mut changed = lines.clone();
            *changed[number].pointer_mut(place).expect("a value") = other.clone();
            let text: Vec<String> = changed.iter().map(|line| format!("{line}\n")).collect();
            assert_judged_or_refused(&path, text.concat().as_bytes());
        }
    }
}

/// All sizes are impossibly large. Their sums must not overflow.
#[test]
fn a_recording_with_huge_sizes_everywhere_is_judged() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("huge.jsonl");
    let mut text = String::new();
    for mut line in RECORDING.lines().map(parsed) {
        let mut places = Vec::new();
        leaves(&line, String::new(), &mut places);
        for place in places {
            let sizes = ["bytes", "allocated", "peak", "reserved", "live"];
            if sizes
                .iter()
                .any(|size| place.ends_with(&format!("/{size}")))
            {
                *line.pointer_mut(&place).expect("a value") = json!(u64::MAX);
            }
        }
        text += &format!("{line}\n");
    }
    assert_eq!(assert_judged_or_refused(&path, text.as_bytes()), None);
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).expect("a line of JSON")
}

/// Returns the paths of all leaves of `value`.
fn leaves(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                leaves(value, format!("{path}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                leaves(value, format!("{path}/{name}"), found);
            }
        }
        _ => found.push(path),
    }
}
