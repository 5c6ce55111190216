//! What a report says about the program is true, and its advice helps.

use std::hint::black_box;
use std::sync::Mutex;
use std::thread;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::{Kind, Place};
use gpu_leak_check::report::check_report::{CheckStatus, Finding, FindingKind};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;

use super::allocators::POOL;
use super::driver::{
    Pointer, context, destroy, event, free, rejected_destroy, rejected_free, rejected_pinned_free,
    take, take_pinned,
};
use super::{GIB, KIB, MIB, assert_verdict, run};

/// Runs a test on the stand-in, with enough time to search for what holds a leak.
fn on_the_stand_in(test: &str) -> Checked {
    let fake = Fake::new();
    let run = fake.run(&format!("words::{test}"));
    let run = run.env("GPU_LEAK_CHECK_SETTLE", "5ms");
    checked::finish(run.env("GPU_LEAK_CHECK_HELD_BY", "600s"))
}

/// Returns `tests/soundness/driver.rs:N`, where the line N ends with this mark.
fn line_of(mark: &str) -> String {
    let ending = format!("// here: {mark}");
    let lines = include_str!("driver.rs").lines().zip(1..);
    let mut marked = lines.filter(|(line, _)| line.ends_with(&ending));
    let (_, number) = marked.next().expect("a line with the mark");
    format!("tests/soundness/driver.rs:{number}")
}

static KEPT: Mutex<Vec<Pointer>> = Mutex::new(Vec::new());

fn keep(pointer: Pointer) {
    KEPT.lock().expect("no panic").push(pointer);
}

/// Returns the static that, according to the report, holds a leak, if there is one.
#[track_caller]
fn holder<'a>(finding: &'a Finding, checked: &Checked) -> Option<&'a str> {
    let holders = finding.holders.as_deref();
    match holders.unwrap_or_else(|| panic!("there was no search\n{}", checked.output())) {
        [] => None,
        [holder] => holder.root.name.as_deref(),
        more => panic!("{more:#?}"),
    }
}

const HOLDER: &str = "soundness::words::KEPT";

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn forgets_one_block_and_keeps_another() {
    context();
    black_box(take(MIB));
    keep(take(4 * KIB));
}

#[test]
fn the_holder_of_one_block_is_not_named_for_another_of_the_same_line() {
    let test = "forgets_one_block_and_keeps_another";
    let checked = on_the_stand_in(test);
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Leaked));
    let output = checked.output();
    let of_bytes = |bytes| {
        let mut findings = report.findings.iter();
        let found = findings.find(|finding| finding.bytes == bytes);
        found.unwrap_or_else(|| panic!("nothing of {bytes} B\n{output}"))
    };
    let (forgotten, kept) = (of_bytes(MIB), of_bytes(4 * KIB));
    assert_eq!(holder(kept, &checked), Some(HOLDER), "{output}");
    // A search that could not read everything makes no claim about the leaks for which it has found
    // nothing.
    let of_forgotten = forgotten.holders.as_deref().unwrap_or_default();
    assert!(of_forgotten.is_empty(), "{output}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_blocks_of_several_callers() {
    context();
    keep(take(1000));
    keep(take(2000));
    keep(take(3000));
    keep(take(4000));
}

#[test]
fn a_vector_that_holds_blocks_of_several_callers_is_named_for_each() {
    let test = "keeps_blocks_of_several_callers";
    let checked = on_the_stand_in(test);
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Leaked));
    let bytes: u64 = report.findings.iter().map(|finding| finding.bytes).sum();
    assert_eq!(bytes, 10_000, "{}", checked.output());
    for finding in &report.findings {
        assert_eq!(
            holder(finding, &checked),
            Some(HOLDER),
            "{}",
            checked.output()
        );
    }
}

#[gpu_leak_check]
#[ignore = "frees twice on purpose"]
#[test]
fn frees_a_block_twice() {
    context();
    let pointer = take(MIB);
    free(pointer);
    rejected_free(pointer);
}

#[gpu_leak_check]
#[ignore = "destroys twice on purpose"]
#[test]
fn destroys_an_event_twice() {
    context();
    let event = event();
    destroy(event);
    rejected_destroy(event);
}

#[gpu_leak_check]
#[ignore = "frees a wrong address on purpose"]
#[test]
fn frees_the_middle_of_a_block() {
    context();
    let pointer = take(MIB);
    rejected_free(pointer + 512);
    free(pointer);
}

#[gpu_leak_check]
#[ignore = "frees with the wrong call on purpose"]
#[test]
fn frees_pinned_memory_as_device_memory() {
    context();
    rejected_free(take_pinned(4096));
}

#[gpu_leak_check]
#[ignore = "frees a wrong address on purpose"]
#[test]
fn frees_memory_that_is_not_pinned() {
    context();
    let buffer = Box::new(0_u64);
    rejected_pinned_free((&raw const *buffer).addr() as Pointer);
}

