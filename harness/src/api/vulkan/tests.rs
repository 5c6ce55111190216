use std::collections::HashSet;
use std::sync::Barrier;
use std::thread;

use super::call::{Created, VulkanCall};
use super::functions::{FUNCTIONS, TARGETS, calls};
use super::owners;
use crate::ledger::Kind;

#[test]
fn each_name_occurs_once() {
    let calls = calls();
    let names: HashSet<_> = calls.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), calls.len());
    assert_eq!(FUNCTIONS.len(), names.len() * TARGETS);
}

#[test]
fn everything_that_can_be_created_can_be_destroyed_and_vice_versa() {
    let (mut made, mut destroyed) = (HashSet::new(), HashSet::new());
    for (_, call) in calls() {
        match call {
            VulkanCall::Creates(create) => made.insert(create.kind),
            VulkanCall::Destroys(destroy) => destroyed.insert(destroy.kind),
            VulkanCall::EmptiesPool {
                destroys: Some(kind),
                ..
            } => destroyed.insert(kind),
            _ => false,
        };
    }
    assert_eq!(made, destroyed);
}

#[test]
fn only_memory_is_measured() {
    for (name, call) in calls() {
        if let VulkanCall::Creates(create) = call {
            let is_memory = matches!(create.how, Created::Memory(_));
            assert_eq!(is_memory, !create.kind.is_handle(), "{name}");
            assert_eq!(is_memory, create.kind == Kind::Memory, "{name}");
        }
    }
}

/// The creation of these owners was not intercepted, so the first call adds them.
#[test]
fn threads_that_use_an_unknown_owner_first_agree_on_its_context() {
    const THREADS: usize = 4;
    let barrier = Barrier::new(THREADS);
    let contexts = || {
        let handles = 0x9000_0000..0x9000_0400;
        let context = |handle| {
            barrier.wait();
            owners::get(handle).uid
        };
        handles.map(context).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let threads = [(); THREADS].map(|()| scope.spawn(contexts));
        let [first, others @ ..] = threads.map(|it| it.join().unwrap());
        assert!(others.iter().all(|other| *other == first));
    });
}
