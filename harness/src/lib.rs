#![doc = include_str!("../README.md")]

#[doc(hidden)]
#[path = "bench.rs"]
pub mod __bench;
#[doc(hidden)]
#[path = "command.rs"]
pub mod __command;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
#[path = "fuzz.rs"]
pub mod __fuzz;
#[doc(hidden)]
#[path = "inject.rs"]
pub mod __inject;
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod api;
mod capture;
pub mod case;
mod check;
mod config;
mod device;
mod exec_settings;
mod exit;
mod files;
pub mod ledger;
mod loader;
pub mod observe;
pub mod options;
pub mod probe;
pub mod registry;
pub mod report;
mod workspace;

#[doc(hidden)]
pub use gpu_leak_core::units;
use gpu_leak_core::{call_site, judge, recursion_guard, sync};

pub use check::{
    Check, Entered, Instrument, Instrumented, OpenScope, Scope, Snapshot, assert_no_growth,
    gpu_available, max_memory_allocated, memory_allocated, memory_reserved, memory_summary, run,
    settle_with, snapshot,
};
// These are for the tests' own code. The code under test uses `gpu_leak_hooks` directly.
pub use gpu_leak_hooks::{allow, hand_over};
pub use ledger::Place;
pub use options::OnLeak;

pub mod recording {
    //! Recordings of real runs, which can be judged again without a GPU.
    //!
    //! `GPU_LEAK_CHECK_RECORD=gpu-%p.jsonl cargo test` records the events that the ledger of each
    //! test program receives and what its checks read (`%p` is the process ID). `replay` applies
    //! these events to a new ledger, judges the checks in the same way, and returns the reports. So
    //! a run on a GPU can be judged again on any machine, even by a later release.
    //!
    //! ```ignore
    //! let replay = gpu_leak_check::recording::replay("gpu-4711.jsonl")?;
    //! for report in &replay.reports {
    //!     println!("{}: {}", report.test, report.status.name());
    //! }
    //! # Ok::<(), std::io::Error>(())
    //! ```
    //!
    //! Recordings can be written without any feature. Reading them needs the `command` feature.

    pub use crate::capture::recording::RecordingHeader;
    #[cfg(any(test, fuzzing, feature = "command"))]
    pub use crate::check::{Replay, replay};
}

#[doc(hidden)]
pub mod __script {
    //! The names that a reader of an interpreter's frames may use. They are not covered by SemVer,
    //! because such readers and this library are released together.

    pub use crate::capture::{Reader, install};
    pub use crate::ledger::script::{LineNumber, ScriptLine};
}

/// Defines `main` for a test target without libtest (`harness = false`). This `main` runs every
/// checked test of the program. Its command line and output are those of libtest.
///
/// ```toml
/// [dev-dependencies]
/// gpu-leak-check = { version = "0.1", features = ["main"] }
///
/// [[test]]
/// name = "on_the_gpu"
/// harness = false
/// ```
///
/// ```ignore
/// gpu_leak_check::main!();
///
/// #[gpu_leak_check]
/// fn training_frees_everything() {}
/// ```
///
/// Filters, `--exact`, `--skip`, `--list`, `--ignored`, `--include-ignored` and `--test-threads`
/// have the same meaning as in libtest. Output is never captured, so `--nocapture` changes nothing.
/// nextest runs such a target like any other target. Functions that only have `#[test]` are not
/// compiled in such a target.
#[cfg(feature = "main")]
#[macro_export]
macro_rules! main {
    () => {
        fn main() -> $crate::__private::ExitCode {
            $crate::__private::main()
        }
    };
}

/// Defines `main` for a test target without libtest. Requires the `main` feature.
#[cfg(not(feature = "main"))]
#[macro_export]
macro_rules! main {
    () => {
        ::std::compile_error!(
            "`gpu_leak_check::main!()` needs the `main` feature: \
             gpu-leak-check = { version = \"…\", features = [\"main\"] }"
        );
        fn main() {}
    };
}

/// Runs a function once, before the first check of the process.
///
/// A suite may create resources once and keep them: a device, a library's handle, a plan cache.
/// Whichever test runs first would report them as `first-use`. If they are created in a warm-up,
/// they exist before every test.
///
/// ```
/// #[gpu_leak_check::warmup]
/// fn the_device() {
///     // MODEL.get_or_init(…)
/// }
/// ```
///
/// Every warm-up of a program runs once, on its own thread. Warm-ups run in the order of their
/// paths. If a warm-up panics, every check of the process fails with a message that names the
/// warm-up.
pub use gpu_leak_check_macros::warmup;

