//! Allocations that may stay according to the attribute or the configuration file.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};

use super::file::configured;
use super::run;
use super::shelf::take;

fn lookup_table() {
    take(100);
}

#[test]
fn memory_named_by_the_attribute_is_allowed_with_its_reason() {
    let checked = run("allowed::keeps_its_table");
    assert!(checked.child.status.success(), "{}", checked.output());
    let report = checked.report();
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Allowed),
        "{}",
        checked.output()
    );
    let by = report.findings[0].allowed_by.as_ref().expect("the entry");
    assert_eq!(
        (&*by.stands_in, &*by.reason),
        ("the attribute", "shared by all models")
    );
    let sentence = "allowed by the attribute: shared by all models";
    assert!(
        checked
            .child
            .stderr
            .contains("1 object, 100 B allowed to stay")
    );
    assert_eq!(by.to_string(), sentence);
}

#[gpu_leak_check(allow("fn:*lookup_table", reason = "shared by all models", kind = block))]
#[ignore = "leaks"]
#[test]
fn keeps_its_table() {
    lookup_table();
}

#[test]
fn memory_that_no_entry_names_is_still_a_leak() {
    let checked = run("allowed::keeps_more_than_its_table");
    let kinds: Vec<_> = checked.report().findings.iter().map(|f| f.kind).collect();
    assert_eq!(
        kinds,
        [FindingKind::Leaked, FindingKind::Allowed],
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(allow("fn:*lookup_table", reason = "shared by all models"))]
#[ignore = "fails"]
#[test]
fn keeps_more_than_its_table() {
    lookup_table();
    take(7);
}

#[gpu_leak_check]
#[ignore = "leaks"]
#[test]
fn keeps_a_table() {
    lookup_table();
}

#[test]
fn an_entry_of_the_file_allows_in_every_test() {
    let text =
        "[[allow]]\nfile = 'tests/settings/*'\nreason = 'old'\nowner = 'ops'\nup_to = '100 B'";
    let checked = configured("allowed::keeps_a_table", text);
    assert!(checked.child.status.success(), "{}", checked.output());
    let by = checked.report().findings[0].allowed_by.as_ref();
    let by = by.expect("the entry");
    assert!(by.stands_in.ends_with("gpu.toml:1"), "{by}");
    assert_eq!((&*by.reason, by.owner.as_deref()), ("old", Some("ops")));
}

#[test]
fn a_leak_above_an_entry_s_limit_is_a_leak() {
    let text = "[[allow]]\nfn = '*'\nreason = 'old'\nup_to = 99";
    let checked = configured("allowed::keeps_a_table", text);
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::Leaked),
        "{}",
        checked.output()
    );
}

#[test]
fn a_report_s_fingerprint_can_be_allowed() {
    let leak = run("allowed::keeps_a_table");
    let fingerprint = &leak.report().findings[0].site.fingerprint;
    let text = format!("[[allow]]\nfingerprint = '{fingerprint}'\nreason = 'known'");
    let checked = configured("allowed::keeps_a_table", &text);
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::Allowed),
        "{}",
        checked.output()
    );
}
