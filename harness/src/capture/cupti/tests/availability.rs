//! Whether the driver can be watched, and for how long.

use super::super::Unavailable;
use super::{allocate, free, live, start, watched_context, with_driver};
use crate::device::{contexts, exit, pools};
use crate::ledger;
use crate::ledger::event::SourceLoss;

#[test]
fn a_forked_child_is_left_alone() {
    with_driver("", || {
        watched_context();
        let pointer = allocate(64);
        // SAFETY: the child only calls the stand-in and `_exit`; this process has one thread at
        // work.
        let child = unsafe { libc::fork() };
        if child == 0 {
            free(pointer);
            let quiet = exit::forked() && live().len() == 1 && pools::readings().is_empty();
            // SAFETY: ends the child at once, without handlers.
            unsafe { libc::_exit(if quiet { 7 } else { 8 }) };
        }
        let mut status = 0;
        // SAFETY: `child` is a child of this process and `status` is writable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), 7);
        assert_eq!(start().unwrap().heartbeat(), Ok(()));
    });
}

#[test]
fn another_tool_s_subscription_is_told_with_its_name() {
    with_driver("cupti:taken=CUPTI for nsys", || {
        let why = start().unwrap_err();
        let by = Some("CUPTI for nsys".to_owned());
        assert!(
            matches!(why, Unavailable::Taken { by: holder } if *holder == by),
            "{why:?}"
        );
        assert_eq!(why.code().name(), "tracer-taken");
        assert!(!contexts::driver_in_use());
    });
}

#[test]
fn a_driver_too_old_for_cupti_is_told() {
    with_driver("cupti:too_old,version:12040", || {
        let why = start().unwrap_err();
        assert_eq!(why.code().name(), "cupti-too-old");
        assert!(why.what().contains("supports CUDA 12.4"), "{why}");
    });
}

#[test]
fn a_cupti_too_old_for_the_harness_is_told() {
    with_driver("cupti:version=17", || {
        let why = start().unwrap_err();
        assert_eq!(why.code().name(), "cupti-too-old");
        assert!(why.what().contains("11.6"), "{why}");
    });
}

#[test]
fn an_older_cupti_works_without_the_calls_it_does_not_know() {
    with_driver("cupti:version=18", || {
        watched_context();
        let tracer = start().unwrap();
        for newer in ["cuLibraryLoadData", "cuGreenCtxCreate"] {
            assert!(tracer.unseen().contains(&newer), "{newer}");
        }
        assert!(!tracer.unseen().contains(&"cuMemAllocFromPoolAsync_ptsz"));
        assert_eq!(tracer.version().to_string(), "11.8");
        assert!(tracer.path().ends_with("libcupti.so.13"));
        allocate(64);
        assert_eq!(live().len(), 1);
    });
}

#[test]
fn each_generation_of_subscriptions_is_taken() {
    for version in [28, 130_000, 130_200, 130_301, 130_500] {
        with_driver(&format!("cupti:version={version}"), || {
            watched_context();
            let before = live().len();
            allocate(64);
            assert_eq!(live().len(), before + 1);
        });
    }
}

#[test]
fn a_fatal_error_of_cupti_ends_the_trust_in_it() {
    with_driver("cupti:fatal@6", || {
        watched_context();
        for _ in 0..8 {
            free(allocate(64));
        }
        let loss = SourceLoss::CuptiFatal;
        assert_eq!(start().unwrap().heartbeat(), Err(loss));
        assert_eq!(ledger::live().lost(), Some(loss));
    });
}

#[test]
fn a_subscription_taken_down_silently_is_noticed_by_the_heartbeat() {
    with_driver("cupti:lost@6", || {
        watched_context();
        for _ in 0..8 {
            free(allocate(64));
        }
        let loss = SourceLoss::SubscriptionGone;
        assert_eq!(start().unwrap().heartbeat(), Err(loss));
        assert_eq!(ledger::live().lost(), Some(loss));
    });
}
