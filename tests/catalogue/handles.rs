//! Handles and addresses that are passed back to the driver, and contexts.

/// Work that is recorded once and launched often.
mod recorder {
    use cudarc::driver::sys::CUgraphExec;
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Recording {
        executable: CUgraphExec,
    }

    impl Recording {
        fn new() -> Self {
            let graph = cuda::create_graph();
            let executable = cuda::instantiate(graph); // MISTAKE
            Self { executable }
        }

        fn play(&self, times: usize) {
            for _ in 0..times {
                cuda::launch(self.executable);
            }
        }
    }

    impl Drop for Recording {
        fn drop(&mut self) {
            cuda::destroy_executable(self.executable);
        }
    }

    fn simulate(steps: usize) {
        Recording::new().play(steps);
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        simulate(3);
    }
}

/// Memory of the program that the device reads directly.
mod window {
    use std::ffi::c_void;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Window {
        bytes: &'static mut [u8],
    }

    /// Memory that the process keeps.
    fn pages(size: usize) -> &'static mut [u8] {
        Box::leak(vec![0; size].into_boxed_slice())
    }

    impl Window {
        fn open(size: usize) -> Self {
            let bytes = pages(size);
            cuda::register(bytes);
            Self { bytes }
        }

        fn start(&mut self) -> *mut c_void {
            self.bytes.as_mut_ptr().cast()
        }
    }

    impl Drop for Window {
        fn drop(&mut self) {
            let _ = cuda::try_free_pinned(self.start()); // MISTAKE
        }
    }

    fn scan(size: usize) -> usize {
        let window = Window::open(size);
        window.bytes.len()
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(scan(10_000), 10_000);
    }
}

/// Messages, each behind a header.
mod message {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    const HEADER: u64 = 16;

    struct Message {
        payload: u64,
    }

    impl Message {
        fn with_room(bytes: usize) -> Self {
            let block = cuda::alloc(bytes + 16);
            let payload = block + HEADER;
            Self { payload }
        }

        fn discard(self) {
            let _ = cuda::try_free(self.payload); // MISTAKE
        }
    }

    fn exchange(sizes: &[usize]) {
        for bytes in sizes {
            let message = Message::with_room(*bytes);
            message.discard();
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        exchange(&[48, 48]);
    }
}

/// A renderer with a context of its own.
mod renderer {
    use cudarc::driver::sys::CUcontext;
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Device {
        own: CUcontext,
    }

    impl Device {
        fn open() -> Self {
            let own = cuda::create_context();
            Self { own }
        }

        fn close(self) {
            cuda::destroy_context(self.own);
        }
    }

    struct Renderer {
        device: Device,
        targets: Vec<u64>,
    }

    impl Renderer {
        fn new(targets: usize) -> Self {
            let device = Device::open();
            let targets = (0..targets).map(|_| cuda::alloc(3000)).collect();
            Self { device, targets }
        }

        fn close(self) -> usize {
            self.device.close(); // MISTAKE
            self.targets.len()
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(Renderer::new(2).close(), 2);
    }
}