/// Returns the output of a test. Fails unless the test failed because of a failed free, and the
/// report does not mention a reserve, because nothing was reserved.
#[track_caller]
fn output_of_a_failed_free(test: &str) -> String {
    let checked = on_the_stand_in(test);
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::FailedFree));
    assert_eq!(report.findings.len(), 1, "{}", checked.output());
    let output = checked.output();
    for untrue in ["reserved by driver", "unknown device"] {
        assert!(!output.contains(untrue), "{output}");
    }
    output
}

fn says_that_it_was_freed(output: &str) -> bool {
    let words = [
        "freed before",
        "already freed",
        "destroyed before",
        "already destroyed",
    ];
    // Advice is left out, because it says only what may have happened.
    let mut reported = output.lines().filter(|line| !line.starts_with("help:"));
    reported.any(|line| words.iter().any(|words| line.contains(words)))
}

#[test]
fn a_free_of_freed_memory_is_reported_as_such() {
    let output = output_of_a_failed_free("frees_a_block_twice");
    assert!(says_that_it_was_freed(&output), "{output}");
    assert!(output.contains("1.00 MiB"), "{output}");
}

#[test]
fn a_second_free_is_reported_with_the_place_of_the_first() {
    let output = output_of_a_failed_free("frees_a_block_twice");
    assert!(output.contains(&line_of("freed")), "{output}");
}

#[test]
fn an_event_that_is_destroyed_twice_is_reported_as_an_event() {
    let output = output_of_a_failed_free("destroys_an_event_twice");
    assert!(says_that_it_was_freed(&output), "{output}");
    let words = ["event,", "an event", "1 event", "this event"];
    assert!(words.iter().any(|words| output.contains(words)), "{output}");
}

#[test]
fn a_free_of_the_middle_of_a_block_is_reported_with_the_block() {
    let output = output_of_a_failed_free("frees_the_middle_of_a_block");
    assert!(output.contains("1.00 MiB"), "{output}");
    assert!(output.contains(&line_of("taken")), "{output}");
}

#[test]
fn the_right_free_call_is_named_if_a_wrong_one_was_used() {
    let test = "frees_pinned_memory_as_device_memory";
    let checked = on_the_stand_in(test);
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Leaked));
    let output = checked.output();
    let mut findings = report.findings.iter();
    let failed = findings.find(|finding| finding.kind == FindingKind::FailedFree);
    let failed = failed.unwrap_or_else(|| panic!("no failed free\n{output}"));
    let [note] = &failed.notes[..] else {
        panic!("{output}");
    };
    let expected = format!(
        " is 4.00 KiB of pinned memory, allocated at {}: call cuMemFreeHost instead",
        line_of("pinned")
    );
    assert!(note.ends_with(&expected), "{note}\n{expected}");
}

#[test]
fn a_failed_free_of_pinned_memory_is_reported_on_the_host() {
    let test = "frees_memory_that_is_not_pinned";
    let checked = on_the_stand_in(test);
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::FailedFree));
    let [finding] = &report.findings[..] else {
        panic!("{}", checked.output());
    };
    assert_eq!(finding.resource, Some(Kind::Pinned), "{}", checked.output());
    assert_eq!(finding.place, Place::HOST, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn loses_blocks_on_two_threads_while_a_third_one_runs() {
    // This thread runs until the process ends.
    thread::spawn(|| {
        loop {
            thread::park();
        }
    });
    lose_a_block();
    let loader = thread::Builder::new().name("loader".to_owned());
    let loader = loader.spawn(lose_another_block).expect("a thread");
    loader.join().expect("no panic");
}

/// A test's own thread must be recognised although the operating system truncates its name.
#[test]
fn only_a_thread_other_than_the_test_s_own_is_named_as_one_of_a_pool() {
    let test = "loses_blocks_on_two_threads_while_a_third_one_runs";
    let checked = run(&format!("words::{test}"));
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Leaked));
    let output = checked.output();
    let notes = report.findings.iter().flat_map(|finding| &finding.notes);
    let about_threads: Vec<_> = notes
        .filter(|note| note.contains("on the thread"))
        .collect();
    let [note] = &about_threads[..] else {
        panic!("{output}");
    };
    assert!(
        note.starts_with("allocated on the thread loader, "),
        "{output}"
    );
}

#[inline(never)]
fn lose_memory() {
    black_box(take(KIB));
}

#[inline(never)]
fn lose_an_event() {
    black_box(event());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn loses_memory_and_an_event() {
    context();
    lose_memory();
    lose_an_event();
}

#[test]
fn no_tolerance_is_advised_where_handles_leak_too() {
    let test = "loses_memory_and_an_event";
    let checked = on_the_stand_in(test);
    assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Leaked));
    let reported = &checked.child.stderr;
    assert!(!reported.contains("tolerance ="), "{reported}");
}

