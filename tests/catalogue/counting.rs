//! Programs that count resources: how many exist, and how many are to be released.

/// Streams among which the work is divided.
mod streams {
    use cudarc::driver::sys::CUstream;
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Group {
        streams: Vec<CUstream>,
        next: usize,
    }

    impl Group {
        fn new(size: usize) -> Self {
            let streams = (0..size).map(|_| cuda::create_stream()).collect();
            Self { streams, next: 0 }
        }

        fn next(&mut self) -> CUstream {
            self.next = (self.next + 1) % self.streams.len();
            self.streams[self.next]
        }

        fn close(&mut self) {
            let started = self.streams.split_off(1); // MISTAKE
            started.into_iter().for_each(cuda::destroy_stream);
        }
    }

    fn spread(jobs: usize) -> usize {
        let mut group = Group::new(4);
        let used = (0..jobs).filter(|_| !group.next().is_null()).count();
        group.close();
        used
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(spread(6), 6);
    }
}

/// A buffer that counts its users.
mod shared {
    use std::cell::Cell;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    struct Shared {
        address: u64,
        users: Cell<u32>,
    }

    impl Shared {
        fn new(bytes: u64) -> Self {
            let address = heap::allocate(bytes);
            let users = Cell::new(1);
            Self { address, users }
        }

        fn acquire(&self) -> u64 {
            self.users.set(self.users.get() + 1);
            self.address
        }

        fn release(&self) {
            let before = self.users.replace(self.users.get() - 1);
            let is_unused = before == 0; // MISTAKE
            if is_unused {
                heap::free(self.address);
            }
        }
    }

    /// Compares a signal with itself, a few samples later.
    fn correlate(bytes: u64, lag: u64) -> u64 {
        let signal = Shared::new(bytes);
        let later = signal.acquire() + lag;
        let distance = later - signal.address;
        signal.release();
        signal.release();
        distance
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(correlate(800, 4), 4);
    }
}

/// Physical memory in pages.
mod pages {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Pages {
        pages: Vec<u64>,
        count: usize,
    }

    impl Pages {
        fn for_bytes(bytes: usize) -> Self {
            let count = bytes.div_ceil(cuda::PAGE);
            let pages = (0..=count).map(|_| cuda::create_page()); // MISTAKE
            let pages = pages.collect();
            Self { pages, count }
        }

        fn release(&self) {
            for page in &self.pages[..self.count] {
                cuda::release_page(*page);
            }
        }
    }

    fn train(parameters: usize) -> usize {
        let pages = Pages::for_bytes(parameters * 4);
        pages.release();
        pages.count
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(train(1_000_000), 2);
    }
}
