//! Tests which tokens threads have.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "a C library starts threads, as drivers do")
)]

use std::cell::Cell;
#[cfg(target_os = "linux")]
use std::mem;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

#[cfg(target_os = "linux")]
use gpu_leak_interpose::marked_threads;
use gpu_leak_interpose::{inherits, live, set_token, token};
#[cfg(target_os = "linux")]
use support::{Libraries, Library};

#[cfg(target_os = "linux")]
mod support;

/// Runs `body` with this token and restores the previous one.
fn with_token<T>(token: u64, body: impl FnOnce() -> T) -> T {
    let before = set_token(token);
    let result = body();
    set_token(before);
    result
}

/// Returns the token that a thread started under `token` must see.
fn inherited(token: u64) -> u64 {
    if inherits() { token } else { 0 }
}

#[test]
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(target_feature = "crt-static"),
    not(gpu_leak_interpose_off)
))]
fn a_build_for_glibc_inherits() {
    assert!(inherits());
}

#[test]
fn setting_a_token_returns_the_one_before() {
    let before = set_token(1);
    assert_eq!(set_token(2), 1);
    assert_eq!(token(), 2);
    assert_eq!(set_token(before), 2);
}

#[test]
fn a_thread_started_without_a_token_has_none() {
    let seen = with_token(0, || thread::spawn(token).join());
    assert_eq!(seen.expect("no panic"), 0);
}

#[test]
fn threads_inherit_whether_named_or_not() {
    with_token(11, || {
        let unnamed = thread::spawn(token).join().expect("no panic");
        let named = thread::Builder::new()
            .name("worker".to_owned())
            .spawn(token)
            .expect("a thread")
            .join()
            .expect("no panic");
        assert_eq!([unnamed, named], [inherited(11); 2]);
    });
}

#[test]
fn a_thread_of_a_thread_inherits() {
    let seen = with_token(12, || {
        thread::spawn(|| thread::spawn(token).join().expect("no panic")).join()
    });
    assert_eq!(seen.expect("no panic"), inherited(12));
}

#[test]
fn scoped_threads_inherit() {
    with_token(13, || {
        thread::scope(|scope| {
            let seen = scope.spawn(token).join().expect("no panic");
            assert_eq!(seen, inherited(13));
        });
    });
}

#[test]
fn a_token_set_later_does_not_reach_running_threads() {
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answered) = mpsc::channel();
    let running = with_token(14, || {
        thread::spawn(move || {
            while asked.recv().is_ok() {
                answer.send(token()).expect("a receiver");
            }
        })
    });
    with_token(15, || ask.send(()).expect("a receiver"));
    assert_eq!(answered.recv(), Ok(inherited(14)));
    drop(ask);
    running.join().expect("no panic");
}

#[test]
fn a_token_set_on_a_thread_stays_there() {
    with_token(16, || {
        thread::spawn(|| set_token(17)).join().expect("no panic");
        assert_eq!(token(), 16);
    });
}

#[test]
fn destructors_of_thread_locals_still_see_the_token() {
    struct Report(mpsc::Sender<u64>);
    impl Drop for Report {
        fn drop(&mut self) {
            self.0.send(token()).expect("a receiver");
        }
    }
    thread_local!(static REPORT: Cell<Option<Report>> = const { Cell::new(None) });

    let (sender, receiver) = mpsc::channel();
    let thread = with_token(18, || {
        thread::spawn(move || REPORT.set(Some(Report(sender))))
    });
    thread.join().expect("no panic");
    assert_eq!(receiver.recv(), Ok(inherited(18)));
}

#[test]
fn a_panic_on_an_inheriting_thread_is_its_own() {
    with_token(19, || {
        let joined = thread::spawn(|| panic!("on purpose")).join();
        assert!(joined.is_err());
        assert_eq!(token(), 19);
    });
}

#[test]
fn workers_of_a_rayon_pool_inherit() {
    with_token(20, || {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .expect("a pool");
        assert_eq!(pool.broadcast(|_| token()), [inherited(20); 2]);
    });
}

#[test]
fn workers_and_blocking_threads_of_tokio_inherit() {
    with_token(21, || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .expect("a runtime");
        let seen = runtime.block_on(async {
            let worker = tokio::spawn(async { token() }).await.expect("no panic");
            let blocking = tokio::task::spawn_blocking(token).await.expect("no panic");
            [worker, blocking]
        });
        assert_eq!(seen, [inherited(21); 2]);
    });
}

/// When it is dropped, records whether its thread still counts as live.
struct LooksAtItsEnd(mpsc::Sender<usize>);

impl Drop for LooksAtItsEnd {
    fn drop(&mut self) {
        self.0.send(live(22)).expect("the test listens");
    }
}

#[test]
fn a_thread_is_live_until_its_last_destructor_has_run() {
    thread_local! {
        static LOOKS: Cell<Option<LooksAtItsEnd>> = const { Cell::new(None) };
    }
    let one = usize::from(inherits());
    with_token(22, || {
        let (at_end, answers) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            LOOKS.set(Some(LooksAtItsEnd(at_end)));
            let _ = wait.recv();
        });
        assert_eq!(live(22), one);
        drop(go_on);
        thread.join().expect("no panic");
        assert_eq!(answers.recv(), Ok(one));
        assert_eq!(live(22), 0);
    });
}

/// The token of a library's thread plus one; 0 until the thread has run.
#[cfg(target_os = "linux")]
static SEEN: AtomicU64 = AtomicU64::new(0);

#[cfg(target_os = "linux")]
extern "C" fn calls_back() {
    SEEN.store(token() + 1, Ordering::Release);
}

/// Makes the library called `name` start a thread, which must inherit the token and increase the
/// count of live threads by `counted`.
#[cfg(target_os = "linux")]
fn starts_a_thread(name: &str, counted: usize) {
    let library = Library::open(Libraries::new().compile("starts.c", name, &["-lpthread"]));
    // SAFETY: the function has this type.
    let start = unsafe {
        mem::transmute::<*const (), extern "C" fn(extern "C" fn()) -> i32>(library.find(c"start"))
    };
    SEEN.store(0, Ordering::Release);
    let before = marked_threads().len();
    assert_eq!(with_token(23, || start(calls_back)), 0);
    while SEEN.load(Ordering::Acquire) == 0 {
        thread::yield_now();
    }
    assert_eq!(SEEN.load(Ordering::Acquire) - 1, 23, "{name}");
    assert_eq!(live(23), counted, "{name}");
    // The thread is not mistaken for a thread of another test either.
    assert_eq!(marked_threads().len(), before + 1, "{name}");
    assert_eq!(library.call(c"stop"), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_thread_of_a_driver_inherits_and_is_not_counted_as_live() {
    if inherits() {
        support::alone(
            "a_thread_of_a_driver_inherits_and_is_not_counted_as_live",
            &[],
            || {
                starts_a_thread("libnvidia-core.so.1", 0);
                starts_a_thread("libworkers.so.1", 1);
            },
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_constructor_may_wait_for_a_thread_that_starts_a_thread() {
    let test = "a_constructor_may_wait_for_a_thread_that_starts_a_thread";
    support::alone(test, &[], || {
        // SAFETY: the call requests a signal, which ends this process if it waits forever.
        unsafe { libc::alarm(60) };
        let libraries = Libraries::new();
        for token in [0, 24] {
            let name = format!("libconstructor{token}.so");
            let options = ["-DCONSTRUCTOR", "-lpthread"];
            let path = libraries.compile("starts.c", &name, &options);
            with_token(token, || Library::open(path));
        }
    });
}
