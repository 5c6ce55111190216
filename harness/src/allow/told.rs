//! What a finding's note tells of the entry that allowed it.

/// How such a note begins.
pub(super) const ALLOWED_BY: &str = "allowed by ";
/// What stands before the day on which its entry expired.
pub(super) const EXPIRED: &str = "; this entry expired on ";

/// An entry, as a note tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<'note> {
    /// Where it stands: `the attribute`, `gpu-leak-check.toml:12`.
    pub stands_in: &'note str,
    /// The day on which it expired.
    pub expired: Option<&'note str>,
}

impl<'note> Told<'note> {
    /// The entry that `note` is about; none where it is about something else.
    #[must_use]
    pub fn of(note: &'note str) -> Option<Self> {
        let (stands_in, reason) = note.strip_prefix(ALLOWED_BY)?.split_once(": ")?;
        Some(Self {
            stands_in,
            expired: reason.rsplit_once(EXPIRED).map(|(_, day)| day),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Told;
    use crate::allow::{Date, Entry, Pattern};

    fn note(until: Option<Date>) -> String {
        let entry = Entry {
            matches: Pattern::new("fn", "*").unwrap(),
            kind: None,
            up_to: None,
            reason: "shared: by all".to_owned(),
            owner: Some("us".to_owned()),
            until,
            stands_in: "gpu-leak-check.toml:12".to_owned(),
        };
        entry.note(Date::new(2026, 6, 1))
    }

    #[test]
    fn a_note_is_read_back() {
        let told = |expired| Told {
            stands_in: "gpu-leak-check.toml:12",
            expired,
        };
        assert_eq!(Told::of(&note(None)), Some(told(None)));
        assert_eq!(
            Told::of(&note(Some(Date::new(2026, 12, 31)))),
            Some(told(None))
        );
        assert_eq!(
            Told::of(&note(Some(Date::new(2026, 5, 31)))),
            Some(told(Some("2026-05-31")))
        );
        assert_eq!(Told::of("keeps 2.00 MiB of the reserve"), None);
    }
}
