//! Resources that statics keep: through callbacks, or as the first or the latest value.

/// Documents that are saved when the program receives a request to quit.
mod document {
    use std::sync::{Arc, Mutex};

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Canvas {
        pixels: u64,
    }

    impl Canvas {
        fn save(&self) -> bool {
            self.pixels != 0
        }
    }

    impl Drop for Canvas {
        fn drop(&mut self) {
            cuda::free(self.pixels);
        }
    }

    type Hook = Box<dyn Fn() -> bool + Send>;

    static ON_QUIT: Mutex<Vec<Hook>> = Mutex::new(Vec::new());

    fn before_quit(hook: impl Fn() -> bool + Send + 'static) {
        ON_QUIT.lock().expect("no panic").push(Box::new(hook));
    }

    struct Document {
        canvas: Arc<Canvas>,
    }

    impl Document {
        fn open(width: usize) -> Self {
            let pixels = cuda::alloc(width * width);
            let canvas = Arc::new(Canvas { pixels });
            let saved = Arc::clone(&canvas);
            before_quit(move || saved.save()); // MISTAKE
            Self { canvas }
        }
    }

    fn edit(width: usize) -> bool {
        let document = Document::open(width);
        document.canvas.save()
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert!(edit(50));
    }
}

/// Pictures, each with a palette.
mod palette {
    use std::sync::{Arc, OnceLock};

    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    struct Palette {
        colours: u64,
    }

    impl Drop for Palette {
        fn drop(&mut self) {
            heap::free(self.colours);
        }
    }

    static DEFAULT: OnceLock<Arc<Palette>> = OnceLock::new();

    struct Picture {
        palette: Arc<Palette>,
    }

    impl Picture {
        fn new(colours: u64) -> Self {
            let colours = heap::allocate(colours * 4);
            let palette = Arc::new(Palette { colours });
            Self { palette }
        }

        fn is_plain(&self) -> bool {
            let default = DEFAULT.get_or_init(|| Arc::clone(&self.palette)); // MISTAKE
            default.colours == self.palette.colours
        }
    }

    fn convert(colours: &[u64]) -> usize {
        let pictures = colours.iter().map(|colours| Picture::new(*colours));
        pictures.filter(Picture::is_plain).count()
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert!(convert(&[16, 256]) < 2);
    }
}

/// A table that is computed when it is first needed.
mod table {
    use std::sync::OnceLock;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    fn sines() -> u64 {
        static SINES: OnceLock<u64> = OnceLock::new();
        *SINES.get_or_init(|| cuda::alloc(4096))
    }

    fn transform(lengths: &[usize]) -> bool {
        lengths.iter().all(|length| {
            let output = cuda::alloc(*length);
            let is_elsewhere = output != sines();
            cuda::free(output);
            is_elsewhere
        })
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert!(transform(&[256, 512]));
    }
}

/// A buffer that is freed only when the next one exists, because the device may still read it.
mod retired {
    use std::sync::Mutex;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    static RETIRED: Mutex<Option<u64>> = Mutex::new(None);

    fn retire(buffer: u64) {
        let before = RETIRED.lock().expect("no panic").replace(buffer);
        before.into_iter().for_each(cuda::free);
    }

    fn draw(frames: usize) {
        for _ in 0..frames {
            retire(cuda::alloc(2000));
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        draw(3);
    }
}
