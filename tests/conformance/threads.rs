//! Many threads on one allocator.

use std::sync::mpsc;
use std::thread;

use gpu_leak_kernels::Device;
use gpu_leak_kernels::memory::{Buffer, empty_cache};

use gpu_leak_tests::random::Random;

/// Each thread allocates and drops buffers of all sizes, and sends some to another thread, which
/// drops them. Each buffer that the host can access is marked, and the mark is checked later: two
/// owners of one address would see each other's marks.
pub(crate) fn hammer(device: &Device, threads: u8, steps: usize) {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel()).unzip();
    let mut neighbours = senders;
    neighbours.rotate_left(1);
    thread::scope(|scope| {
        for ((mark, neighbour), inbox) in (1..).zip(neighbours).zip(receivers) {
            scope.spawn(move || {
                let mut random = Random(u64::from(mark));
                let mut kept: Vec<(Buffer, u8)> = Vec::new();
                for _ in 0..steps {
                    match random.below(10) {
                        0..=4 if kept.len() < 20 => {
                            kept.push((take(device, &mut random, mark), mark))
                        }
                        0..=7 if !kept.is_empty() => {
                            check(kept.swap_remove(random.below(kept.len())));
                        }
                        8 if !kept.is_empty() => {
                            let sent = kept.swap_remove(random.below(kept.len()));
                            neighbour.send(sent).expect("all receivers live to the end");
                        }
                        _ => inbox.try_iter().for_each(check),
                    }
                    if random.below(50) == 0 {
                        empty_cache(device).expect("free segments go back");
                    }
                }
                kept.into_iter().for_each(check);
                drop(neighbour);
                inbox.iter().for_each(check);
            });
        }
    });
}

fn take(device: &Device, random: &mut Random, mark: u8) -> Buffer {
    let largest = [2_000, 100_000, 1 << 20, 4 << 20, 12 << 20][random.below(5)];
    let mut buffer = Buffer::new(device, 1 + random.below(largest)).expect("there is room");
    if let Some(bytes) = buffer.as_bytes_mut() {
        let last = bytes.len() - 1;
        (bytes[0], bytes[last]) = (mark, mark);
    }
    buffer
}

fn check((buffer, mark): (Buffer, u8)) {
    if let Some(bytes) = buffer.as_bytes() {
        assert_eq!((bytes[0], bytes[bytes.len() - 1]), (mark, mark));
    }
}
