//! Blind is never clean: what a check that cannot see the driver says, and when that fails its test.

use std::path::Path;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::Code;
use gpu_leak_check::report::model::CheckStatus;
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::fake::Fake;

use super::driver::{allocate, allocate_async, context, free, free_async};

const USES_A_GPU: &str = "boundary::blind::uses_a_gpu";

#[gpu_leak_check]
#[ignore = "run where it cannot be watched"]
#[test]
fn uses_a_gpu() {
    context();
    free(allocate(8).unwrap()).unwrap();
    // The pool keeps its reserve until somebody waits for the device.
    free_async(allocate_async(8));
}

fn run(fake: &Fake, variables: &[(&str, &str)]) -> Checked {
    let run = fake.run(USES_A_GPU);
    let run = variables
        .iter()
        .fold(run, |run, (name, value)| run.env(name, value));
    checked::finish(run)
}

/// Passes on a developer's machine with a word in the last lines, fails where `CI` is set or it is required.
fn assert_unmeasured(fake: &Fake, code: Code, what: &str) {
    for (variables, passes) in [
        (&[][..], true),
        (&[("CI", "true")][..], false),
        (&[("GPU_LEAK_CHECK", "require")][..], false),
    ] {
        let checked = run(fake, variables);
        let story = checked.story();
        assert_eq!(
            checked.child.status.success(),
            passes,
            "{variables:?}\n{story}"
        );
        let report = checked.report();
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(
            (report.status, reason.code),
            (CheckStatus::NotMeasured, code),
            "{story}"
        );
        assert!(reason.what.contains(what), "{story}");
        assert!(checked.child.stderr.contains("1 not measured"), "{story}");
    }
}

#[test]
fn no_cupti_measures_nothing() {
    let toolkits = ["/usr/local/cuda", "/opt/cuda"];
    if toolkits.iter().any(|folder| Path::new(folder).exists()) {
        // This machine has one that cannot be hidden.
        return;
    }
    assert_unmeasured(&Fake::new().without_cupti(), Code::NoCupti, "libcupti");
}

#[test]
fn a_tracer_taken_by_another_tool_measures_nothing() {
    assert_unmeasured(
        &Fake::new().fault("cupti:taken=nsys"),
        Code::TracerTaken,
        "nsys",
    );
}

#[test]
fn a_cupti_that_is_too_old_measures_nothing() {
    assert_unmeasured(
        &Fake::new().fault("cupti:version=12"),
        Code::CuptiTooOld,
        "11.8",
    );
}

#[test]
fn a_driver_that_is_too_old_for_cupti_measures_nothing() {
    assert_unmeasured(
        &Fake::new().fault("cupti:too_old"),
        Code::CuptiTooOld,
        "needs a newer driver",
    );
}

#[test]
fn a_tracer_lost_inside_is_inconclusive() {
    for fault in ["cupti:lost@2", "cupti:fatal@2"] {
        let fake = Fake::new().fault(fault);
        for (variables, passes) in [(&[][..], true), (&[("CI", "true")][..], false)] {
            let checked = run(&fake, variables);
            let story = checked.story();
            let report = checked.report();
            assert_eq!(report.status, CheckStatus::Inconclusive, "{fault}\n{story}");
            assert_eq!(
                report.reason.as_ref().expect("a reason").code,
                Code::TracerLost,
                "{story}"
            );
            assert_eq!(
                checked.child.status.success(),
                passes,
                "{fault} {variables:?}\n{story}"
            );
        }
    }
}

#[test]
fn what_may_have_been_freed_after_the_tracer_was_lost_is_no_leak() {
    for callbacks in 1..12 {
        let checked = run(&Fake::new().fault(&format!("cupti:lost@{callbacks}")), &[]);
        let report = checked.report();
        assert_eq!(
            report.status,
            CheckStatus::Inconclusive,
            "{callbacks}\n{}",
            checked.story()
        );
    }
}

#[gpu_leak_check(unchecked_if(true, "it is never checked"))]
#[ignore = "run in a process of its own"]
#[test]
fn is_never_checked() {}

#[test]
fn a_process_that_checked_nothing_does_not_bring_the_tracer_up_as_it_exits() {
    // So old that its limits are told in the last lines, if it was used.
    let fake = Fake::new().fault("cupti:version=18");
    let checked = checked::finish(fake.run("boundary::blind::is_never_checked"));
    let story = checked.story();
    assert!(checked.child.status.success(), "{story}");
    assert!(story.contains("it is never checked"), "{story}");
    assert!(!story.contains("too old to show"), "{story}");
}

#[test]
fn a_check_that_is_off_lets_everything_pass() {
    let checked = run(&Fake::new(), &[("GPU_LEAK_CHECK", "off"), ("CI", "true")]);
    assert!(checked.child.status.success(), "{}", checked.story());
    assert!(checked.reports.is_empty(), "{}", checked.story());
}

#[gpu_leak_check]
#[ignore = "run on a machine without a GPU"]
#[test]
fn uses_no_gpu() {}

#[test]
fn a_machine_without_a_device_is_not_measured_and_passes_even_where_ci_is_set() {
    let fake = Fake::new().devices(0);
    for (mode, passes) in [("auto", true), ("require", false)] {
        let run = fake.run("boundary::blind::uses_no_gpu").env("CI", "true");
        let checked = checked::finish(run.env("GPU_LEAK_CHECK", mode));
        let story = checked.story();
        assert_eq!(checked.child.status.success(), passes, "{mode}\n{story}");
        let report = checked.report();
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(
            (report.status, reason.code),
            (CheckStatus::NotMeasured, Code::NoGpu),
            "{story}"
        );
    }
}
