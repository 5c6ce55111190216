//! Driver calls, on this machine's GPU if there is one, otherwise on the stand-in.

#![expect(unsafe_code, reason = "calls the driver")]
#![expect(
    clippy::print_stdout,
    reason = "shows the counts to whoever runs this test alone"
)]

use std::sync::mpsc;
use std::thread;

use cudarc::driver::sys;
use gpu_leak_check::{Place, gpu_leak_check, memory_allocated};
use gpu_leak_tests::checked;
use gpu_leak_tests::fake::Control;
use gpu_leak_tests::random::Random;

use super::{THREADS, calls};
use crate::kinds::planted::memory::{free, free_async};
use crate::kinds::planted::{Pointer, context};
use crate::races::take::{linear, stream_ordered};

fn device() -> Place {
    Place::cuda(0)
}

/// The unit of allocation of the driver's pool.
const GRAIN: usize = 512;

#[derive(Clone, Copy)]
struct Block {
    pointer: Pointer,
    bytes: u64,
    is_ordered: bool,
}

#[test]
fn ledger_driver_and_pool_agree_at_the_end() {
    checked::run("soak::driver::takes_and_frees_on_all_threads").assert_clean();
}

#[gpu_leak_check(confirm = false)]
#[ignore = "run in a process of its own"]
#[test]
fn takes_and_frees_on_all_threads() {
    context();
    let at_first = (memory_allocated(device()), pool_used());
    let kept = on_all_threads();
    let sum = |is_ordered| {
        let alike = kept.iter().filter(|block| block.is_ordered == is_ordered);
        alike.map(|block| block.bytes).sum::<u64>()
    };
    wait();
    let now = (memory_allocated(device()), pool_used());
    assert_eq!(now.0 - at_first.0, sum(false) + sum(true), "ledger");
    assert_eq!(now.1 - at_first.1, sum(true), "pool");
    if let Some(control) = Control::of_this_process() {
        assert_eq!(control.live("linear").1, sum(false), "driver");
        assert_eq!(control.live("stream-ordered").1, sum(true), "driver");
    }
    kept.iter().for_each(give_back);
    wait();
    assert_eq!(
        (memory_allocated(device()), pool_used()),
        at_first,
        "all was given back"
    );
    println!(
        "soak: {} calls on {THREADS} threads; {} blocks, {} B linear and {} B stream-ordered \
         were left at the end, by ledger, driver and pool",
        calls() / THREADS * THREADS,
        kept.len(),
        sum(false),
        sum(true)
    );
}

/// Returns the blocks that the threads have left. Each thread may have left blocks that another
/// thread allocated.
fn on_all_threads() -> Vec<Block> {
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel()).unzip();
    let mut neighbours = senders;
    neighbours.rotate_left(1);
    thread::scope(|scope| {
        let threads: Vec<_> = (1..)
            .zip(neighbours.into_iter().zip(inboxes))
            .map(|(seed, (neighbour, inbox))| {
                scope.spawn(move || {
                    context();
                    let mut random = Random(seed);
                    let mut kept: Vec<Block> = Vec::new();
                    let mut made = 0;
                    while made < calls() / THREADS {
                        kept.extend(inbox.try_iter());
                        match random.below(10) {
                            0..=4 if kept.len() < 50 => kept.push(take(&mut random)),
                            9 if !kept.is_empty() => {
                                let sent = kept.swap_remove(random.below(kept.len()));
                                neighbour.send(sent).expect("all live to the end");
                                continue;
                            }
                            _ if !kept.is_empty() => {
                                give_back(&kept.swap_remove(random.below(kept.len())));
                            }
                            _ => continue,
                        }
                        made += 1;
                    }
                    drop(neighbour);
                    kept.extend(inbox.iter());
                    kept
                })
            })
            .collect();
        let kept = threads
            .into_iter()
            .map(|thread| thread.join().expect("no call fails"));
        kept.flatten().collect()
    })
}

/// Allocates a block, occasionally with the call that synchronises the device.
fn take(random: &mut Random) -> Block {
    let is_ordered = random.below(8) != 0;
    let bytes = GRAIN * (1 + random.below(64));
    let take = if is_ordered { stream_ordered } else { linear };
    Block {
        pointer: take(bytes),
        bytes: bytes as u64,
        is_ordered,
    }
}

fn give_back(block: &Block) {
    if block.is_ordered {
        free_async(block.pointer);
    } else {
        free(block.pointer);
    }
}

fn wait() {
    context().synchronize().expect("no work fails");
}

/// Returns the bytes that the device's pool says it has handed out.
fn pool_used() -> u64 {
    let (mut pool, mut used) = (std::ptr::null_mut(), 0_u64);
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    // SAFETY: the out pointers are valid, and the figure is 64 bits wide.
    unsafe {
        sys::cuDeviceGetDefaultMemPool(&raw mut pool, 0)
            .result()
            .expect("a pool");
        sys::cuMemPoolGetAttribute(pool, attribute, (&raw mut used).cast())
            .result()
            .expect("a figure");
    }
    used
}
