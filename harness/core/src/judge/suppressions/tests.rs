use super::{
    Date, Finding, FindingKind, PATTERN_WORDS, Pattern, PatternKind, Suppression, matches_inlined,
};
use crate::ledger::{Kind, Layer, Place};
use crate::report::{AllowedBy, Frame, Library, Owner, Site};

const TODAY: Date = Date::new(2026, 6, 1);

fn leak(bytes: u64) -> Finding {
    let frame = |function: &str, file: &str, module: &str| Frame {
        function: Some(function.into()),
        file: Some(file.into()),
        module: Some(module.into()),
        ..Frame::default()
    };
    Finding {
        bytes,
        each: Some(bytes),
        site: Site {
            fingerprint: "1-0123456789abcdef".into(),
            frames: vec![
                frame("train::optim::Adam::step", "src/optim.rs", "train-7f"),
                frame("train::main", "src/main.rs", "train-7f"),
            ],
            user: Some(0),
            library: Some(Library {
                name: "cuBLAS".into(),
                file: Some("libcublas.so.13".into()),
                function: None,
                called_by: None,
                known: None,
            }),
        },
        resource: Some(Kind::Linear),
        count: 1,
        allocated: 1,
        ..Finding::new(
            FindingKind::Leaked,
            Layer::DRIVER,
            Place::cuda(0),
            Site::default(),
        )
    }
}

fn entry(word: &str, text: &str) -> Suppression {
    Suppression {
        matches: Pattern::new(word, text).unwrap(),
        kind: None,
        up_to: None,
        up_to_count: None,
        tests: Vec::new(),
        reason: "a table for the whole process".into(),
        owner: None,
        until: None,
        stands_in: "gpu.toml:3".into(),
    }
}

fn applied(entry: Suppression, mut findings: Vec<Finding>) -> Vec<Finding> {
    apply(&[entry], &mut findings);
    findings
}

fn apply(entries: &[Suppression], findings: &mut [Finding]) -> Vec<String> {
    super::apply(
        entries,
        TODAY,
        "train::steps",
        &mut findings.iter_mut().collect::<Vec<_>>(),
    )
}

fn is_allowed(entry: Suppression) -> bool {
    applied(entry, vec![leak(10)])[0].kind == FindingKind::Allowed
}

#[test]
fn a_call_site_is_matched_by_its_own_function_alone() {
    assert!(is_allowed(entry("at", "train::optim::Adam::step")));
    assert!(is_allowed(entry("at", "*::step")));
    assert!(!is_allowed(entry("at", "train::main")), "it only calls it");
}

#[test]
fn a_call_through_a_wrapper_is_matched_by_the_function_that_the_report_names() {
    let allows = |word: &str, text: &str| {
        let frame = |function: &str, file: &str| Frame {
            function: Some(function.into()),
            file: Some(file.into()),
            line: Some(1),
            owner: Owner::User,
            ..Frame::default()
        };
        let mut leak = leak(10);
        leak.site.frames = vec![
            frame("take", "memory.h"),
            frame("read_table", "table.c"),
            frame("main", "main.c"),
        ];
        let shown = leak.shown_frames().unwrap().0;
        assert_eq!(shown.function.as_deref(), Some("read_table"));
        applied(entry(word, text), vec![leak])[0].kind == FindingKind::Allowed
    };
    assert!(allows("at", "read_table"));
    assert!(allows("at", "take"));
    assert!(!allows("at", "main"));
}

#[test]
fn no_more_than_the_number_in_the_entry_may_stay() {
    let up_to = |number| Suppression {
        up_to_count: Some(number),
        ..entry("at", "*::step")
    };
    let both = || vec![leak(10), leak(10)];
    let kinds = |entry| applied(entry, both()).into_iter().map(|it| it.kind);
    assert!(kinds(up_to(2)).all(|kind| kind == FindingKind::Allowed));
    assert!(kinds(up_to(1)).all(|kind| kind == FindingKind::Leaked));
    let reported = applied(up_to(1), both());
    assert_eq!(
        reported[0].notes,
        ["gpu.toml:3 allows up to 1 allocation, but all matching findings together have 2"]
    );
}

