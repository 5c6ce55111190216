use super::{Concurrency, decide};

fn alone(arguments: &str, variables: &[(&str, &str)]) -> bool {
    let find = |name: &str| {
        variables
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| (*value).to_owned())
    };
    decide(arguments.split_whitespace().map(str::to_owned), find, 8) != Concurrency::Several
}

/// A driver's thread is counted under a token that is not the ID of a scope.
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
            says.send(this_thread()).expect("the test is receiving");
            let _ = waits.recv();
        });
        gpu_leak_interpose::set_token(before);
        let id = said
            .recv()
            .expect("the thread sends its ID")
            .expect("Linux has /proc");
        let left = threads_of_ended_checks(&[]);
        drop(ends);
        thread.join().expect("the thread did not panic");
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
fn anything_else_may_have_several_tests() {
    assert!(!alone("", &[]));
    assert!(!alone("optim::adam", &[]));
    assert!(!alone("one two --exact", &[]));
    assert!(!alone("--test-threads=8 one --exact", &[]));
    assert!(!alone("--skip one --exact", &[]));
    assert!(!alone("--test-threads=4", &[("RUST_TEST_THREADS", "1")]));
}
