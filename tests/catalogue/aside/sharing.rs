//! Resources that several owners share, or that a thread, a callback or a static keeps.

/// Workers that wait for their next job. Any code may ask all workers to stop.
mod pipeline {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{self, JoinHandle};

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    static STOP: Mutex<Vec<Sender<()>>> = Mutex::new(Vec::new());

    fn serve(ready: &Sender<()>, stop: &Receiver<()>) {
        let buffer = cuda::alloc(1500);
        ready.send(()).expect("the receiver waits");
        stop.recv().expect("the sender stops it");
        cuda::free(buffer);
    }

    struct Pipeline {
        workers: Vec<JoinHandle<()>>,
    }

    impl Pipeline {
        fn start(workers: usize) -> Self {
            let start = |_| {
                let (stop, stopped) = channel();
                let (ready, is_ready) = channel();
                let worker = thread::spawn(move || serve(&ready, &stopped));
                is_ready.recv().expect("a worker");
                STOP.lock().expect("no panic").push(stop);
                worker
            };
            let workers = (0..workers).map(start).collect();
            Self { workers }
        }

        fn close(self) -> usize {
            let running = self.workers.iter().filter(|it| !it.is_finished());
            running.count() // MISTAKE
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(Pipeline::start(2).close(), 2);
    }
}

/// A menu that runs a callback when it is clicked.
mod menu {
    use std::cell::RefCell;
    use std::rc::Rc;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    type Action = Box<dyn Fn() -> u64>;

    struct Menu {
        icon: u64,
        clicked: RefCell<Option<Action>>,
    }

    impl Menu {
        fn new(bytes: u64) -> Rc<Self> {
            let icon = heap::allocate(bytes);
            let clicked = RefCell::default();
            Rc::new(Self { icon, clicked })
        }

        fn on_click(&self, action: impl Fn() -> u64 + 'static) {
            self.clicked.replace(Some(Box::new(action)));
        }

        fn click(&self) -> u64 {
            self.clicked.borrow().as_ref().map_or(0, |action| action())
        }
    }

    impl Drop for Menu {
        fn drop(&mut self) {
            heap::free(self.icon);
        }
    }

    fn show(bytes: u64) -> bool {
        let menu = Menu::new(bytes);
        let shown = Rc::clone(&menu); // MISTAKE
        menu.on_click(move || shown.icon);
        menu.click() == menu.icon
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert!(show(96));
    }
}

/// Sessions whose frames are compared with an earlier frame.
mod session {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Frame {
        pixels: u64,
    }

    impl Frame {
        fn grab() -> Arc<Self> {
            let pixels = cuda::alloc(2400);
            Arc::new(Self { pixels })
        }
    }

    impl Drop for Frame {
        fn drop(&mut self) {
            cuda::free(self.pixels);
        }
    }

    static EARLIER: Mutex<BTreeMap<usize, Arc<Frame>>> = Mutex::new(BTreeMap::new());

    fn has_moved(session: usize, frame: &Arc<Frame>) -> bool {
        let mut earlier = EARLIER.lock().expect("no panic");
        let earlier = earlier.entry(session);
        let earlier = earlier.or_insert_with(|| Arc::clone(frame)); // MISTAKE
        earlier.pixels != frame.pixels
    }

    fn watch(frames: usize) -> usize {
        static SESSIONS: Mutex<usize> = Mutex::new(0);
        let mut session = SESSIONS.lock().expect("no panic");
        *session += 1;
        let frames = (0..frames).map(|_| Frame::grab());
        frames.filter(|frame| has_moved(*session, frame)).count()
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(watch(3), 2);
    }
}

/// Images that are returned to their display, which frees them when the device is idle.
mod display {
    use std::cell::RefCell;
    use std::rc::Rc;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    type Returned = Rc<RefCell<Vec<u64>>>;

    struct Image {
        pixels: u64,
        to: Returned,
    }

    impl Drop for Image {
        fn drop(&mut self) {
            self.to.borrow_mut().push(self.pixels);
        }
    }

    #[derive(Default)]
    struct Queue {
        returned: Returned,
    }

    impl Queue {
        fn image(&self, bytes: u64) -> Image {
            let (pixels, to) = (heap::allocate(bytes), Rc::clone(&self.returned));
            Image { pixels, to }
        }

        fn wait_idle(&self) {
            self.returned.borrow_mut().drain(..).for_each(heap::free);
        }
    }

    struct Display {
        queue: Queue,
        images: Vec<Image>,
    }

    impl Display {
        fn open(images: usize) -> Self {
            let queue = Queue::default();
            let images = (0..images).map(|_| queue.image(500)).collect();
            Self { queue, images }
        }

        fn close(self) -> usize {
            let shown = self.images.len();
            self.queue.wait_idle(); // MISTAKE
            drop(self.images);
            shown
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(Display::open(2).close(), 2);
    }
}

/// A stream for work that nobody waits for.
mod background {
    use std::sync::OnceLock;

    use cudarc::driver::sys::CUstream;
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    fn background() -> CUstream {
        static STREAM: OnceLock<usize> = OnceLock::new();
        let stream = STREAM.get_or_init(|| cuda::create_stream().expose_provenance());
        std::ptr::with_exposed_provenance_mut(*stream)
    }

    fn prefetch(pages: usize) -> usize {
        let own = cuda::create_stream();
        let prefetched = (0..pages).filter(|_| background() != own).count();
        cuda::destroy_stream(own);
        prefetched
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(prefetch(3), 3);
    }
}

/// Players that are notified of changes to the volume for as long as they exist.
mod volume {
    use std::sync::{Arc, Mutex};

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    type Listener = Box<dyn Fn(u32) -> bool + Send>;

    static LISTENERS: Mutex<Vec<(usize, Listener)>> = Mutex::new(Vec::new());

    struct Samples {
        start: u64,
    }

    impl Drop for Samples {
        fn drop(&mut self) {
            cuda::free(self.start);
        }
    }

    struct Player {
        number: usize,
    }

    impl Player {
        fn new(number: usize) -> Self {
            let samples = Arc::new(Samples {
                start: cuda::alloc(900),
            });
            let listener = move |volume| volume > 0 && samples.start != 0;
            let mut listeners = LISTENERS.lock().expect("no panic");
            listeners.push((number, Box::new(listener)));
            Self { number }
        }
    }

    impl Drop for Player {
        fn drop(&mut self) {
            let mut listeners = LISTENERS.lock().expect("no panic");
            listeners.retain(|(number, _)| *number != self.number);
        }
    }

    fn set(volume: u32) -> usize {
        let listeners = LISTENERS.lock().expect("no panic");
        listeners.iter().filter(|(_, hear)| hear(volume)).count()
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let players = [Player::new(1), Player::new(2)];
        assert_eq!(set(7), players.len());
        drop(players);
        assert_eq!(set(7), 0);
    }
}
