//! Resources that several owners share, or that are sent to another thread.

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

/// A model and the views that are notified when it changes.
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

/// Folders that refer to their parent folder.
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