/// Fails a test that leaves GPU memory or GPU objects behind.
///
/// ```
/// use gpu_leak_check::gpu_leak_check;
///
/// #[gpu_leak_check]
/// #[test]
/// fn training_frees_everything() {
///     // Anything that is allocated here and not freed fails the test.
/// }
/// ```
///
/// Place this attribute above every other attribute of the test, so that it wraps everything that
/// they create: an async runtime (`#[tokio::test]`), the cases and fixtures of `#[rstest]`, a lock
/// of `#[serial]`. If none of them is a test attribute, this attribute adds `#[test]` itself.
/// `#[should_panic]` and `#[ignore]` keep their usual meaning, and a test may return a [`Result`].
///
/// # Options
///
/// | option | default | meaning |
/// | --- | --- | --- |
/// | [`tolerance`](#tolerance-and-reserved_tolerance) | 0 | bytes that may stay allocated |
/// | [`reserved_tolerance`](#tolerance-and-reserved_tolerance) | 0 | bytes that an allocator may keep reserved |
/// | [`allow`](#allow) | none | resources that may stay, by function, file, library or fingerprint |
/// | [`expect`](#expect) | none | the exact leak that the test must have |
/// | [`max_allocated`, `max_total_allocated`, `max_reserved`, `max_allocation_count`](#budgets) | none | limits on what the test may use, even if it frees everything |
/// | [`layer`](#budgets) | the driver | the allocator to which the budgets apply |
/// | [`rounds`](#rounds) | 1 | how many times to run the body; only call sites that grow in every round are findings |
/// | [`confirm`](#confirm) | `true` | whether a body with findings runs once more |
/// | [`on_leak`](#on_leak) | `"fail"` | whether a leak fails the test or only warns |
/// | [`settle`](#settle) | `"250ms"` | how long to wait for frees that are in flight |
/// | [`peaks`](#peaks) | off | whether the report lists the contents of each peak, line by line |
/// | [`unchecked_if`](#unchecked_if) | never | when to run the body without checking it |
/// | [`parallel`](#parallel-and-isolate) | off | whether the test runs in parallel with other such tests |
/// | [`isolate`](#parallel-and-isolate) | off | whether the test runs in its own process |
/// | [`needs_gpu`](#needs_gpu) | `true` | whether `without_gpu = "skip"` skips the test where there is no GPU |
/// | [`warmup`](#warmup) | 0 | how many times the body runs before the first judged run |
/// | [`crate`](#crate) | `::gpu_leak_check` | the path of this library |
///
/// ## `tolerance` and `reserved_tolerance`
///
/// Bytes per device and layer, inclusive: an integer expression or a string in B, KiB, MiB or GiB.
/// Objects without bytes, such as events, are not covered.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// const WORKSPACE: u64 = 4096;
///
/// #[gpu_leak_check(tolerance = 2 * WORKSPACE, reserved_tolerance = "32 MiB")]
/// #[test]
/// fn keeps_two_workspaces() {}
/// ```
///
/// ## `allow`
///
/// This option may be repeated. Each `allow` has a reason, which the report shows next to the
/// bytes. The pattern is matched against the whole backtrace of a finding: `fn:` against its
/// functions, `file:` against their source files, `lib:` against the libraries; `at:` is matched
/// only against the function of the reported line and against the function through which that line
/// called the API. `fingerprint:` matches the fingerprint in a run file. `kind` (such as
/// `stream_ordered`) and `up_to` (bytes, per test) are optional.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(
///     allow("fn:*::lookup_table", reason = "shared by all models", up_to = "1 MiB"),
///     allow("lib:cuBLAS", reason = "its handle lives as long as the process"),
/// )]
/// #[test]
/// fn uses_the_shared_table() {}
/// ```
///
/// ## `expect`
///
/// The test fails unless exactly this much leaks: `count` objects and allocations, `bytes`, or
/// both. The body runs once.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(expect(count = 2, bytes = "1 MiB"))]
/// #[test]
/// fn leaks_two_buffers_until_the_driver_is_fixed() {}
/// ```
///
/// ## Budgets
///
/// `max_allocated` limits the bytes that the test holds at any one time. `max_total_allocated`
/// limits the bytes of all its allocations together, freed or not. `max_reserved` limits the bytes
/// that an allocator reserves beyond what it held before, and `max_allocation_count` limits the
/// number of allocations. Each budget is inclusive, applies per device (not to the host's memory),
/// and applies whether or not everything is freed. Budgets apply to the driver or, with `layer`, to
/// the allocator that this option names.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(max_allocated = "64 MiB", max_allocation_count = 100, layer = "allocator:my-pool")]
/// #[test]
/// fn one_step_stays_small() {}
/// ```
///
/// ## `rounds`
///
/// The body runs up to this many times. The number must be 1 or at least 3. A call site is a
/// finding (`grew`) only if it holds more after every round.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(rounds = 5)]
/// #[test]
/// fn an_epoch_keeps_nothing() {}
/// ```
///
/// ## `confirm`
///
/// A body with findings runs once more, and only findings that repeat are leaks, because the first
/// run may have created objects that the process keeps permanently. With `confirm = false` the
/// first run decides.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(confirm = false)]
/// #[test]
/// fn cannot_run_twice() {}
/// ```
///
/// ## `on_leak`
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(on_leak = "warn")]
/// #[test]
/// fn is_known_to_leak() {}
/// ```
///
/// ## `settle`
///
/// A duration in milliseconds or seconds.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(settle = "2s")]
/// #[test]
/// fn frees_on_a_slow_thread() {}
/// ```
///
/// ## `peaks`
///
/// The report lists the memory that was live at the peak of each layer, by source line, with the
/// calls that allocated it. The lines add up to the peak, to the byte. The report also lists
/// allocations that could share one buffer. `cargo gpu-leak test --peaks` turns this on for all
/// tests. A test that exceeds `max_allocated` always lists its lines.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(peaks)]
/// #[test]
/// fn trains() {}
/// ```
///
/// ## `unchecked_if`
///
/// The condition is evaluated once, before the body. The run's summary shows the reason.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(unchecked_if(cfg!(windows), "the driver keeps its arena there"))]
/// #[test]
/// fn frees_everything() {}
/// ```
///
/// ## `needs_gpu`
///
/// With `without_gpu = "skip"` in the configuration file, or `GPU_LEAK_CHECK_WITHOUT_GPU=skip`, the
/// bodies of checked tests do not run on a machine without a CUDA device. A test that needs no CUDA
/// device, such as a test of Vulkan or of an allocator for host memory, can set this option to
/// `false`, and then runs everywhere:
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(needs_gpu = false)]
/// #[test]
/// fn frees_each_block_of_host_memory() {}
/// ```
///
/// ## `parallel` and `isolate`
///
/// By default, checked tests take turns, no matter how many threads libtest uses. Tests with
/// `parallel` run together, and each is judged by the allocations of its own threads. An
/// allocator's reserved memory has no owner, so it is judged only if no other check ran at the same
/// time. Work that moves to threads of an existing pool must take its [`Scope`] along.
///
/// With `isolate`, the test runs in its own process: the same test binary, started again for this
/// one test. The output and the outcome of that process become those of the test. If a signal or
/// `exit` ends that process during the test, the test fails and says how the process ended.
/// `isolate` has no effect inside another check, or under nextest, which runs each test in its own
/// process anyway.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(parallel)]
/// #[test]
/// fn runs_beside_others() {}
///
/// #[gpu_leak_check(isolate)]
/// #[test]
/// fn may_break_the_context() {}
/// ```
///
/// ## `warmup`
///
/// The number of runs before the first run that is judged. Create resources that a whole suite
/// shares in a [`warmup`](macro@warmup) function.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(warmup = 1)]
/// #[test]
/// fn fills_its_plan_cache_first() {}
/// ```
///
/// ## `crate`
///
/// The path of this crate, for a library that re-exports it.
///
/// ```
/// mod testing {
///     pub use ::gpu_leak_check;
/// }
///
/// #[testing::gpu_leak_check::gpu_leak_check(crate = crate::testing::gpu_leak_check)]
/// #[test]
/// fn frees_everything() {}
/// # fn main() {}
/// ```
///
/// # On a module
///
/// Every test in an inline module and in the modules inside it is checked with the module's
/// options. An option in a test's own attribute overrides the same option of the module. Functions
/// that are not tests are left unchanged, and so are items that a macro call (`proptest! { … }`)
/// generates. Names in an option's value are resolved inside the module.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(reserved_tolerance = "2 MiB")]
/// mod on_the_gpu {
///     # use gpu_leak_check::gpu_leak_check;
///     #[test]
///     fn trains() {}
///
///     #[gpu_leak_check(confirm = false)]
///     #[test]
///     fn trains_once() {}
/// }
/// ```
///
/// # On `main`
///
/// The whole program is one check, which is named after the binary. The report is printed on
/// standard error when the program ends. The exit code is the program's own if the program failed,
/// 1 for findings or if a check without a result must fail, and 2 for invalid settings. `main` runs
/// on its own thread, and runs once more if something was left behind, so that resources that a
/// program creates once and keeps are not reported as leaks. Use `confirm = false` for programs
/// that cannot run twice.
///
/// ```no_run
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(confirm = false)]
/// fn main() -> Result<(), String> {
///     Ok(())
/// }
/// ```
///
/// # Errors at compile time
///
/// The attribute can be placed on a function that can be a test, on `main` or on a module. It
/// rejects methods, generic functions, functions with arguments that no other attribute supplies,
/// async functions without a runtime's attribute, modules in another file, and whole files. To
/// check all tests of a suite, run `cargo gpu-leak test --every-test`.
///
/// # Panics
///
/// Panics if the check fails, for example because something is still live at the end. The report
/// describes the resource, where it was allocated and what to do.
pub use gpu_leak_check_macros::gpu_leak_check;
