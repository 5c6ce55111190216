use super::{Concurrency, decide, is_drivers_name};

fn alone(arguments: &str, variables: &[(&str, &str)]) -> bool {
    let find = |name: &str| {
        variables
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| (*value).to_owned())
    };
    decide(arguments.split_whitespace().map(str::to_owned), find, 8) != Concurrency::Several
}

/// A driver's thread is counted under a token that is no scope.
#[cfg(target_os = "linux")]
#[test]
fn a_thread_of_an_ended_check_is_listed_and_one_of_a_driver_is_not() {
    use std::sync::mpsc;
    use std::thread;

    use super::{this_thread, threads_of_ended_checks};

    let listed_with = |token| {
        let before = gpu_leak_interpose::set_token(token);
        let (ends, waits) = mpsc::channel::<()>();
        let (says, said) = mpsc::channel();
        let thread = thread::spawn(move || {
            says.send(this_thread()).expect("a receiver");
            let _ = waits.recv();
        });
        gpu_leak_interpose::set_token(before);
        let id = said.recv().expect("an id").expect("Linux has /proc");
        let left = threads_of_ended_checks(&[]);
        drop(ends);
        thread.join().expect("no panic");
        left.iter().any(|(thread, _)| *thread == id)
    };
    assert!(listed_with(u64::from(u32::MAX - 7)));
    assert!(!listed_with(u64::MAX));
}

#[test]
fn one_thread_one_exact_test_or_nextest_is_alone() {
    assert!(alone("--test-threads=1", &[]));
    assert!(alone("--nocapture --test-threads 1", &[]));
    assert!(alone("", &[("RUST_TEST_THREADS", "1")]));
    assert!(alone("optim::adam --exact --nocapture", &[]));
    assert!(alone("optim::adam --exact", &[("NEXTEST", "1")]));
    let nextest = [("NEXTEST", "1"), ("RUST_TEST_THREADS", "8")];
    assert!(alone("--exact optim::adam --nocapture", &nextest));
    let named = [nextest[0], nextest[1], ("NEXTEST_TEST_NAME", "optim::adam")];
    assert!(alone("--exact optim::adam --nocapture", &named));
}

#[test]
fn a_program_started_by_a_test_under_nextest_is_not_alone() {
    let inherited = [
        ("NEXTEST", "1"),
        ("NEXTEST_TEST_NAME", "runs_the_suite"),
        ("RUST_TEST_THREADS", "8"),
    ];
    assert!(!alone("", &inherited));
    assert!(!alone("optim::adam", &inherited));
    assert!(!alone("--exact optim::adam", &inherited));
    assert!(!alone("--exact one two", &inherited[..1]));
    assert!(!alone(
        "--test-threads=8 --exact runs_the_suite",
        &inherited
    ));
}

#[test]
fn a_test_in_a_module_cuda_is_no_thread_of_the_driver() {
    for name in ["cuda-EvtHandlr", "cuda00001400006", "llvmpipe-0"] {
        assert!(is_drivers_name(name), "{name}");
    }
    for name in ["cuda::tests::al", "cuda-worker", "cuda", "llvmpipe", "main"] {
        assert!(!is_drivers_name(name), "{name}");
    }
}

#[test]
fn anything_else_may_have_several_tests() {
    assert!(!alone("", &[]));
    assert!(!alone("optim::adam", &[]));
    assert!(!alone("one two --exact", &[]));
    assert!(!alone("--test-threads=8 one --exact", &[]));
    assert!(!alone("--skip one --exact", &[]));
    assert!(!alone("--test-threads=4", &[("RUST_TEST_THREADS", "1")]));
}

#[cfg(target_os = "linux")]
mod threads {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::{fs, thread};

    use super::super::{is_living, list_threads};

    fn own_number() -> i32 {
        let link = fs::read_link("/proc/thread-self").expect("a thread");
        let number = link.file_name().expect("its number");
        number.to_string_lossy().parse().expect("a number")
    }

    #[test]
    fn a_thread_that_was_joined_lives_no_longer() {
        for _ in 0..1000 {
            let joined = thread::spawn(own_number).join().expect("a number");
            assert!(!is_living(joined));
        }
        assert!(is_living(own_number()));
    }

    /// The kernel lists threads in the order in which they began, so the threads that end are
    /// listed before the one that stays.
    #[test]
    fn a_thread_is_listed_while_others_before_it_end() {
        for _ in 0..200 {
            let end = AtomicBool::new(false);
            thread::scope(|scope| {
                let ends = || {
                    scope.spawn(|| {
                        while !end.load(Ordering::Relaxed) {
                            thread::yield_now();
                        }
                    })
                };
                let mut others: Vec<_> = (0..8).map(|_| ends()).collect();
                let (tell, number) = channel();
                let last = scope.spawn(move || {
                    tell.send(own_number()).expect("the test waits");
                    thread::park();
                });
                let number = number.recv().expect("a number");
                // If a thread of another test begins, the number of threads does not show that one
                // is missing.
                let known = loop {
                    if let Some(listed) = list_threads() {
                        break listed;
                    }
                };
                end.store(true, Ordering::Relaxed);
                let mut is_missing = false;
                while !others.is_empty() {
                    others.retain(|other| !other.is_finished());
                    is_missing |= list_threads().is_some_and(|listed| {
                        listed.iter().all(|it| known.contains(it)) && !listed.contains(&number)
                    });
                }
                last.thread().unpark();
                assert!(!is_missing);
            });
        }
    }
}
