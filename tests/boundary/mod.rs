//! The boundary table of the design: what belongs to a test, what does not, and what cannot be
//! known. Each row has tests named after it. The body of such a test is an ignored test next to it,
//! which runs in a separate process.
//!
//! | row | tests |
//! | --- | --- |
//! | allocated before, freed inside | `owners::allocated_before_and_freed_inside_is_shown_without_credit` |
//! | allocated before, alive after | `owners::allocated_before_and_alive_after_is_the_baseline` |
//! | allocated inside by the scope's threads | `owners::allocated_inside_by_a_thread_of_the_test_is_a_finding`, `owners::allocated_inside_by_an_older_thread_that_entered_is_a_finding` |
//! | by a thread outside any scope, when nothing else can run | `owners::allocated_inside_by_an_older_thread_alone_is_a_finding_that_names_it` |
//! | the same while others may run, or by a pool whose scope has closed | `owners::allocated_by_an_older_thread_while_others_may_run_has_unknown_owner`, `owners::allocated_by_a_thread_of_an_earlier_check_has_unknown_owner`, `owners::reserved_by_an_unrelated_thread_while_others_may_run_is_not_a_finding` |
//! | freed on another thread within settle | `owners::freed_on_another_thread_while_the_check_settles_is_clean` |
//! | freed after the verdict | `endings::memory_freed_after_the_verdict_is_late_and_the_verdict_stays` |
//! | captured into a graph | `owners::captured_memory_is_the_graph_s` |
//! | context created inside and not destroyed | `contexts::a_context_made_inside_and_not_destroyed_is_a_handle`, `contexts::a_primary_context_made_inside_and_kept_is_nobody_s_fault`, `contexts::an_unbalanced_primary_retain_is_a_note` |
//! | context destroyed, last primary retain released, or device reset inside | `contexts::memory_freed_only_by_the_end_of_its_context_is_a_finding`, `contexts::memory_freed_only_by_the_last_release_is_a_finding`, `contexts::memory_freed_only_by_a_device_reset_is_a_finding` |
//! | code loaded lazily, and a module that the test loaded | `libraries::code_that_cuda_s_own_libraries_load_lazily_is_the_baseline`, `contexts::a_module_loaded_inside_and_not_unloaded_is_a_finding` |
//! | out of memory inside; a pointer that comes back null | `failures::running_out_of_memory_inside_is_not_a_finding`, `failures::a_request_whose_pointer_comes_back_null_is_not_a_finding` |
//! | body panics, or returns `Err` | `endings::a_panic_stays_the_outcome_and_the_leak_is_reported_as_well`, `endings::an_error_stays_the_outcome_and_the_leak_is_reported_as_well` |
//! | `#[should_panic]`, right panic, and a leak | `endings::the_right_panic_and_a_leak_fail_with_the_report` |
//! | `process::exit`, abort, kill, timeout inside | `endings::a_process_that_exits_inside_a_test_is_an_aborted_test_by_name`, `endings::a_test_killed_in_the_middle_is_aborted_by_name_in_the_next_report` |
//! | context poisoned before the check | `failures::a_context_broken_before_the_check_is_inconclusive`, `failures::a_context_broken_inside_is_named_by_the_checks_after_it` |
//! | a check begun inside a scope | `owners::memory_allocated_and_freed_in_a_nested_check_is_clean_for_both`, `owners::memory_of_an_unfinished_nested_scope_belongs_to_the_outer_one` |

mod blind;
mod contexts;
mod copies;
mod driver;
mod endings;
mod facts;
mod failures;
mod first_use;
mod libraries;
mod owners;
mod surroundings;
mod whole;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{Finding, FindingKind, Report};
use gpu_leak_tests::checked::Checked;

/// Fails unless the test passed and its check was clean, with a note that contains `part`.
#[track_caller]
fn assert_clean_with_note(checked: &Checked, part: &str) {
    checked.assert_clean();
    assert_noted_report(checked.report(), part);
}

/// Returns the only finding of the last check. Fails unless that finding is one leak of this kind
/// and size, and the test failed.
#[track_caller]
fn assert_one_leak(checked: &Checked, kind: Kind, bytes: u64) -> &Finding {
    let output = checked.output();
    assert!(
        !checked.child.status.success(),
        "a leak fails its test\n{output}"
    );
    let report = checked.reports.last().expect("a report");
    let finding = only_finding(report, &output);
    assert_eq!(finding.kind, FindingKind::Leaked, "{output}");
    assert_eq!(
        (finding.resource, finding.count, finding.bytes),
        (Some(kind), 1, bytes),
        "{output}"
    );
    finding
}

#[track_caller]
fn only_finding<'a>(report: &'a Report, output: &str) -> &'a Finding {
    let [finding] = &report.findings[..] else {
        panic!("{} findings\n{output}", report.findings.len());
    };
    finding
}

#[track_caller]
fn assert_noted_report(report: &Report, part: &str) {
    assert!(
        report.notes.iter().any(|note| note.contains(part)),
        "no note with `{part}` in {:?}",
        report.notes
    );
}

#[track_caller]
fn assert_noted(finding: &Finding, part: &str) {
    assert!(
        finding.notes.iter().any(|note| note.contains(part)),
        "no note with `{part}` in {:?}",
        finding.notes
    );
}
