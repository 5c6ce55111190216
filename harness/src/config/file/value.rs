//! Values in the configuration file, and the errors for invalid values.

use gpu_leak_check_options::units;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Value;
use toml::value::Datetime;
use wildmatch::WildMatch;

use crate::judge::suppressions::Date;

/// The name of a layer. It is never freed, because the file is read only once per process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer(pub(super) &'static str);

impl<'de> Deserialize<'de> for Layer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        gpu_leak_check_options::layer(&text).map_err(de::Error::custom)?;
        Ok(Self(Box::leak(text.into_boxed_str())))
    }
}

/// Parses a TOML date, which has no quotes.
pub(super) fn date<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Date>, D::Error> {
    let what = "a date is written without quotes and without a time: until = 2026-12-31";
    match Datetime::deserialize(from) {
        Ok(Datetime {
            date: Some(date),
            time: None,
            offset: None,
        }) => Ok(Some(Date::new(date.year, date.month, date.day))),
        _ => Err(de::Error::custom(what)),
    }
}

/// A whole number.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenNumber<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for WrittenNumber<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let what = |_| de::Error::custom("expected a whole number without quotes, such as 3");
        T::deserialize(from).map(Self).map_err(what)
    }
}

/// A number of rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds(pub(super) u32);

impl<'de> Deserialize<'de> for Rounds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let WrittenNumber(number) = WrittenNumber::deserialize(from)?;
        let rounds = gpu_leak_check_options::rounds(number);
        rounds.map(Self).map_err(de::Error::custom)
    }
}

/// `true` or `false`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Flag(pub(super) bool);

pub(super) fn pattern<'de, D: Deserializer<'de>>(from: D) -> Result<Option<WildMatch>, D::Error> {
    let text = String::deserialize(from)?;
    names_a_test(&text)?;
    Ok(Some(WildMatch::new(&text)))
}

fn names_a_test<E: de::Error>(pattern: &str) -> Result<(), E> {
    match pattern.is_empty() {
        true => Err(E::custom(
            "an empty pattern matches no test: `*` matches every test",
        )),
        false => Ok(()),
    }
}

/// Parses a list of names in brackets.
pub(super) fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let what = |_| de::Error::custom("expected a list of names in quotes, such as [\"train::*\"]");
    let names: Vec<String> = Vec::deserialize(from).map_err(what)?;
    if names.is_empty() {
        // Without this key, an entry applies in every test.
        let what = "an empty list names no test: remove the entry, or name its tests";
        return Err(de::Error::custom(what));
    }
    names.iter().try_for_each(|name| names_a_test(name))?;
    Ok(names)
}

/// A size: a whole number of bytes, or text with a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenSize(pub(super) u64);

impl<'de> Deserialize<'de> for WrittenSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let size = match Value::deserialize(from)? {
            Value::Integer(bytes) => u64::try_from(bytes)
                .map_err(|_| format!("{bytes} bytes: a size cannot be negative")),
            Value::String(text) => units::bytes(&text),
            _ => Err(
                "expected a whole number of bytes, or a size in quotes such as \"1 MiB\""
                    .to_owned(),
            ),
        };
        size.map(Self).map_err(de::Error::custom)
    }
}
