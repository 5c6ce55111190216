//! Fuzz targets for run files, backtraces and entries with arbitrary contents (see
//! [`crate::__fuzz`]).

use std::sync::Arc;

use super::check_report::{Finding, FindingKind, Frame, Language, Owner, Site};
use super::text::{self, Rendering};
use super::{Sources, Style, Summary, headline, run_file};
use crate::__fuzz::is_fit_to_print;
use crate::call_site::{allocators, is_cudas_own, site_of};
use crate::judge::suppressions::{self, Date, Pattern, Suppression};
use crate::ledger::{Kind, Layer, Place};
use crate::units::total;

/// Returns a leak whose backtrace has frames with these names, innermost first.
pub(crate) fn leak(names: &[&str]) -> Finding {
    let frames = names.iter().map(|name| frame(name)).collect();
    let site = site_of(frames, Kind::Linear);
    Finding {
        resource: Some(Kind::Linear),
        count: 1,
        bytes: 64,
        each: Some(64),
        allocated: 1,
        ..Finding::new(FindingKind::Leaked, Layer::DRIVER, Place::cuda(0), site)
    }
}

/// Parses `OWNER|function|file|module`. Each part may be missing.
fn frame(line: &str) -> Frame {
    let mut parts = line.split('|');
    let owner = match parts.next() {
        Some("dependency") => Owner::Dependency,
        Some("std") => Owner::Std,
        Some("cuda") => Owner::Cuda,
        Some("harness") => Owner::Harness,
        Some("native") => Owner::Native,
        _ => Owner::User,
    };
    let mut part = || parts.next().filter(|part| !part.is_empty()).map(Arc::from);
    Frame {
        function: part(),
        file: part(),
        line: Some(u32::MAX),
        column: Some(0),
        module: part(),
        offset: Some(u64::MAX),
        owner,
        language: Language::default(),
        several_calls: false,
    }
}

/// The input is a backtrace, with one frame per line. Its call site contains no frame of the
/// harness, and has a fingerprint with which an entry can allow it.
///
/// # Panics
///
/// Panics if this is not the case.
pub fn sites(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let lines: Vec<_> = text.lines().collect();
    let frames: Vec<_> = lines.iter().map(|line| frame(line)).collect();
    let _ = is_cudas_own(&frames);
    let _ = allocators::of(&frames);
    let finding = leak(&lines);
    let Site {
        frames: kept, user, ..
    } = &finding.site;
    assert!(kept.len() <= frames.len());
    assert!(user.is_none_or(|user| user < kept.len()));
    assert!(kept.iter().all(|frame| frame.owner != Owner::Harness));
    // The fingerprint must be a valid pattern, because the command writes `allow` entries that
    // contain it.
    let allowed = Pattern::new("fingerprint", &finding.site.fingerprint);
    assert!(allowed.is_ok(), "{}", finding.site.fingerprint);
}

/// The input is a run file. Whatever it contains, it can be read, and its reports can be rendered.
///
/// # Panics
///
/// Panics if this is not the case.
pub fn run_file(input: &[u8]) {
    let file = run_file::parse(input).expect("bytes can be read");
    let lines = input.split_inclusive(|byte| *byte == b'\n').count();
    let reported = file.aborted.len() + file.reports.len() + file.unowned.len() + file.late.len();
    assert!(
        reported + file.reported_aborted.len() + file.unreadable + usize::from(file.torn) <= lines
    );
    let how = Rendering {
        style: Style::PLAIN,
        sources: Sources::below("/nowhere"),
    };
    let mut summary = Summary::default();
    for report in &file.reports {
        summary.add(report);
        for text in [text::to_string(report, &how), headline(report)] {
            assert!(is_fit_to_print(&text), "{text:?}");
        }
        // A report that was read can be written again.
        let line = run_file::Record::Verdict(report).to_line();
        let line = line.expect("the report can be written");
        let again = run_file::parse(line.as_slice()).expect("bytes can be read");
        assert_eq!(again.unreadable, 0, "{}", line.escape_ascii());
        assert_eq!(
            again.reports.first().map(|it| &it.findings),
            Some(&report.findings)
        );
    }
    if let Some(text) = summary.text() {
        assert!(is_fit_to_print(&text), "{text:?}");
    }
}

/// The input is a pattern as in an attribute, a reason, and the names of functions, each on its own
/// line. The first two form an entry, which is applied to one leak in each function. The leaks that
/// are allowed are those that name the entry, an entry whose date has passed is reported as expired
/// if it allows a leak, and the sum of the bytes does not change.
///
/// # Panics
///
/// Panics if this is not the case.
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
        reason,
        stands_in: "gpu-leak-check.toml:12".to_owned(),
        ..Suppression::of_pattern(matches)
    };
    let today = Date::new(2026, 6, 1);
    for until in [None, Some(Date::new(2000, 1, 1))] {
        let mut allowed = findings.clone();
        let entry = Suppression {
            until,
            ..entry.clone()
        };
        let expired = suppressions::apply(
            &[entry],
            today,
            "a",
            &mut allowed.iter_mut().collect::<Vec<_>>(),
        );
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
        let bytes = |all: &[Finding]| total(all.iter().map(|finding| finding.bytes));
        assert_eq!(bytes(&allowed), bytes(&findings));
    }
}
