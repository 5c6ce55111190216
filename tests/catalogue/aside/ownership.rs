//! Types that own what they allocated.

/// A texture, and the event that marks its upload.
mod texture {
    use cudarc::driver::sys::{CUarray, CUevent};
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Texture {
        texels: CUarray,
        uploaded: CUevent,
    }

    impl Texture {
        fn new(length: usize) -> Self {
            let texels = cuda::create_array(length);
            let uploaded = cuda::create_event();
            Self { texels, uploaded }
        }

        fn is_ready(&self) -> bool {
            !self.texels.is_null() && !self.uploaded.is_null()
        }
    }

    impl Drop for Texture {
        fn drop(&mut self) {
            cuda::destroy_event(self.uploaded); // MISTAKE
        }
    }

    struct Material {
        colour: Texture,
        relief: Option<Texture>,
    }

    fn paint(material: &Material) -> bool {
        let relief = material.relief.as_ref();
        material.colour.is_ready() && relief.is_none_or(Texture::is_ready)
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let (colour, relief) = (Texture::new(256), None);
        assert!(paint(&Material { colour, relief }));
    }
}

/// Batches of rows, which are consumed to count their rows.
mod batch {
    use std::mem::ManuallyDrop;

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

    struct Batch {
        buffer: Buffer,
        rows: usize,
    }

    impl Batch {
        fn read(rows: usize) -> Self {
            let address = cuda::alloc(rows * 32);
            let buffer = Buffer { address };
            Self { buffer, rows }
        }

        fn into_rows(self) -> usize {
            let parts = ManuallyDrop::new(self); // MISTAKE
            match parts.buffer.address {
                0 => 0,
                _ => parts.rows,
            }
        }
    }

    fn count(sizes: &[usize]) -> usize {
        let batches = sizes.iter().map(|rows| Batch::read(*rows));
        let filled = batches.filter(|batch| batch.rows > 0);
        filled.map(Batch::into_rows).sum()
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(count(&[10, 20]), 30);
    }
}

/// A ring buffer of the most recently written blocks.
mod ring {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    #[derive(Default)]
    struct Ring {
        slots: [Option<u64>; 2],
        written: usize,
    }

    impl Ring {
        fn write(&mut self, bytes: u64) {
            let slot = self.written % self.slots.len();
            let block = heap::allocate(bytes);
            self.slots[slot] = Some(block); // MISTAKE
            self.written += 1;
        }
    }

    impl Drop for Ring {
        fn drop(&mut self) {
            self.slots.into_iter().flatten().for_each(heap::free);
        }
    }

    fn record(blocks: usize) -> usize {
        let mut ring = Ring::default();
        for _ in 0..blocks {
            ring.write(100);
        }
        ring.written
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(record(5), 5);
    }
}

/// A network whose layers are reloaded.
mod network {
    use std::mem;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Network {
        layers: Vec<u64>,
    }

    fn load(widths: &[usize]) -> Vec<u64> {
        let layers = widths.iter().map(|width| cuda::alloc_async(width * width));
        layers.collect()
    }

    impl Network {
        fn open(widths: &[usize]) -> Self {
            let layers = load(widths);
            Self { layers }
        }

        /// Returns how many layers there were.
        fn reload(&mut self, widths: &[usize]) -> usize {
            let layers = load(widths);
            mem::replace(&mut self.layers, layers).len() // MISTAKE
        }

        fn close(self) {
            self.layers.into_iter().for_each(cuda::free_async);
        }
    }

    fn tune(widths: &[usize]) -> usize {
        let mut network = Network::open(widths);
        let before = network.reload(&widths[1..]);
        network.close();
        before
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(tune(&[20, 20, 20]), 3);
    }
}

/// A scratch buffer that grows.
mod scratch {
    use std::mem;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    #[derive(Default)]
    struct Scratch {
        address: Option<u64>,
        bytes: usize,
    }

    impl Scratch {
        fn reserve(&mut self, bytes: usize) {
            if bytes > self.bytes {
                let larger = Some(cuda::alloc(bytes));
                let smaller = mem::replace(&mut self.address, larger);
                smaller.into_iter().for_each(cuda::free);
                self.bytes = bytes;
            }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            self.address.take().into_iter().for_each(cuda::free);
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let mut scratch = Scratch::default();
        for bytes in [100, 300, 200] {
            scratch.reserve(bytes);
        }
        assert_eq!(scratch.bytes, 300);
    }
}
