//! What several owners share, and what another thread or a callback keeps.

/// A tree of parts, each of which is drawn relative to its parent.
mod scene {
    use std::cell::RefCell;
    use std::rc::Rc;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Part {
        matrix: u64,
        parent: RefCell<Option<Rc<Part>>>,
        children: RefCell<Vec<Rc<Part>>>,
    }

    impl Part {
        fn new() -> Rc<Self> {
            Rc::new(Self {
                matrix: cuda::alloc(64),
                parent: RefCell::default(),
                children: RefCell::default(),
            })
        }

        fn attach(self: &Rc<Self>, child: &Rc<Self>) {
            child.parent.replace(Some(Rc::clone(self))); // MISTAKE
            self.children.borrow_mut().push(Rc::clone(child));
        }

        fn depth(&self) -> usize {
            let parent = self.parent.borrow();
            parent.as_ref().map_or(0, |parent| 1 + parent.depth())
        }
    }

    impl Drop for Part {
        fn drop(&mut self) {
            cuda::free(self.matrix);
        }
    }

    fn build(levels: usize) -> usize {
        let parts: Vec<_> = (0..levels).map(|_| Part::new()).collect();
        for pair in parts.windows(2) {
            pair[0].attach(&pair[1]);
        }
        parts.last().map_or(0, |last| last.depth())
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(build(3), 2);
    }
}

/// A model and the views that are told when it changes.
mod views {
    use std::sync::{Arc, Mutex};

    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    struct Model {
        weights: u64,
        views: Mutex<Vec<Arc<View>>>,
    }

    struct View {
        model: Arc<Model>,
        zoom: u64,
    }

    impl View {
        fn open(model: &Arc<Model>, zoom: u64) -> Arc<Self> {
            let model = Arc::clone(model);
            let view = Arc::new(Self { model, zoom });
            let mut views = view.model.views.lock().expect("no panic");
            views.push(Arc::clone(&view)); // MISTAKE
            drop(views);
            view
        }
    }

    impl Drop for Model {
        fn drop(&mut self) {
            heap::free(self.weights);
        }
    }

    fn load(bytes: u64) -> Arc<Model> {
        let weights = heap::allocate(bytes);
        let views = Mutex::default();
        Arc::new(Model { weights, views })
    }

    fn compare(zooms: &[u64]) -> u64 {
        let opened = zooms.iter().map(|zoom| View::open(&load(2048), *zoom));
        opened.map(|view| view.zoom).sum()
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(load(1024).weights % 2, 0);
        assert_eq!(compare(&[1, 2]), 3);
    }
}

/// Samples that are sent to a collector.
mod telemetry {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    enum Message {
        Sample(u64),
        Flush,
    }

    struct Probe {
        to: Sender<Message>,
    }

    impl Probe {
        fn measure(&self) {
            let sample = cuda::alloc_async(320);
            self.to.send(Message::Sample(sample)).expect("a collector");
        }

        fn flush(&self) {
            self.to.send(Message::Flush).expect("a collector");
        }
    }

    struct Collector {
        from: Receiver<Message>,
        samples: usize,
    }

    impl Collector {
        fn collect(&mut self) {
            while let Ok(message) = self.from.try_recv() {
                match message {
                    Message::Sample(sample) => {
                        cuda::free_async(sample);
                        self.samples += 1;
                    }
                    Message::Flush => break, // MISTAKE
                }
            }
        }
    }

    fn watch() -> usize {
        let (to, from) = channel();
        let (probe, mut collector) = (Probe { to }, Collector { from, samples: 0 });
        probe.measure();
        probe.measure();
        probe.flush();
        probe.measure();
        collector.collect();
        collector.samples
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_ne!(watch(), 0);
    }
}

/// Documents that are saved when the program is asked to quit.
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

/// Pictures with a palette each.
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

/// Buffers that are filled here and freed by a worker.
mod worker {
    use std::sync::mpsc::channel;
    use std::thread;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    fn compress(chunks: &[usize]) -> usize {
        let (to, from) = channel();
        let worker = thread::spawn(move || {
            let mut compressed = 0;
            for chunk in from {
                cuda::free(chunk);
                compressed += 1;
            }
            compressed
        });
        for bytes in chunks {
            to.send(cuda::alloc(*bytes)).expect("a worker");
        }
        drop(to);
        worker.join().expect("no panic")
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(compress(&[100, 200, 300]), 3);
    }
}

/// Folders that know what they are in.
mod folders {
    use std::cell::RefCell;
    use std::rc::{Rc, Weak};

    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    struct Folder {
        icon: u64,
        parent: Weak<Folder>,
        inside: RefCell<Vec<Rc<Folder>>>,
    }

    impl Folder {
        fn new(parent: Weak<Self>) -> Rc<Self> {
            let icon = heap::allocate(128);
            let inside = RefCell::default();
            Rc::new(Self {
                icon,
                parent,
                inside,
            })
        }

        fn add(self: &Rc<Self>) -> Rc<Self> {
            let folder = Self::new(Rc::downgrade(self));
            self.inside.borrow_mut().push(Rc::clone(&folder));
            folder
        }

        fn depth(&self) -> usize {
            self.parent.upgrade().map_or(0, |parent| 1 + parent.depth())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            heap::free(self.icon);
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let root = Folder::new(Weak::new());
        assert_eq!(root.add().add().depth(), 2);
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

/// A buffer that is freed when the next one is there, because the device may still read it.
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
