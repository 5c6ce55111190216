#![doc = include_str!("../README.md")]

#[doc(hidden)]
#[path = "bench.rs"]
pub mod __bench;
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod capture;
pub mod case;
mod check;
mod config;
mod device;
mod judge;
pub mod ledger;
pub mod observe;
pub mod options;
pub mod probe;
pub mod recording;
pub mod registry;
pub mod report;

pub use check::run;
pub use ledger::Place;

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
/// | [`confirm`](#confirm) | `true` | whether a body with findings runs once more |
/// | [`on_leak`](#on_leak) | `"fail"` | whether a leak fails the test or only warns |
/// | [`settle`](#settle) | `"250ms"` | how long to wait for frees that are on their way |
/// | [`unchecked_if`](#unchecked_if) | never | when the body runs without being judged |
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
/// # Errors at compile time
///
/// It belongs on a function that can be a test: a method, a module, a generic function, one with
/// arguments that no other attribute supplies and an async one without a runtime's attribute are
/// refused.
///
/// # Panics
///
/// The test panics if something stayed, with a report of what, where it was taken and what to do.
pub use gpu_leak_check_macros::gpu_leak_check;