#[inline(never)]
fn lose_a_block() {
    POOL.take(64, 2 * MIB);
}

#[inline(never)]
fn lose_another_block() {
    POOL.take(64, 2 * MIB);
    POOL.reserve(GIB);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn loses_blocks_and_a_reserve() {
    lose_a_block();
    lose_another_block();
}

#[test]
fn no_tolerance_is_advised_that_leaves_a_failing_reserve() {
    let checked = run("words::loses_blocks_and_a_reserve");
    assert_verdict(
        &checked,
        "loses_blocks_and_a_reserve",
        CheckStatus::Found(FindingKind::Leaked),
    );
    let reported = &checked.child.stderr;
    let advises_tolerance = reported.contains("(tolerance = 128");
    assert!(
        !advises_tolerance || reported.contains("reserved_tolerance = "),
        "{reported}"
    );
}

#[gpu_leak_check(tolerance = 64)]
#[ignore = "keeps a reserve on purpose"]
#[test]
fn keeps_a_reserve_beside_a_block_within_the_tolerance() {
    POOL.take(32, 2 * MIB);
    POOL.reserve(GIB);
}

#[test]
fn advice_about_a_reserve_does_not_contradict_its_notes() {
    let test = "keeps_a_reserve_beside_a_block_within_the_tolerance";
    let checked = run(&format!("words::{test}"));
    assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Retained));
    let reported = &checked.child.stderr;
    let pinned = reported.contains("pinned by");
    let not_explained = reported.contains("nothing that is still live explains");
    assert!(!(pinned && not_explained), "{reported}");
}

static LAST_BATCH: Mutex<Option<Pointer>> = Mutex::new(None);

#[gpu_leak_check]
#[ignore = "keeps its last batch"]
#[test]
fn replaces_the_batch_of_the_run_before() {
    context();
    let batch = take(MIB);
    let old = LAST_BATCH.lock().expect("no panic").replace(batch);
    if let Some(old) = old {
        free(old);
    }
}

#[test]
fn memory_that_the_next_run_frees_is_not_called_made_once() {
    let test = "replaces_the_batch_of_the_run_before";
    let checked = on_the_stand_in(test);
    let output = checked.output();
    assert!(checked.child.status.success(), "{output}");
    assert_eq!(checked.report().status.name(), "deferred", "{output}");
    let reported = &checked.child.stderr;
    for untrue in ["made once", "one-time set-up", "left no more"] {
        assert!(!reported.contains(untrue), "{reported}");
    }
    let says_when = ["next run", "later run", "second run"];
    assert!(
        says_when.iter().any(|words| reported.contains(words)),
        "{reported}"
    );
}

/// A test leaks memory, which an unchecked test frees, and a third test frees memory at the same
/// address twice.
mod an_address_of_an_earlier_test {
    use std::sync::Mutex;

    use super::{Pointer, context, free, gpu_leak_check, rejected_free, take};

    static EARLIER: Mutex<Option<Pointer>> = Mutex::new(None);

    fn earlier() -> Pointer {
        EARLIER
            .lock()
            .expect("no panic")
            .expect("the first test ran")
    }

    #[gpu_leak_check(confirm = false)]
    #[ignore = "leaks on purpose"]
    #[test]
    fn a_leaks() {
        context();
        *EARLIER.lock().expect("no panic") = Some(take(13));
    }

    #[test]
    #[ignore = "one of a suite"]
    fn b_frees_the_leak() {
        context();
        free(earlier());
    }

    #[gpu_leak_check]
    #[ignore = "frees twice on purpose"]
    #[test]
    fn c_frees_twice() {
        context();
        let pointer = take(50);
        assert_eq!(
            pointer,
            earlier(),
            "the stand-in hands the address out again"
        );
        free(pointer);
        rejected_free(pointer);
    }
}

#[test]
fn a_second_free_is_not_explained_by_an_earlier_test() {
    let fake = Fake::new();
    let run = Run::of_all("words::an_address_of_an_earlier_test", 1);
    let run = fake
        .env()
        .into_iter()
        .fold(run, |run, (name, value)| run.env(name, value));
    let checked = checked::finish(run.env("GPU_LEAK_CHECK_SETTLE", "5ms"));
    let failed = CheckStatus::Found(FindingKind::FailedFree);
    let report = assert_verdict(&checked, "c_frees_twice", failed);
    let notes = report.findings[0].notes.join("\n");
    assert!(notes.contains(": 50 B of"), "{notes}\n{}", checked.output());
    assert!(
        !notes.contains(": 13 B of"),
        "{notes}\n{}",
        checked.output()
    );
}