#[test]
fn an_entry_can_apply_to_some_tests_only() {
    let of = |tests: &[&str]| Suppression {
        tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        ..entry("fn", "*::step")
    };
    assert!(is_allowed(of(&["train::*"])));
    assert!(is_allowed(of(&["other", "train::steps"])));
    assert!(!is_allowed(of(&["other"])));
}

#[test]
fn functions_files_libraries_and_fingerprints_are_matched() {
    for (word, text, matches) in [
        ("fn", "train::optim::*", true),
        ("fn", "*::main", true),
        ("fn", "optim::Adam::step", false),
        ("file", "src/optim.rs", true),
        ("file", "src/*", true),
        ("file", "tests/*", false),
        ("lib", "libcublas.so*", true),
        ("lib", "cuBLAS", true),
        ("lib", "libcudnn*", false),
        ("fingerprint", "1-0123456789abcdef", true),
        ("fingerprint", "1-0123456789abcdee", false),
    ] {
        assert_eq!(is_allowed(entry(word, text)), matches, "{word}:{text}");
    }
}

#[test]
fn an_entry_of_another_kind_does_not_match() {
    let of = |kind| Suppression {
        kind: Some(kind),
        ..entry("fn", "*")
    };
    assert!(is_allowed(of(Kind::Linear)));
    assert!(!is_allowed(of(Kind::Event)));
}

#[test]
fn the_limit_is_inclusive_and_applies_to_all_matching_findings_together() {
    let up_to = |bytes| Suppression {
        up_to: Some(bytes),
        ..entry("fn", "*")
    };
    let both = || vec![leak(10), leak(20)];
    let all = |findings: Vec<Finding>, kind| findings.iter().all(|f| f.kind == kind);
    assert!(all(applied(up_to(30), both()), FindingKind::Allowed));
    let refused = applied(up_to(29), both());
    assert_eq!(
        refused[0].notes,
        ["gpu.toml:3 allows up to 29 B, but all matching findings together have 30 B"]
    );
    assert!(all(refused, FindingKind::Leaked));
}

#[test]
fn the_first_matching_entry_decides_even_if_a_later_one_allows_more() {
    let first = Suppression {
        up_to: Some(5),
        ..entry("fn", "train::optim::*")
    };
    let later = Suppression {
        stands_in: "gpu.toml:9".into(),
        ..entry("fn", "*")
    };
    let mut findings = [leak(10)];
    apply(&[first.clone(), later.clone()], &mut findings);
    assert_eq!(findings[0].kind, FindingKind::Leaked);
    assert_eq!(
        findings[0].notes,
        ["gpu.toml:3 allows up to 5 B, but this finding has 10 B"]
    );

    let mut findings = [leak(10)];
    apply(&[later, first], &mut findings);
    assert_eq!(findings[0].kind, FindingKind::Allowed);
    let by = findings[0].allowed_by.as_ref().expect("an entry");
    assert_eq!(by.stands_in, "gpu.toml:9");
}

#[test]
fn an_expired_entry_still_allows_and_says_so() {
    let expired = Suppression {
        until: Some(Date::new(2026, 5, 31)),
        owner: Some("the runtime team".into()),
        ..entry("fn", "*")
    };
    let finding = &applied(expired.clone(), vec![leak(10)])[0];
    assert_eq!(finding.kind, FindingKind::Allowed);
    let by = AllowedBy {
        stands_in: "gpu.toml:3".into(),
        reason: "a table for the whole process".into(),
        owner: Some("the runtime team".into()),
        expired: Some("2026-05-31".into()),
    };
    assert_eq!(finding.allowed_by, Some(by));
    let today = Suppression {
        until: Some(TODAY),
        ..entry("fn", "*")
    };
    let by = applied(today.clone(), vec![leak(10)])[0].allowed_by.clone();
    assert_eq!(by.expect("an entry").expired, None);
    let note = |entry: Suppression| apply(&[entry], &mut [leak(10)]);
    assert_eq!(
        note(expired),
        [
            "gpu.toml:3 (a table for the whole process) expired on 2026-05-31 but still applies; \
             ask the runtime team"
        ]
    );
    assert!(note(today).is_empty());
}

