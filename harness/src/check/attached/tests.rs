use std::sync::Mutex;
use std::time::Instant;

use super::{Attached, AttachedState, Cause, shortened};

fn attached() -> Attached {
    Attached {
        log: None,
        every: None,
        is_test: false,
        began: Instant::now(),
        state: Mutex::new(AttachedState {
            session: None,
            notes: Vec::new(),
            held_by_interpreter: None,
            exit: None,
        }),
    }
}

#[cfg(unix)]
#[test]
fn a_child_forked_during_a_snapshot_still_ends() {
    let attached = attached();
    // During a snapshot, the watcher thread holds the same lock. That thread does not exist in the
    // child.
    let _snapshot = attached.state();
    let status = crate::exit::tests::in_forked_child(|| {
        attached.snapshot(Cause::Tick);
        attached.finish();
        0
    });
    assert_eq!(
        status, 0,
        "the child waits for a thread that does not exist"
    );
}

#[test]
fn a_command_line_is_shown_even_if_the_program_changed_it() {
    for (line, name) in [
        (
            &b"/usr/bin/python3\0train.py\0"[..],
            Some("python3 train.py"),
        ),
        (
            b"nginx: worker process      ",
            Some("nginx: worker process"),
        ),
        (b"/opt/a b/serve  \0\0\0", Some("serve")),
        (b"/\0", Some("/")),
        (b"\xff\0", Some("\u{fffd}")),
        (b"", None),
        (b"  \0 ", None),
    ] {
        assert_eq!(shortened(line).as_deref(), name, "{line:?}");
    }
}
