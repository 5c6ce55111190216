//! Checks the keys of the configuration file before its values are read, so that the error for a
//! unknown key can suggest the key that was probably meant.

use gpu_leak_check_options::{PATTERN_WORDS, nearest};
use toml::de::{DeTable, DeValue};

use super::{Allowed, GivenSettings, WrittenOptions};

/// A table of the file: its key, its header as written, and the keys in it.
struct Section {
    key: &'static str,
    header: &'static str,
    /// Whether the file may contain several such tables, in double brackets.
    repeats: bool,
    keys: Vec<&'static str>,
}

fn sections() -> [Section; 4] {
    let allowed = [&PATTERN_WORDS, Allowed::CONDITIONS].concat();
    let section = |key, header, repeats, keys: &[&'static str], except| Section {
        key,
        header,
        repeats,
        keys: keys.iter().copied().filter(|it| *it != except).collect(),
    };
    let options = WrittenOptions::KEYS;
    [
        section("run", "[run]", false, GivenSettings::KEYS, ""),
        section("check", "[check]", false, options, "test"),
        section("override", "[[override]]", true, options, "every_test"),
        section("allow", "[[allow]]", true, &allowed, ""),
    ]
}

/// Returns the first key that does not belong where it is, as its offset and an error message.
/// Returns `None` if the text is not TOML.
pub(super) fn misplaced(text: &str) -> Option<(usize, String)> {
    let table = DeTable::parse(text).ok()?;
    let sections = sections();
    let mut found = Vec::new();
    for (key, value) in table.get_ref() {
        let (at, written) = (key.span().start, key.get_ref());
        let Some(section) = sections.iter().find(|section| section.key == *written) else {
            found.push((at, unknown(written, None, &sections)));
            continue;
        };
        let mut check = |table: &DeTable<'_>| {
            let unknown_here = table.keys().filter(|key| {
                let written: &str = key.get_ref();
                !section.keys.contains(&written)
            });
            found.extend(unknown_here.map(|key| {
                let what = unknown(key.get_ref(), Some(section), &sections);
                (key.span().start, what)
            }));
        };
        let header = section.header;
        match value.get_ref() {
            DeValue::Table(_) if section.repeats => {
                let what = format!(
                    "write {header} with double brackets: the file may contain several such tables"
                );
                found.push((at, what));
            }
            DeValue::Table(table) => check(table),
            DeValue::Array(entries)
                if section.repeats && entries.iter().all(|entry| entry.get_ref().is_table()) =>
            {
                let tables = entries
                    .iter()
                    .filter_map(|entry| entry.get_ref().as_table());
                tables.for_each(check);
            }
            _ => found.push((
                at,
                format!("write {header}, and its keys on the lines below"),
            )),
        }
    }
    found.into_iter().min()
}

/// Returns the error message for a key that its table, or the top level of the file, does not have.
fn unknown(written: &str, inside: Option<&Section>, sections: &[Section]) -> String {
    let elsewhere = sections.iter().filter(|it| it.keys.contains(&written));
    let elsewhere: Vec<_> = elsewhere.map(|it| it.header).collect();
    if !elsewhere.is_empty() {
        return format!("`{written}` belongs in {}", elsewhere.join(" or "));
    }
    let known = match inside {
        Some(section) => section.keys.clone(),
        None => sections.iter().map(|it| it.key).collect(),
    };
    let written_shown = written.escape_debug();
    match nearest(written, known.iter().copied()) {
        Some(meant) => format!("unknown key `{written_shown}`, did you mean `{meant}`?"),
        None => format!(
            "unknown key `{written_shown}`, expected one of {}",
            known.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::File;
    use super::sections;

    #[test]
    fn every_key_is_one_that_is_read() {
        for section in sections() {
            let header = section.header;
            for key in section.keys {
                // No key takes a table as its value, so the error must be about the value and not
                // about the key.
                let error = File::parse(&format!("{header}\n{key} = {{}}"), "f.toml").unwrap_err();
                assert!(!error.1.contains("unknown"), "{header} {key}: {}", error.1);
            }
        }
    }
}
