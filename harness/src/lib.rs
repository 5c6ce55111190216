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
#[doc(hidden)]
#[path = "script.rs"]
pub mod __script;
mod api;
mod capture;
pub mod case;
mod check;
mod config;
mod device;
mod files;
pub mod ledger;
pub mod observe;
pub mod options;
pub mod probe;
pub mod recording;
pub mod registry;
pub mod report;

pub use gpu_leak_core::units;
use gpu_leak_core::{call_site, judge, quiet, suppressions, sync};

pub use check::{
    Check, Entered, Instrument, Instrumented, OpenScope, Scope, Snapshot, assert_no_growth,
    gpu_available, max_memory_allocated, memory_allocated, memory_reserved, memory_summary, run,
    snapshot,
};
// For tests' own code; the code under test names the crate itself.
pub use gpu_leak_hooks::{allow, hand_over};
pub use ledger::Place;
pub use options::OnLeak;

/// Writes the `main` of a test target without libtest (`harness = false`): it runs every checked
/// test of the program, with libtest's command line and output.
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
/// mean what they always do; nothing is captured, so `--nocapture` changes nothing. nextest runs
/// such a target as any other. Functions with `#[test]` alone are not compiled there.
#[cfg(feature = "main")]
#[macro_export]
macro_rules! main {
    () => {
        fn main() -> $crate::__private::ExitCode {
            $crate::__private::main()
        }
    };
}

/// Writes the `main` of a test target without libtest: with the feature `main`.
#[cfg(not(feature = "main"))]
#[macro_export]
macro_rules! main {
    () => {
        ::std::compile_error!(
            "`gpu_leak_check::main!()` needs the feature `main`: \
             gpu-leak-check = { version = \"…\", features = [\"main\"] }"
        );
        fn main() {}
    };
}

/// Runs before the first check of a process.
///
/// What a suite makes once and keeps (a device, a library's handle, a plan cache) would be told as
/// `first-use` by whichever test comes first. Made here, it is there before every test.
///
/// ```
/// #[gpu_leak_check::warmup]
/// fn the_device() {
///     // MODEL.get_or_init(…)
/// }
/// ```
///
/// Each of a program's warm-ups runs once, in the order of their paths, on a thread of its own. One
/// that panics fails the check that was to begin, by name.
pub use gpu_leak_check_macros::warmup;

