//! Threads that exchange one address. The driver may hand out an address again before the call that
//! freed it has returned. A ledger that removes records too late loses the new owner's record. A
//! ledger that restores records too eagerly invents some.

use std::collections::HashSet;
use std::sync::mpsc;
use std::thread;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::fake::{Control, Fake};

use crate::kinds::planted::memory::{free, free_async};
use crate::kinds::planted::{Pointer, context};

pub(crate) mod take;
use take::{linear, stream_ordered};

const THREADS: usize = 4;

/// Returns the number of rounds. Both tests together make a million frees, or fewer if a debug
/// build runs on the stand-in, to save time.
fn rounds() -> usize {
    let frees = if cfg!(debug_assertions) && Control::of_this_process().is_some() {
        50_000
    } else {
        1_000_000
    };
    frees / 2 / THREADS
}

/// The size of the block that a thread keeps at its end. All sizes differ.
fn kept(thread: usize) -> usize {
    1000 + thread
}

fn takes_and_frees(take: fn(usize) -> Pointer, free: fn(Pointer)) {
    let addresses: Vec<HashSet<Pointer>> = thread::scope(|scope| {
        let work = |number| {
            context();
            let mut addresses = HashSet::new();
            for _ in 0..rounds() {
                let pointer = take(256);
                addresses.insert(pointer);
                free(pointer);
            }
            take(kept(number));
            addresses
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no call fails"))
            .collect()
    });
    let all: usize = addresses.iter().map(HashSet::len).sum();
    let different: HashSet<_> = addresses.iter().flatten().collect();
    assert!(
        different.len() < all,
        "no address was ever another thread's"
    );
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn linear_memory() {
    takes_and_frees(linear, free);
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn stream_ordered_memory() {
    takes_and_frees(stream_ordered, free_async);
}

/// Fails unless the leaks are exactly the kept blocks. A lost record is a missing leak, and an
/// invented record is an additional leak.
#[track_caller]
fn assert_only_what_was_kept(checked: &Checked, kind: Kind, kept: impl Iterator<Item = usize>) {
    let kept: Vec<_> = kept.collect();
    let output = checked.output();
    let [finding] = &checked.report().findings[..] else {
        panic!("{output}")
    };
    let bytes = kept.iter().sum::<usize>() as u64;
    assert_eq!(
        (finding.resource, finding.count, finding.bytes),
        (Some(kind), kept.len() as u64, bytes),
        "{output}"
    );
}

#[test]
fn a_million_frees_lose_and_invent_nothing() {
    for (body, kind) in [
        ("linear_memory", Kind::Linear),
        ("stream_ordered_memory", Kind::StreamOrdered),
    ] {
        let checked = checked::run(&format!("races::{body}"));
        assert_only_what_was_kept(&checked, kind, (0..THREADS).map(kept));
    }
}

const HAND_OVERS: usize = 2000;

/// Two threads take turns. One frees and is held before its call returns, and the other is then
/// given the address.
#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose, on the stand-in"]
#[test]
fn passes_one_address_back_and_forth() {
    let control = Control::of_this_process().expect("the stand-in");
    context();
    let mut pointer = linear(256);
    let (frees, inbox) = mpsc::channel::<Pointer>();
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        context();
        for pointer in inbox {
            free(pointer);
            done.send(()).expect("the body waits");
        }
    });
    for _ in 0..HAND_OVERS {
        control.clear_faults();
        control.set_fault("delay:cuMemFree_v2");
        frees.send(pointer).expect("the thread waits");
        control.wait_held("cuMemFree_v2");
        let again = linear(256);
        assert_eq!(again, pointer, "the same address");
        control.release("cuMemFree_v2");
        is_done.recv().expect("the thread lives");
        pointer = again;
    }
}

#[test]
fn an_address_reused_before_its_free_returns_has_its_new_owner() {
    let checked = checked::on(&Fake::new(), "races::passes_one_address_back_and_forth");
    assert_only_what_was_kept(&checked, Kind::Linear, [256].into_iter());
}
