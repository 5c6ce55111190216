//! Types that own what they allocated.

/// Two meshes of a scene.
mod mesh {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Mesh {
        vertices: u64,
        indices: u64,
    }

    impl Mesh {
        fn load(triangles: usize) -> Self {
            let vertices = cuda::alloc(triangles * 36);
            let indices = cuda::alloc(triangles * 6);
            Self { vertices, indices }
        }

        fn draw(&self) -> bool {
            self.vertices != self.indices
        }
    }

    impl Drop for Mesh {
        fn drop(&mut self) {
            cuda::free(self.vertices); // MISTAKE
        }
    }

    struct Scene {
        meshes: Vec<Mesh>,
    }

    impl Scene {
        fn open(sizes: &[usize]) -> Self {
            let meshes = sizes.iter().map(|size| Mesh::load(*size));
            Self {
                meshes: meshes.collect(),
            }
        }

        fn render(&self) -> usize {
            self.meshes.iter().filter(|mesh| mesh.draw()).count()
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(Scene::open(&[100, 200]).render(), 2);
    }
}

/// A histogram whose number of bins grows.
mod histogram {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Histogram {
        bins: u64,
        count: usize,
    }

    impl Histogram {
        fn new(count: usize) -> Self {
            let bins = cuda::alloc(count * 4);
            Self { bins, count }
        }

        fn refine(&mut self) {
            self.count *= 2;
            self.bins = cuda::alloc(self.count * 4); // MISTAKE
        }
    }

    impl Drop for Histogram {
        fn drop(&mut self) {
            cuda::free(self.bins);
        }
    }

    fn analyse(samples: &[u32]) -> usize {
        let mut histogram = Histogram::new(64);
        if samples.iter().any(|sample| *sample >= 64) {
            histogram.refine();
        }
        histogram.count
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(analyse(&[3, 17]), 64);
        assert_eq!(analyse(&[3, 90]), 128);
    }
}

/// A player with two frames, one of which is shown.
mod player {
    use std::mem;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    struct Screen {
        front: u64,
        back: u64,
    }

    impl Screen {
        fn new() -> Self {
            let [front, back] = [4096, 4096].map(heap::allocate);
            Self { front, back }
        }

        /// Shows the back frame, and returns the frame that was shown before.
        fn present(&mut self) -> u64 {
            let next = heap::allocate(4096);
            mem::replace(&mut self.front, mem::replace(&mut self.back, next))
        }
    }

    impl Drop for Screen {
        fn drop(&mut self) {
            heap::free(self.front);
            heap::free(self.back);
        }
    }

    struct Player {
        screen: Screen,
        shown: u64,
    }

    impl Player {
        fn step(&mut self) {
            let _previous = self.screen.present(); // MISTAKE
            self.shown += 1;
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let (screen, shown) = (Screen::new(), 0);
        let mut player = Player { screen, shown };
        player.step();
        assert_eq!(player.shown, 1);
    }
}

/// A tensor that a library in another language reads.
mod export {
    use cudarc::driver::{CudaSlice, DriverError};
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Exported {
        address: u64,
        length: usize,
    }

    impl From<CudaSlice<f32>> for Exported {
        fn from(values: CudaSlice<f32>) -> Self {
            let length = values.len();
            let address = values.leak(); // MISTAKE
            Self { address, length }
        }
    }

    fn zeros(length: usize) -> Result<CudaSlice<f32>, DriverError> {
        let stream = cuda::context().default_stream();
        stream.alloc_zeros::<f32>(length)
    }

    fn share(lengths: &[usize]) -> Result<usize, DriverError> {
        let mut elements = 0;
        for length in lengths {
            let exported = Exported::from(zeros(*length)?);
            assert_ne!(exported.address, 0);
            elements += exported.length;
        }
        Ok(elements)
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(share(&[1000, 24]).expect("two tensors"), 1024);
    }
}

/// A buffer that goes through a C interface as an opaque handle.
mod handle {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Buffer {
        address: u64,
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            cuda::free(self.address);
        }
    }

    type Handle = *mut Buffer;

    fn buffer_create(bytes: usize) -> Handle {
        let address = cuda::alloc(bytes);
        Box::into_raw(Box::new(Buffer { address }))
    }

    #[expect(unsafe_code, reason = "the other half of a C interface")]
    fn buffer_destroy(handle: Handle) {
        // SAFETY: the handle came from `buffer_create`.
        drop(unsafe { Box::from_raw(handle) });
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let handles = [64, 128].map(buffer_create);
        handles.into_iter().for_each(buffer_destroy);
    }
}
