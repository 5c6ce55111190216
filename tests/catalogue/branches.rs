//! Functions with several code paths.

/// Packets that are decoded one after another.
mod decoder {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    struct Header {
        width: u32,
    }

    impl Header {
        fn parse(packet: &[u8]) -> Result<Self, String> {
            match packet {
                [b'P', width, ..] => Ok(Self {
                    width: u32::from(*width),
                }),
                _ => Err(format!("{} bytes without a header", packet.len())),
            }
        }
    }

    fn decode(packet: &[u8]) -> Result<u32, String> {
        let surface = heap::allocate(4096);
        let header = Header::parse(packet)?; // MISTAKE
        heap::free(surface);
        Ok(header.width)
    }

    fn play(packets: &[&[u8]]) -> u32 {
        let widths = packets.iter().flat_map(|packet| decode(packet));
        widths.sum()
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(play(&[b"P\x08..", b"??", b"P\x10.."]), 24);
    }
}

/// A queue of copies and barriers.
mod queue {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    enum Job {
        Copy(usize),
        Barrier,
    }

    #[derive(Default)]
    struct Queue {
        jobs: Vec<Job>,
        copied: usize,
        barriers: usize,
    }

    impl Queue {
        fn flush(&mut self) {
            for job in self.jobs.drain(..) {
                let finished = cuda::create_event();
                match job {
                    Job::Copy(bytes) => self.copied += bytes,
                    Job::Barrier => {
                        self.barriers += 1;
                        continue; // MISTAKE
                    }
                }
                cuda::destroy_event(finished);
            }
        }
    }

    fn submit(queue: &mut Queue) {
        queue.jobs.extend([Job::Copy(100), Job::Barrier]);
        queue.jobs.extend([Job::Copy(20), Job::Barrier]);
        queue.flush();
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let mut queue = Queue::default();
        submit(&mut queue);
        assert_eq!((queue.copied, queue.barriers), (120, 2));
    }
}

/// Transfers through staging memory. A broken transfer has already released that memory.
mod transfer {
    use std::cell::Cell;
    use std::ffi::c_void;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Transfer {
        staging: Cell<Option<*mut c_void>>,
        bytes: usize,
    }

    impl Transfer {
        fn begin(bytes: usize) -> Self {
            let staging = Cell::new(Some(cuda::pinned(bytes)));
            Self { staging, bytes }
        }

        fn run(&self) -> Result<usize, String> {
            if self.bytes > 1000 {
                self.release();
                return Err(format!("{} bytes are too many", self.bytes));
            }
            Ok(self.bytes)
        }

        fn release(&self) {
            self.staging.take().into_iter().for_each(cuda::free_pinned);
        }
    }

    fn send(sizes: &[usize]) -> usize {
        let mut sent = 0;
        for bytes in sizes {
            let transfer = Transfer::begin(*bytes);
            match transfer.run() {
                Ok(bytes) => sent += bytes, // MISTAKE
                Err(_) => transfer.release(),
            }
        }
        sent
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(send(&[512, 512, 2048]), 1024);
    }
}

/// Code that may have to be loaded more than once.
mod loader {
    use cudarc::driver::sys::CUmodule;
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Engine {
        attempts: u32,
    }

    impl Engine {
        /// The first two launches fail, because the device is not ready.
        fn launch(&self, _module: CUmodule) -> bool {
            self.attempts >= 2
        }

        fn prepare(&mut self) -> CUmodule {
            loop {
                let module = cuda::load_module();
                if self.launch(module) {
                    return module;
                }
                self.attempts += 1; // MISTAKE
            }
        }

        fn run(&mut self) {
            let module = self.prepare();
            assert!(self.launch(module));
            cuda::unload_module(module);
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let mut engine = Engine { attempts: 0 };
        engine.run();
        assert_eq!(engine.attempts, 2);
    }
}

/// A solver that asks for a larger workspace until the problem fits.
mod workspace {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    fn solve(unknowns: usize) -> Result<usize, String> {
        let mut bytes = 1024;
        for _ in 0..4 {
            let workspace = cuda::alloc_async(bytes);
            let fits = unknowns * 8 <= bytes;
            cuda::free_async(workspace);
            if fits {
                return Ok(bytes);
            }
            bytes *= 2;
        }
        Err(format!("{unknowns} unknowns are too many"))
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(solve(400), Ok(4096));
        assert!(solve(4000).is_err(), "it does not fit");
    }
}
