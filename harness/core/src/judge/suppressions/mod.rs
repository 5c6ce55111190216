//! The entries of the attribute and of the configuration file that let a resource stay, and the
//! patterns in them.

#[cfg(test)]
mod tests;

use std::fmt;

use gpu_leak_check_options::PATTERN_WORDS;
use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use crate::call_site::allocators;
use crate::ledger::Kind;
use crate::report::{AllowedBy, Finding, FindingKind, Frame, Site, named};
use crate::units::{count, exact_size, quantity, total};

/// An entry that says which resources may stay, and under which conditions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Suppression {
    /// The pattern that resources must match.
    pub matches: Pattern,
    /// If set, only resources of this kind match.
    pub kind: Option<Kind>,
    /// The largest number of bytes that may stay in one test.
    pub up_to: Option<u64>,
    /// The largest number of resources that may stay in one test.
    pub up_to_count: Option<u64>,
    /// Patterns of the names of tests. The entry applies only in tests whose name matches one of
    /// them. If there are none, it applies in every test.
    pub tests: Vec<String>,
    /// The reason why a matching resource may stay.
    pub reason: String,
    /// Who is responsible for the entry.
    pub owner: Option<String>,
    /// The last day on which the entry is valid without a review.
    pub until: Option<Date>,
    /// Where the entry is written, for messages: `the attribute`, `gpu-leak-check.toml:12`.
    pub stands_in: String,
}

/// Where the entries of an attribute and of a block's own code are written.
const ATTRIBUTE: &str = "the attribute";

named! {
    /// What a pattern is compared with.
    #[derive(Default)]
    #[serde(rename_all = "kebab-case")]
    pub enum PatternKind {
        /// The function of the line that the report points at, or the function through which that
        /// line called the API.
        #[default]
        Site = "at",
        /// A function on the stack.
        Function = "fn",
        /// The source file of a function on the stack.
        File = "file",
        /// A library whose code is on the stack, by file or by name.
        Library = "lib",
        /// A caching allocator that the stack passes through, by the name of its probe.
        Allocator = "allocator",
        /// The whole stack.
        Fingerprint = "fingerprint",
    }
}

/// The pattern of an entry, with the wildcards `*` and `?`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pattern {
    /// What the pattern is compared with.
    pub kind: PatternKind,
    /// The pattern itself.
    pub text: String,
}

impl Pattern {
    /// Creates the pattern `text` of the kind that `word` names.
    ///
    /// # Errors
    ///
    /// Returns a sentence that says why `word` or `text` is wrong.
    pub fn new(word: &str, text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err(format!("an empty `{word}` matches nothing"));
        }
        if word == "fingerprint" && !is_fingerprint(text) {
            return Err(format!(
                "`{text}` is not a fingerprint: fingerprints, as found in run files, look like \
                 1-0123456789abcdef"
            ));
        }
        let kind = PatternKind::ALL.iter().find(|kind| kind.name() == word);
        let kind = kind.ok_or_else(|| {
            format!(
                "a pattern must begin with one of {}, as in `fn:optim::Adam::*`",
                PATTERN_WORDS.join(", ")
            )
        })?;
        Ok(Self {
            kind: *kind,
            text: text.to_owned(),
        })
    }

    fn matches(&self, site: &Site) -> bool {
        let pattern = WildMatch::new(&self.text);
        let any = |of: fn(&Frame) -> Option<&str>| {
            let mut names = site.frames.iter().filter_map(of);
            names.any(|name| pattern.matches(name))
        };
        let is_inlined = |frame: &Frame| matches_inlined(&self.text, frame);
        match self.kind {
            PatternKind::Site => {
                let is_at = |frame: &Frame| {
                    let name = frame.function.as_ref();
                    name.is_some_and(|name| pattern.matches(name)) || is_inlined(frame)
                };
                let outside = site.outside_wrapper();
                [site, &outside]
                    .into_iter()
                    .filter_map(Site::user_frame)
                    .any(is_at)
            }
            PatternKind::Function => {
                any(|frame| frame.function.as_deref()) || site.frames.iter().any(is_inlined)
            }
            PatternKind::File => any(|frame| frame.file.as_deref()),
            PatternKind::Library => {
                let library = site.library.iter();
                let names = library.flat_map(|it| [Some(&it.name), it.file.as_ref()]);
                names.flatten().any(|name| pattern.matches(name))
                    || any(|frame| frame.module.as_deref())
            }
            PatternKind::Allocator => {
                let found = allocators::of(&site.frames);
                found.is_some_and(|found| pattern.matches(found.name))
            }
            PatternKind::Fingerprint => site.fingerprint == self.text,
        }
    }
}

/// Formats the pattern as in the configuration file: `at = "optim::Adam::step"`.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = \"{}\"", self.kind.name(), self.text)
    }
}

