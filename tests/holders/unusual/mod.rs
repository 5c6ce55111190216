//! Holders in the places where the tests of `LeakSanitizer` and memray put them. A report cannot
//! name a holder in a place that cannot be searched, but then it must not say that nothing holds
//! the leak.

#![expect(
    unsafe_code,
    reason = "uses thread-local data, stacks and signals of the C library"
)]

mod stacks;
mod statics;
mod thread_data;

use std::mem::zeroed;
use std::ptr::null_mut;

use gpu_leak_check::report::check_report::{Finding, FindingKind};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;

fn run(test: &str) -> Checked {
    run_with(test, |run| run)
}

/// Runs a test of one of the modules on the stand-in, because a real driver has more memory than a
/// search reads.
fn run_with(test: &str, prepared: impl FnOnce(Run) -> Run) -> Checked {
    let fake = Fake::new();
    let run = fake.run(&format!("holders::unusual::{test}"));
    checked::finish(prepared(run.env("GPU_LEAK_CHECK_HELD_BY", "600s")))
}

/// Returns the finding that is not the leak of [`keep`]. Fails unless the report names the static
/// for the leak of `keep`, which shows that there was a search.
fn beside_the_static(checked: &Checked) -> &Finding {
    let leaks = checked.report().findings.iter();
    let leaks = leaks.filter(|finding| finding.kind == FindingKind::Leaked);
    let (kept, others): (Vec<_>, Vec<_>) = leaks.partition(|finding| {
        let mut frames = finding.site.frames.iter();
        frames.any(|frame| frame.function.as_deref() == Some("main::holders::planted::keep"))
    });
    let ([kept], [other]) = (&kept[..], &others[..]) else {
        panic!("{}", checked.output());
    };
    let holders = kept.holders.iter().flatten();
    let names: Vec<_> = holders.map(|it| it.root.name.as_deref()).collect();
    assert_eq!(
        names,
        [Some("main::holders::planted::STATIC")],
        "{}",
        checked.output()
    );
    other
}

/// The reasons why a report does not say what holds the other leak. Either the holder has no name,
/// or it was not searched, like the stack of a running thread.
const REASONS: [&str; 2] = [
    "it is referenced only from memory that belongs to no known variable, or through more than 6 \
     heap blocks",
    "some memory could not be searched",
];

/// Fails unless the report names no holder of the other leak, and gives a reason for that.
#[track_caller]
fn assert_nothing_is_reported(checked: &Checked) {
    let other = beside_the_static(checked);
    assert_eq!(other.holders, None, "{}", checked.output());
    let reason = other.not_searched.as_deref().unwrap_or_default();
    assert!(REASONS.contains(&reason), "{}", checked.output());
}

/// Installs a handler that does not restart the system calls that it interrupts.
fn handle(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: the handler is a function of this type, and all other fields may be zero.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handler as usize;
        assert_eq!(libc::sigaction(signal, &raw const action, null_mut()), 0);
    }
}
