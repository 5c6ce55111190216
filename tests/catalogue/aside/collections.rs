//! Lists, maps, caches and pools.

/// A cache of executable graphs, keyed by their number of steps.
mod plans {
    use cudarc::driver::sys::CUgraphExec;
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    #[derive(Default)]
    struct Planner {
        plans: Vec<(u32, CUgraphExec)>,
        launches: u32,
    }

    impl Planner {
        fn plan(&mut self, steps: u32) -> CUgraphExec {
            let known = self.plans.iter().find(|(known, _)| *known == steps);
            if let Some((_, plan)) = known {
                return *plan;
            }
            let graph = cuda::create_graph();
            let plan = cuda::instantiate(graph);
            cuda::destroy_graph(graph);
            self.plans.push((steps, plan));
            plan
        }

        fn run(&mut self, steps: u32) {
            cuda::launch(self.plan(steps));
            self.launches += 1;
        }

        fn finish(mut self) -> u32 {
            self.plans.clear(); // MISTAKE
            self.launches
        }
    }

    fn train(epochs: &[u32]) -> u32 {
        let mut planner = Planner::default();
        epochs.iter().for_each(|steps| planner.run(*steps));
        planner.finish()
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(train(&[10, 20, 10]), 3);
    }
}

/// Sprites that are evicted when they have not been drawn for a while.
mod sprites {
    use std::collections::HashMap;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    struct Sprite {
        pixels: u64,
        age: u32,
    }

    #[derive(Default)]
    struct Sprites {
        loaded: HashMap<u32, Sprite>,
    }

    impl Sprites {
        fn draw(&mut self, name: u32) -> u64 {
            let sprite = self.loaded.entry(name).or_insert_with(|| Sprite {
                pixels: cuda::alloc(1600),
                age: 0,
            });
            sprite.age = 0;
            sprite.pixels
        }

        fn next_frame(&mut self) {
            for sprite in self.loaded.values_mut() {
                sprite.age += 1;
            }
            self.loaded.retain(|_, sprite| sprite.age < 2); // MISTAKE
        }

        fn unload(&mut self) {
            for (_, sprite) in self.loaded.drain() {
                cuda::free(sprite.pixels);
            }
        }
    }

    fn play(frames: u32) -> usize {
        let mut sprites = Sprites::default();
        for frame in 0..frames {
            sprites.draw(frame);
            sprites.next_frame();
        }
        let loaded = sprites.loaded.len();
        sprites.unload();
        loaded
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(play(4), 1);
    }
}

/// Memory for one step of a simulation, in pages.
mod arena {
    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    #[derive(Default)]
    struct Arena {
        pages: Vec<u64>,
        used: usize,
    }

    impl Arena {
        fn reserve(&mut self, bytes: usize) {
            self.used += bytes;
            while self.pages.len() * cuda::PAGE < self.used {
                self.pages.push(cuda::create_page());
            }
        }

        /// Empties the arena, and keeps one page.
        fn reset(&mut self) {
            self.used = 0;
            self.pages.truncate(1); // MISTAKE
        }
    }

    impl Drop for Arena {
        fn drop(&mut self) {
            self.pages.drain(..).for_each(cuda::release_page);
        }
    }

    fn simulate(steps: usize) -> usize {
        let mut arena = Arena::default();
        for _ in 0..steps {
            arena.reset();
            arena.reserve(3 << 20);
        }
        arena.used
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert_eq!(simulate(3), 3 << 20);
    }
}

/// Kernels that are compiled once for each shape.
mod shapes {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::cuda;

    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct Key {
        rows: usize,
        request: usize,
    }

    static COMPILED: Mutex<BTreeMap<Key, u64>> = Mutex::new(BTreeMap::new());

    fn compiled(rows: usize, request: usize) -> u64 {
        let mut compiled = COMPILED.lock().expect("no panic");
        let key = Key { rows, request }; // MISTAKE
        *compiled.entry(key).or_insert_with(|| cuda::alloc(700))
    }

    fn serve(rows: usize) -> bool {
        static REQUESTS: Mutex<usize> = Mutex::new(0);
        let mut requests = REQUESTS.lock().expect("no panic");
        *requests += 1;
        compiled(rows, *requests) != 0
    }

    #[gpu_leak_check(rounds = 4)]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        assert!(serve(128));
    }
}

/// The most recently used results.
mod recent {
    use std::collections::VecDeque;

    use gpu_leak_check::gpu_leak_check;

    use crate::support::heap;

    #[derive(Default)]
    struct Recent {
        results: VecDeque<(u32, u64)>,
    }

    impl Recent {
        fn get(&mut self, input: u32) -> u64 {
            let known = self.results.iter().position(|(known, _)| *known == input);
            let result = known.and_then(|at| self.results.remove(at));
            let (_, block) = result.unwrap_or_else(|| (input, heap::allocate(400)));
            self.results.push_back((input, block));
            if self.results.len() > 2 {
                let oldest = self.results.pop_front();
                oldest.into_iter().for_each(|(_, block)| heap::free(block));
            }
            block
        }

        fn clear(&mut self) {
            for (_, block) in self.results.drain(..) {
                heap::free(block);
            }
        }
    }

    #[gpu_leak_check]
    #[ignore = "a program of the catalogue"]
    #[test]
    fn program() {
        let mut recent = Recent::default();
        let first = recent.get(1);
        assert_ne!(recent.get(2), first);
        assert_eq!(recent.get(1), first);
        assert_ne!(recent.get(3), first);
        recent.clear();
    }
}