/// Whether `text` is a version followed by 16 hexadecimal digits.
fn is_fingerprint(text: &str) -> bool {
    text.split_once('-').is_some_and(|(version, digits)| {
        !version.is_empty()
            && version.bytes().all(|byte| byte.is_ascii_digit())
            && digits.len() == 16
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

impl Suppression {
    /// Creates an attribute's entry for resources that match `matches`.
    pub fn of_pattern(matches: Pattern) -> Self {
        Self {
            matches,
            stands_in: ATTRIBUTE.to_owned(),
            ..Self::default()
        }
    }

    /// Whether the entry is in a configuration file, which applies to all checks of a test.
    pub fn is_in_file(&self) -> bool {
        self.stands_in != ATTRIBUTE
    }

    /// Whether the entry applies in `test`.
    pub fn is_for(&self, test: &str) -> bool {
        let is_named = |pattern: &String| WildMatch::new(pattern).matches(test);
        self.tests.is_empty() || self.tests.iter().any(is_named)
    }

    /// Whether the entry decides what happens to `finding` of `test`, unless an earlier entry does.
    pub fn is_about(&self, test: &str, finding: &Finding) -> bool {
        finding.can_be_allowed()
            && self.is_for(test)
            && self.kind.is_none_or(|kind| finding.resource == Some(kind))
            && self.matches.matches(&finding.site)
    }

    /// Returns the day on which the entry expired, if it has.
    fn expired_on(&self, today: Date) -> Option<Date> {
        self.until.filter(|until| *until < today)
    }

    /// Returns a note if the entry has expired.
    fn expired(&self, today: Date) -> Option<String> {
        let until = self.expired_on(today)?;
        let owner = self.owner.as_ref();
        let ask = owner.map_or_else(String::new, |owner| format!("; ask {owner}"));
        Some(format!(
            "{} ({}) expired on {until} but still applies{ask}",
            self.stands_in, self.reason
        ))
    }

    fn allows(&self, today: Date) -> AllowedBy {
        AllowedBy {
            stands_in: self.stands_in.clone(),
            reason: self.reason.clone(),
            owner: self.owner.clone(),
            expired: self.expired_on(today).map(|until| until.to_string()),
        }
    }
}

/// Changes the kind of each finding of `test` to [allowed](FindingKind::Allowed) if an entry allows
/// it. The first entry that matches a finding decides, even if its limits are too small. Returns
/// notes about expired entries.
pub fn apply(
    entries: &[Suppression],
    today: Date,
    test: &str,
    findings: &mut [&mut Finding],
) -> Vec<String> {
    let first = |finding: &Finding| {
        let is_about = |entry: &Suppression| entry.is_about(test, finding);
        entries.iter().position(is_about)
    };
    let of_each: Vec<_> = findings.iter().map(|finding| first(finding)).collect();
    let mut expired = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let pairs = findings.iter_mut().zip(&of_each);
        let own = pairs.filter(|(_, of)| **of == Some(index));
        let own: Vec<_> = own.map(|(finding, _)| finding).collect();
        if own.is_empty() {
            continue;
        }
        expired.extend(entry.expired(today));
        let bytes = total(own.iter().map(|finding| finding.bytes));
        let number = total(own.iter().map(|finding| finding.count));
        let too_large = entry.up_to.filter(|limit| bytes > *limit);
        let too_many = entry.up_to_count.filter(|limit| number > *limit);
        let noun = match own
            .iter()
            .any(|it| it.resource.is_some_and(Kind::is_handle))
        {
            true => "object",
            false => "allocation",
        };
        let limits = [
            too_many.map(|limit| (quantity(limit, noun), count(number))),
            too_large.map(|limit| (exact_size(limit), exact_size(bytes))),
        ];
        let (limits, reached): (Vec<_>, Vec<_>) = limits.into_iter().flatten().unzip();
        // The limits apply to all findings of an entry together.
        let these = if own.len() == 1 {
            "this finding has"
        } else {
            "all matching findings together have"
        };
        let exceeded = format!(
            "{} allows up to {}, but {these} {}",
            entry.stands_in,
            limits.join(" and "),
            reached.join(" and ")
        );
        for finding in own {
            if limits.is_empty() {
                finding.kind = FindingKind::Allowed;
                finding.allowed_by = Some(entry.allows(today));
            } else {
                finding.notes.push(exceeded.clone());
                finding.exceeds = Some(entry.stands_in.clone());
            }
        }
    }
    expired
}

/// A day of the Gregorian calendar, in UTC, as in the `until` of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// Creates a date.
    pub const fn new(year: u16, month: u8, day: u8) -> Self {
        Self { year, month, day }
    }

    /// Returns the date that is this many days after 1970-01-01, computed with Howard Hinnant's
    /// [`civil_from_days`](https://howardhinnant.github.io/date_algorithms.html).
    pub fn from_days(days: u64) -> Self {
        // Years that begin in March end with the leap day. Four hundred such years have 146,097
        // days.
        let days = days + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Self::new(year as u16, month as u8, day as u8)
    }
}

/// Formats as `2026-12-31`.
impl fmt::Display for Date {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Whether `pattern`, written for a function with its path, matches the frame of an inlined
/// function: the last segment of the pattern matches the bare name, and one of its other segments
/// is the file's module.
///
/// In an unoptimised build, `optim::Adam::step` has its full name in a backtrace. In an optimised
/// build with `debug = "line-tables-only"`, line tables contain only the bare name and the file of
/// an inlined function: `step` in `src/optim.rs`. An entry written for one build must also match in
/// the other.
fn matches_inlined(pattern: &str, frame: &Frame) -> bool {
    let (Some(function), Some(file)) = (&frame.function, &frame.file) else {
        return false;
    };
    let Some((path, last)) = pattern.rsplit_once("::") else {
        return false;
    };
    let is_bare = !function.contains("::") && !function.starts_with('{');
    let module = module(file);
    let is_module = |word: &str| !word.is_empty() && WildMatch::new(word).matches(&module);
    is_bare && WildMatch::new(last).matches(function) && path.split("::").any(is_module)
}

/// Returns `optim` for `src/optim.rs` and `src/optim/mod.rs`, and the crate's name for a crate's
/// root.
fn module(file: &str) -> String {
    let mut parts = file.rsplit(['/', '\\']);
    let stem = parts.next().and_then(|name| name.strip_suffix(".rs"));
    let is_root = |name: &&str| matches!(*name, "mod" | "lib" | "main");
    let module = match stem.filter(|name| !is_root(name)) {
        Some(stem) => stem,
        None => parts
            .find(|directory| *directory != "src")
            .unwrap_or_default(),
    };
    module.replace('-', "_")
}
