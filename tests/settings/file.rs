//! The configuration file.

use std::fs;

use gpu_leak_check::report::check_report::{CheckStatus, Code, FindingKind, Outcome};
use gpu_leak_check::report::{headline as headline_of, help};
use gpu_leak_check::{Check, Scope, gpu_leak_check};
use gpu_leak_tests::checked::Checked;

use super::shelf::take;
use super::{headline, run_with};

/// Runs a test with a configuration file that contains `text`.
pub(super) fn configured(test: &str, text: &str) -> Checked {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gpu.toml");
    fs::write(&file, text).unwrap();
    let file = file.to_str().expect("a path in UTF-8");
    run_with(test, &[("GPU_LEAK_CHECK_CONFIG", file)])
}

#[gpu_leak_check]
#[ignore = "leaks"]
#[test]
fn leaks_ten_bytes() {
    take(10);
}

#[gpu_leak_check(tolerance = 9)]
#[ignore = "leaks"]
#[test]
fn leaks_above_its_tolerance() {
    take(10);
}

#[test]
fn the_file_states_facts_about_every_test() {
    configured("file::leaks_ten_bytes", "[check]\ntolerance = 10").assert_clean();
}

#[test]
fn an_override_holds_for_the_tests_it_names() {
    let text = "[[override]]\ntest = '*::file::leaks_*'\ntolerance = '10 B'";
    configured("file::leaks_ten_bytes", text).assert_clean();
    let text = "[[override]]\ntest = 'elsewhere::*'\ntolerance = '10 B'";
    let checked = configured("file::leaks_ten_bytes", text);
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::Leaked)
    );
}

#[gpu_leak_check]
#[ignore = "leaks"]
#[test]
fn leaks_in_a_block() {
    Check::new("step").run(|| take(10));
    let scope = Scope::open("epoch");
    scope.in_scope(|| take(10));
    scope.finish().assert_clean();
}

/// In reports, `[[allow]]` entries and the command, the name of a block begins with that of its
/// test.
#[test]
fn an_override_holds_for_blocks_by_the_name_that_reports_show() {
    let text = "[[override]]\ntest = '*::leaks_in_a_block'\ntolerance = 20\n\
                [[override]]\ntest = '*::leaks_in_a_block: *'\ntolerance = 10";
    configured("file::leaks_in_a_block", text).assert_clean();
    let text = "[[override]]\ntest = 'step'\ntolerance = 10";
    let checked = configured("file::leaks_in_a_block", text);
    assert_eq!(
        checked.reports[0].status,
        CheckStatus::Found(FindingKind::Leaked)
    );
}

#[gpu_leak_check]
#[ignore = "leaks"]
#[test]
fn leaks_in_each_of_two_blocks() {
    for name in ["first", "second"] {
        Check::new(name).confirm(false).run(|| take(10));
    }
}

/// Each block alone leaves no more than the entry allows.
#[test]
fn an_entry_s_limit_holds_for_all_blocks_of_a_test_together() {
    for (limit, passes) in [(20, true), (19, false)] {
        let text = format!("[[allow]]\nfn = '*take'\nup_to = {limit}\nreason = 'a cache'");
        let checked = configured("file::leaks_in_each_of_two_blocks", &text);
        let output = checked.output();
        assert_eq!(checked.child.status.success(), passes, "{limit}\n{output}");
    }
}

#[test]
fn the_attribute_overrides_the_file() {
    let checked = configured("file::leaks_above_its_tolerance", "[check]\ntolerance = 10");
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::Leaked),
        "{}",
        checked.output()
    );
}

#[test]
fn the_run_s_settings_hold_and_the_report_names_the_file() {
    let checked = configured("file::leaks_ten_bytes", "[run]\non_leak = 'warn'");
    assert!(checked.child.status.success(), "{}", checked.output());
    assert!(
        checked.child.stderr.contains("configured by /"),
        "{}",
        checked.output()
    );
}

#[test]
#[ignore = "run with checks switched off"]
#[expect(clippy::print_stderr, reason = "the parent reads it")]
fn prints_the_report_of_a_block() {
    let ((), report) = Check::new("step").run_reporting(|| {});
    eprintln!("{}; {}", headline_of(&report), help(&report).concat());
}

#[test]
fn a_block_that_the_file_switches_off_says_so() {
    let checked = configured("file::prints_the_report_of_a_block", "[run]\nmode = 'off'");
    let says = "not-measured (off): checks are switched off; remove GPU_LEAK_CHECK=off, or `mode";
    let output = checked.output();
    assert!(checked.child.stderr.contains(says), "{output}");
}

#[test]
fn a_mistake_in_the_file_fails_the_test_with_its_place() {
    let checked = configured("file::leaks_ten_bytes", "[check]\ntolerance = '1 MB'");
    let headline = headline(&checked);
    assert!(
        headline.ends_with("gpu.toml:2:13: `1 MB` is ambiguous: write \"1 MiB\" or \"1000000 B\""),
        "{headline}"
    );
    // Otherwise, the results of the run would not mention the test.
    let report = checked.report();
    assert_eq!(report.status, CheckStatus::NotMeasured);
    assert_eq!(report.outcome, Some(Outcome::Fail));
    let reason = report.reason.as_ref().expect("a reason");
    assert_eq!(reason.code, Code::Settings);
    assert!(headline.ends_with(&reason.what), "{reason:?}");
}

#[test]
fn a_file_that_does_not_exist_fails_the_test() {
    let variables = [("GPU_LEAK_CHECK_CONFIG", "no/such/file.toml")];
    let checked = run_with("file::leaks_ten_bytes", &variables);
    let headline = headline(&checked);
    assert!(
        headline.contains("GPU_LEAK_CHECK_CONFIG names no/such/file.toml"),
        "{headline}"
    );
}

#[test]
fn a_test_can_be_left_out_where_there_is_no_gpu() {
    if gpu_leak_tests::gpu::is_present() {
        return;
    }
    let checked = configured("file::leaks_ten_bytes", "[run]\nwithout_gpu = 'skip'");
    assert!(checked.child.status.success(), "{}", checked.output());
    assert_eq!(checked.reports.len(), 0, "{}", checked.output());
    let summary = "gpu-leak-check: nothing checked; 1 skipped\n  skipped: \
                   settings::file::leaks_ten_bytes did not run, because there is no GPU";
    assert!(
        checked.child.stderr.contains(summary),
        "{}",
        checked.output()
    );
}

#[test]
fn a_test_that_needs_no_gpu_runs_where_there_is_none() {
    let settings =
        "[run]\nwithout_gpu = 'skip'\n[[override]]\ntest = '*ten_bytes'\nneeds_gpu = false";
    let checked = configured("file::leaks_ten_bytes", settings);
    assert!(!checked.child.status.success(), "{}", checked.output());
    assert_eq!(checked.report().findings[0].bytes, 10);
}