#[test]
fn a_failed_free_is_never_allowed() {
    let failed = Finding {
        kind: FindingKind::FailedFree,
        ..leak(10)
    };
    assert_eq!(
        applied(entry("fn", "*"), vec![failed])[0].kind,
        FindingKind::FailedFree
    );
}

#[test]
fn text_that_is_not_a_fingerprint_is_refused() {
    for text in [
        "1-*",
        "7-00",
        "0123456789abcdef",
        "-0123456789abcdef",
        "1-0123456789abcdefg",
    ] {
        let why = Pattern::new("fingerprint", text).unwrap_err();
        assert!(why.contains("is not a fingerprint"), "{text}: {why}");
    }
}

/// A finding names the entry whose limit is too small, so that the entry does not seem unused.
#[test]
fn a_finding_names_the_entry_whose_limits_it_exceeds() {
    let too_small = Suppression {
        up_to: Some(5),
        up_to_count: Some(0),
        ..entry("fn", "*")
    };
    let found = applied(too_small, vec![leak(10)]);
    assert_eq!(found[0].exceeds.as_deref(), Some("gpu.toml:3"));
    assert_eq!(
        found[0].notes,
        ["gpu.toml:3 allows up to 0 allocations and 5 B, but this finding has 1 and 10 B"]
    );
    let allowed = applied(entry("fn", "*"), vec![leak(10)]);
    assert_eq!(allowed[0].exceeds, None);
}

#[test]
fn dates_are_computed_across_leap_years() {
    for (days, date) in [
        (0, "1970-01-01"),
        (59, "1970-03-01"),
        (11_016, "2000-02-29"),
        (20_453, "2025-12-31"),
        (20_454, "2026-01-01"),
        (47_540, "2100-02-28"),
        (47_541, "2100-03-01"),
    ] {
        assert_eq!(Date::from_days(days).to_string(), date, "{days}");
    }
}

#[test]
fn an_earlier_date_is_less() {
    assert!(Date::new(2026, 1, 31) < Date::new(2026, 2, 1));
    assert!(Date::new(2025, 12, 31) < Date::new(2026, 1, 1));
}

fn inlined(function: &str, file: &str) -> Frame {
    Frame {
        function: Some(function.into()),
        file: Some(file.into()),
        ..Frame::default()
    }
}

#[test]
fn an_inlined_function_is_matched_by_its_name_and_its_file() {
    let step = inlined("step", "src/optim.rs");
    for pattern in [
        "train::optim::Adam::step",
        "*::optim::*::step",
        "*::optim::st*",
        "*::step",
    ] {
        assert!(matches_inlined(pattern, &step), "{pattern}");
    }
    for pattern in [
        "train::nn::Linear::step",
        "train::optim::Adam::zero",
        "step",
    ] {
        assert!(!matches_inlined(pattern, &step), "{pattern}");
    }
    assert!(matches_inlined(
        "train::optim::step",
        &inlined("step", "src/optim/mod.rs")
    ));
    assert!(matches_inlined(
        "my_crate::step",
        &inlined("step", "my-crate/src/lib.rs")
    ));
}

#[test]
fn a_function_with_a_path_is_matched_by_its_path_only() {
    let whole = inlined("train::nn::step", "src/optim.rs");
    assert!(!matches_inlined("train::optim::step", &whole));
    assert!(!matches_inlined(
        "train::optim::*",
        &inlined("{closure#0}", "src/optim.rs")
    ));
}

#[test]
fn the_attribute_and_the_file_accept_every_kind_of_pattern() {
    let words: Vec<_> = PatternKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(PATTERN_WORDS[..], words);
}
