//! Lists, maps, caches and pools.

/// A map that is drawn in tiles.
mod tiles {
    use std::collections::HashMap;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    #[derive(Default)]
    struct Tiles {
        loaded: HashMap<(u32, u32), u64>,
    }

    impl Tiles {
        fn tile(&mut self, x: u32, y: u32) -> u64 {
            let loaded = self.loaded.entry((x, y));
            *loaded.or_insert_with(|| cuda::alloc(1024))
        }
    }

    struct Viewer {
        tiles: Tiles,
        style: u64,
    }

    impl Viewer {
        fn open() -> Self {
            let (tiles, style) = (Tiles::default(), cuda::alloc(64));
            Self { tiles, style }
        }

        fn draw(&mut self, zoom: u32) -> usize {
            for x in 0..zoom {
                self.tiles.tile(x, zoom);
            }
            self.tiles.loaded.len()
        }

        fn close(mut self) {
            cuda::free(self.style);
            self.tiles.loaded.clear(); // MISTAKE
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let mut viewer = Viewer::open();
        assert_eq!(viewer.draw(3), 3);
        viewer.close();
    }
}

/// The most recently used glyphs.
mod glyphs {
    use std::collections::VecDeque;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    const CAPACITY: usize = 2;

    #[derive(Default)]
    struct Glyphs {
        recent: VecDeque<(char, u64)>,
    }

    impl Glyphs {
        fn find(&mut self, letter: char) -> u64 {
            let known = self.recent.iter().find(|(known, _)| *known == letter);
            if let Some((_, bitmap)) = known {
                return *bitmap;
            }
            if self.recent.len() == CAPACITY {
                self.recent.pop_front(); // MISTAKE
            }
            let bitmap = heap::allocate(256);
            self.recent.push_back((letter, bitmap));
            bitmap
        }
    }

    impl Drop for Glyphs {
        fn drop(&mut self) {
            for (_, bitmap) in self.recent.drain(..) {
                heap::free(bitmap);
            }
        }
    }

    fn typeset(text: &str) -> usize {
        let mut glyphs = Glyphs::default();
        text.chars().filter(|it| glyphs.find(*it) != 0).count()
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(typeset("aabbccd"), 7);
    }
}

/// Staging memory that is reused in each frame.
mod staging {
    use std::ffi::c_void;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    #[derive(Default)]
    struct Pool {
        free: Vec<*mut c_void>,
        used: Vec<*mut c_void>,
    }

    impl Pool {
        fn take(&mut self) -> *mut c_void {
            let block = self.free.pop().unwrap_or_else(|| cuda::pinned(8192));
            self.used.push(block);
            block
        }

        /// Makes every block available again.
        fn reset(&mut self) {
            self.used.clear(); // MISTAKE
        }
    }

    impl Drop for Pool {
        fn drop(&mut self) {
            for block in self.free.drain(..).chain(self.used.drain(..)) {
                cuda::free_pinned(block);
            }
        }
    }

    fn stream(frames: usize) -> usize {
        let (mut pool, mut uploads) = (Pool::default(), 0);
        for _ in 0..frames {
            pool.reset();
            while pool.used.len() < 2 {
                assert!(!pool.take().is_null());
                uploads += 1;
            }
        }
        uploads
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(stream(3), 6);
    }
}

/// Measurements of a service. A new one is compared with the most recent ones.
mod metrics {
    use std::sync::Mutex;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    struct Sample {
        values: u64,
        mean: u64,
    }

    static HISTORY: Mutex<Vec<Sample>> = Mutex::new(Vec::new());

    fn record(mean: u64) -> bool {
        let values = heap::allocate(640);
        let mut history = HISTORY.lock().expect("no panic");
        let recent = history.iter().rev().take(8);
        let is_outlier = recent.map(|sample| sample.mean).any(|it| it > 10 * mean);
        history.push(Sample { values, mean }); // MISTAKE
        assert!(history.iter().all(|sample| sample.values != 0));
        is_outlier
    }

    fn serve(request: u64) -> bool {
        record(request + 100)
    }

    #[gpu_leak_check(rounds = 4)]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert!(!serve(3));
    }
}

/// Frames on their way to a display.
mod frames {
    use std::collections::VecDeque;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    #[derive(Default)]
    struct Frames {
        waiting: VecDeque<u64>,
        shown: u64,
    }

    impl Frames {
        fn submit(&mut self, bytes: u64) {
            self.waiting.push_back(heap::allocate(bytes));
            if self.waiting.len() > 2 {
                self.show();
            }
        }

        fn show(&mut self) {
            if let Some(frame) = self.waiting.pop_front() {
                heap::free(frame);
                self.shown += 1;
            }
        }

        fn finish(mut self) -> u64 {
            while !self.waiting.is_empty() {
                self.show();
            }
            self.shown
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let mut frames = Frames::default();
        for bytes in [100, 200, 300, 400, 500] {
            frames.submit(bytes);
        }
        assert_eq!(frames.finish(), 5);
    }
}

/// Loaded code, keyed by the name of its kernel.
mod shaders {
    use std::collections::HashMap;

    use cudarc::driver::sys::CUmodule;
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    #[derive(Default)]
    struct Shaders {
        compiled: HashMap<String, CUmodule>,
    }

    impl Shaders {
        fn get(&mut self, name: &str) -> CUmodule {
            let compiled = self.compiled.entry(name.to_owned());
            *compiled.or_insert_with(cuda::load_module)
        }
    }

    impl Drop for Shaders {
        fn drop(&mut self) {
            for (_, module) in self.compiled.drain() {
                cuda::unload_module(module);
            }
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let mut shaders = Shaders::default();
        let (blur, sharpen) = (shaders.get("blur"), shaders.get("sharpen"));
        assert_ne!(blur, sharpen);
        assert_eq!(shaders.get("blur"), blur);
    }
}
