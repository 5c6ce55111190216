//! Entries of any content, against stacks of any names: see [`crate::__fuzz`].

use super::{Date, Pattern, Suppression, settle};
use crate::judge;
use crate::report::fuzz::leak;
use crate::report::model::FindingKind;

/// A pattern as an attribute has it, a reason, and the names of a stack, a line each.
///
/// # Panics
///
/// When that does not hold.
pub fn patterns(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let (word, pattern) = lines
        .next()
        .and_then(|line| line.split_once(':'))
        .unwrap_or_default();
    let reason = lines.next().unwrap_or_default().to_owned();
    let findings: Vec<_> = lines.map(|name| leak(&[name])).collect();
    let Ok(matches) = Pattern::new(word, pattern) else {
        return;
    };
    let entry = Suppression {
        matches,
        kind: None,
        up_to: None,
        reason,
        owner: None,
        until: None,
        stands_in: "gpu-leak-check.toml:12".to_owned(),
    };
    let today = Date::new(2026, 6, 1);
    for until in [None, Some(Date::new(2000, 1, 1))] {
        let mut allowed = findings.clone();
        let entry = Suppression {
            until,
            ..entry.clone()
        };
        let expired = settle(&[entry], today, &mut allowed.iter_mut().collect::<Vec<_>>());
        let by = || {
            allowed
                .iter()
                .filter_map(|finding| finding.allowed_by.as_ref())
        };
        for by in by() {
            assert_eq!(by.stands_in, "gpu-leak-check.toml:12", "{by:?}");
        }
        let are_allowed = allowed
            .iter()
            .filter(|finding| finding.kind == FindingKind::Allowed);
        assert_eq!(are_allowed.count(), by().count());
        assert_eq!(
            expired.len(),
            usize::from(until.is_some() && by().next().is_some())
        );
        let bytes = |all: &[_]| {
            judge::total(
                all.iter()
                    .map(|finding: &crate::report::model::Finding| finding.bytes),
            )
        };
        assert_eq!(bytes(&allowed), bytes(&findings));
    }
}
