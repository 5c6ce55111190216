//! Entries of any content, against stacks of any names: see [`crate::__fuzz`].

use super::{Date, Entry, Pattern, settle};
use crate::judge;
use crate::report::fuzz::leak;
use crate::report::model::{Finding, FindingKind};

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
    let entry = Entry {
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
        let entry = Entry {
            until,
            ..entry.clone()
        };
        let expired = settle(&[entry], today, &mut allowed);
        let is_allowed = |finding: &&Finding| finding.kind == FindingKind::Allowed;
        let are_allowed = allowed.iter().filter(is_allowed).count();
        for finding in &allowed {
            let by = finding.allowed_by.as_ref();
            assert_eq!(by.is_some(), is_allowed(&finding));
            assert!(by.is_none_or(|by| by.expired.is_some() == until.is_some()));
        }
        assert_eq!(
            expired.len(),
            usize::from(until.is_some() && are_allowed != 0)
        );
        let bytes = |all: &[_]| judge::total(all.iter().map(|finding: &Finding| finding.bytes));
        assert_eq!(bytes(&allowed), bytes(&findings));
    }
}
