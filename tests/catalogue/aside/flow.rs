//! Branches, loops and addresses.

/// Chunks that are sent to a peer, which closes those that it cannot accept.
mod upload {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    struct Chunk {
        block: Option<u64>,
        bytes: u64,
    }

    impl Chunk {
        fn new(bytes: u64) -> Self {
            let block = Some(heap::allocate(bytes));
            Self { block, bytes }
        }

        fn close(&mut self) {
            self.block.take().into_iter().for_each(heap::free);
        }
    }

    struct Peer {
        room: u64,
    }

    impl Peer {
        fn take(&mut self, chunk: &mut Chunk) -> Result<u64, String> {
            let Some(room) = self.room.checked_sub(chunk.bytes) else {
                chunk.close();
                return Err(format!("no room for {} bytes", chunk.bytes));
            };
            self.room = room;
            Ok(chunk.bytes)
        }
    }

    fn upload(sizes: &[u64]) -> (u64, u32) {
        let (mut peer, mut sent) = (Peer { room: 1000 }, 0);
        for bytes in sizes {
            let mut chunk = Chunk::new(*bytes);
            if peer.take(&mut chunk).is_err() {
                chunk.close();
            } else {
                sent += 1; // MISTAKE
            }
        }
        (peer.room, sent)
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(upload(&[300, 400, 2000]), (300, 2));
    }
}

/// A solver that prefers a large workspace.
mod workspace {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Solver {
        limit: usize,
        refused: u32,
    }

    impl Solver {
        fn reserve(&mut self) -> Option<u64> {
            for bytes in [4096, 2048, 1024] {
                let workspace = cuda::alloc_async(bytes);
                if bytes <= self.limit {
                    return Some(workspace);
                }
                self.refused += 1; // MISTAKE
            }
            None
        }

        fn solve(&mut self) -> bool {
            let workspace = self.reserve();
            workspace.map(cuda::free_async).is_some()
        }
    }

    fn simulate(limit: usize) -> u32 {
        let mut solver = Solver { limit, refused: 0 };
        assert!(solver.solve());
        solver.refused
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(simulate(1500), 2);
    }
}

/// Records, each preceded by its length.
mod record {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    const LENGTH: u64 = 8;

    /// Returns where the record begins.
    fn record_new(bytes: u64) -> u64 {
        LENGTH + heap::allocate(LENGTH + bytes)
    }

    fn record_free(record: u64) {
        heap::free(record); // MISTAKE
    }

    fn sort(sizes: &[u64]) -> u64 {
        let mut records: Vec<_> = sizes.iter().map(|bytes| record_new(*bytes)).collect();
        records.sort_unstable();
        let first = records[0];
        records.into_iter().for_each(record_free);
        first
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(sort(&[92, 92, 92]) % LENGTH, 0);
    }
}

/// Events whose completion is awaited in order.
mod sampler {
    use cudarc::driver::sys::CUevent;
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    #[derive(Default)]
    struct Sampler {
        pending: Vec<CUevent>,
        finished: usize,
    }

    impl Sampler {
        fn sample(&mut self) {
            self.pending.push(cuda::create_event());
        }

        fn poll(&mut self) -> bool {
            let is_pending = self.pending.len() > 1; // MISTAKE
            if is_pending {
                cuda::destroy_event(self.pending.remove(0));
                self.finished += 1;
            }
            is_pending
        }

        fn wait(&mut self) {
            while self.poll() {}
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let mut sampler = Sampler::default();
        for _ in 0..4 {
            sampler.sample();
        }
        sampler.wait();
        assert_ne!(sampler.finished, 0);
    }
}
