//! Checks the keys of the configuration file before its values are read, so that the error for a wrong one names
//! the key that was probably meant.

use std::fmt;

use gpu_leak_check_options::nearest;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde::forward_to_deserialize_any;
use toml::de::{DeTable, DeValue};

use super::{Allowed, Facts, GivenSettings};

/// A table of the file: its key, how its header is written, and the keys in it.
struct Section {
    key: &'static str,
    header: &'static str,
    /// Whether there may be several, in double brackets.
    repeats: bool,
    keys: Vec<&'static str>,
}

fn sections() -> [Section; 4] {
    let section = |key, header, repeats, mut keys: Vec<_>, but: &[&str]| {
        keys.retain(|key| !but.contains(key));
        Section {
            key,
            header,
            repeats,
            keys,
        }
    };
    let facts = keys_of::<Facts>;
    [
        section("run", "[run]", false, keys_of::<GivenSettings>(), &[]),
        section("check", "[check]", false, facts(), &["test"]),
        section("override", "[[override]]", true, facts(), &["every_test"]),
        section("allow", "[[allow]]", true, keys_of::<Allowed>(), &[]),
    ]
}

/// Returns the first key that does not belong where it is, with its offset. A text that is not TOML has none.
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
        match value.get_ref() {
            DeValue::Table(_) if section.repeats => {
                let header = section.header;
                let what = format!("write {header}, with two brackets: there may be several");
                found.push((at, what));
            }
            DeValue::Table(table) => check(table),
            DeValue::Array(entries) => {
                for entry in entries.iter() {
                    if let DeValue::Table(table) = entry.get_ref() {
                        check(table);
                    }
                }
            }
            _ => {}
        }
    }
    found.into_iter().min()
}

/// What to write in place of a key that its table, or the file itself, does not have.
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

/// Returns the keys of the table that is read into a `T`.
fn keys_of<'de, T: Deserialize<'de>>() -> Vec<&'static str> {
    match T::deserialize(Asked) {
        Err(Keys(keys)) => keys.to_vec(),
        Ok(_) => Vec::new(),
    }
}

/// Has no value: a type that is read from it fails with the names of its fields.
struct Asked;

#[derive(Debug)]
struct Keys(&'static [&'static str]);

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl std::error::Error for Keys {}

impl de::Error for Keys {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for Asked {
    type Error = Keys;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Keys> {
        Err(Keys(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Keys> {
        Err(Keys(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::super::File;
    use super::{keys_of, sections};

    #[test]
    fn every_table_of_the_file_has_its_keys() {
        let sections = sections();
        let known = sections.iter().map(|section| section.key);
        assert_eq!(Vec::from_iter(known), keys_of::<File>());
        for section in &sections {
            assert!(!section.keys.is_empty(), "{}", section.header);
        }
    }
}