/// Fails a test that leaves GPU memory or GPU objects behind.
///
/// ```
/// use gpu_leak_check::gpu_leak_check;
///
/// #[gpu_leak_check]
/// #[test]
/// fn training_frees_everything() {
///     // Whatever the GPU holds at the end that it did not hold here fails the test.
/// }
/// ```
///
/// It stands above every other attribute of the test, and so wraps all of what they make: an async
/// runtime's life (`#[tokio::test]`), the cases and fixtures of `#[rstest]`, a lock of `#[serial]`.
/// Where none of them makes a test, it adds `#[test]` itself. `#[should_panic]` and `#[ignore]`
/// mean what they always do, and a test may return a [`Result`].
///
/// # Options
///
/// | option | default | meaning |
/// | --- | --- | --- |
/// | [`tolerance`](#tolerance-and-reserved_tolerance) | 0 | bytes that may stay allocated |
/// | [`reserved_tolerance`](#tolerance-and-reserved_tolerance) | 0 | bytes that an allocator may keep in reserve |
/// | [`allow`](#allow) | none | what may stay, by function, file, library or fingerprint |
/// | [`expect`](#expect) | none | that exactly this leaks |
/// | [`max_allocated`, `max_reserved`, `max_allocation_count`](#budgets) | none | what the test may take, though everything is given back |
/// | [`layer`](#budgets) | the driver | the allocator that these three are about |
/// | [`rounds`](#rounds) | 1 | in how many rounds only what gains in each is a finding |
/// | [`confirm`](#confirm) | `true` | whether a body with findings runs once more |
/// | [`on_leak`](#on_leak) | `"fail"` | whether a leak fails the test or only warns |
/// | [`settle`](#settle) | `"250ms"` | how long to wait for frees that are on their way |
/// | [`unchecked_if`](#unchecked_if) | never | when the body runs without being judged |
/// | [`parallel`](#parallel-and-isolate) | off | whether it shares the process with other such checks |
/// | [`isolate`](#parallel-and-isolate) | off | whether it runs in a process of its own |
/// | [`warmup`](#warmup) | 0 | how often the body runs before it is measured |
/// | [`crate`](#crate) | `::gpu_leak_check` | where this library is |
///
/// ## `tolerance` and `reserved_tolerance`
///
/// Bytes per device and layer, inclusive: an integer expression, or a string in B, KiB, MiB or GiB.
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
/// As often as wanted, each with a reason, which the report tells beside the bytes. The pattern is
/// looked for in the whole stack of a finding: `fn:` in its functions, `file:` in their sources,
/// `lib:` in the libraries, and `fingerprint:` is the one that a run file gives. `kind` and `up_to`
/// (bytes, in one test) are optional.
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
/// The test fails unless exactly so much leaks: `count` objects and allocations, `bytes`, or both. Its
/// body runs once.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(expect(count = 2, bytes = "1 MiB"))]
/// #[test]
/// fn leaks_two_buffers_until_the_driver_is_mended() {}
/// ```
///
/// ## Budgets
///
/// `max_allocated` is the most bytes that what the test makes may come to at once, `max_reserved` the
/// most that an allocator may hold beyond what it held before, `max_allocation_count` how many
/// allocations there may be: each per device, inclusive, and whether or not everything is given back.
/// They are about the driver's figures, or those of the allocator that `layer` names.
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
/// The body runs up to so often, and only what a place in the program holds more of after each run is
/// a finding: `grew`.
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
/// A body with findings runs once more, and only what repeats is a leak: the first run may have
/// made what the process keeps for good. With `confirm = false` the first run decides.
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
/// A number of milliseconds or seconds.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(settle = "2s")]
/// #[test]
/// fn frees_on_a_slow_thread() {}
/// ```
///
/// ## `unchecked_if`
///
/// The condition is asked once, before the body; the reason is told in the run's summary.
///
/// ```
/// # use gpu_leak_check::gpu_leak_check;
/// #[gpu_leak_check(unchecked_if(cfg!(windows), "the driver keeps its arena there"))]
/// #[test]
/// fn frees_everything() {}
/// ```
///
/// ## `parallel` and `isolate`
///
/// By default checked tests take turns, whatever libtest does. Those with `parallel` run together,
/// each judged by what its own threads took; an allocator's reserve, which has no owner, is judged
/// only where no other check ran meanwhile. Work that reaches threads of an older pool takes its
/// [`Scope`] along.
///
/// With `isolate` the test runs in a process of its own: this program again, told to run that one
/// test. Its output and its outcome are those of the test; if the process ends inside the test, by a
/// signal or by `exit`, the test fails and says how. Under nextest, where each test has a process
/// anyway, and inside another check, it changes nothing.
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
/// Runs that are not judged come first. What a whole suite makes once belongs into a function under
/// [`warmup`](macro@warmup).
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
/// For a library that re-exports this one.
///
/// ```
/// mod testing {
///     pub use gpu_leak_check;
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
/// Every test in an inline module, and in modules inside it, is checked with the module's options;
/// an attribute of a test's own stands over them option by option. Functions that are no tests are
/// left alone, and so is what a macro call (`proptest! { … }`) makes. Names in an option's value are
/// looked up inside the module.
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
/// The program is one check, named after its binary: the report comes at its end, on the standard
/// error. The exit code is the program's own where that is a failure, 1 for findings and 2 for wrong
/// settings. `main` runs on a thread of its own, and once more if something was left, so that what a
/// program makes once and keeps is no leak: `confirm = false` is for programs that cannot.
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
/// It belongs on a function that can be a test, on `main` or on a module: a method, a generic
/// function, one with arguments that no other attribute supplies, an async one without a runtime's
/// attribute and a module in another file are refused.
///
/// # Panics
///
/// The test panics if something stayed, with a report of what, where it was taken and what to do.
pub use gpu_leak_check_macros::gpu_leak_check;
