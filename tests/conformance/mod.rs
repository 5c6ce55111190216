//! The guarantees that every allocator of the workloads gives with every storage, and the figures
//! and rules of the caching allocator.

mod caching;
mod device;
mod figures;
mod model;
mod private_pool;
mod streams;
mod suite;
pub(crate) mod threads;
mod watched;

use gpu_leak_kernels::cuda::CudaConfig;
use gpu_leak_kernels::memory::Policy;
use gpu_leak_kernels::{Device, EmbeddedConfig};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::gpu;

fn embedded(policy: Policy) -> Device {
    Device::embedded_with(EmbeddedConfig {
        policy,
        ..EmbeddedConfig::default()
    })
    .expect("an embedded device")
}

/// Opens device 0 with this policy. Returns `None` on a machine without a GPU.
fn cuda(policy: Policy) -> Option<Device> {
    Device::cuda_with(CudaConfig { ordinal: 0, policy }).ok()
}

fn on_the_stand_in(test: &str) {
    if !gpu::is_present() {
        alone(test);
    }
}

/// Runs a test in a separate process, on the stand-in if there is no GPU.
fn alone(test: &str) {
    let test = format!("conformance::{test}");
    let run = if gpu::is_present() {
        Run::of(&test)
    } else {
        Fake::new().run(&test)
    };
    let child = run.run();
    assert!(child.status.success(), "{}\n{}", child.stdout, child.stderr);
}

/// Defines the tests of the suite for each allocator and storage. Tests with a cache are checked so
/// that they take turns, because the end of another check would empty the cache.
macro_rules! conformance {
    ($($test:ident),* $(,)?) => {
        mod embedded_caching {
            $(
                #[gpu_leak_check::gpu_leak_check]
                #[test]
                fn $test() { super::suite::$test(&super::embedded(super::Policy::Caching)); }
            )*
        }
        mod embedded_direct {
            $(#[test] fn $test() { super::suite::$test(&super::embedded(super::Policy::Direct)); })*
        }
        mod cuda_caching {
            $(#[test] fn $test() {
                if let Some(device) = super::cuda(super::Policy::Caching) {
                    super::suite::$test(&device);
                }
            })*
        }
        /// The CUDA tests, on the stand-in if there is no GPU.
        mod stand_in {
            $(#[test] fn $test() {
                super::on_the_stand_in(concat!("cuda_caching::", stringify!($test)));
                super::on_the_stand_in(concat!("cuda_direct::", stringify!($test)));
            })*
        }
        mod cuda_direct {
            $(#[test] fn $test() {
                if let Some(device) = super::cuda(super::Policy::Direct) {
                    super::suite::$test(&device);
                }
            })*
        }
    };
}

conformance!(
    a_new_device_holds_nothing,
    live_buffers_do_not_overlap,
    a_buffer_of_no_bytes_takes_no_memory,
    a_dropped_buffer_is_no_longer_allocated,
    empty_cache_returns_all_that_is_not_in_use,
    allocated_memory_never_exceeds_reserved_memory,
    a_request_beyond_the_device_reports_its_figures_and_harms_nothing,
    no_size_overflows_the_arithmetic,
    a_limit_refuses_what_would_pass_it,
    peaks_outlast_what_caused_them_until_reset,
    totals_add_up_to_what_there_is,
    the_snapshot_agrees_with_the_statistics,
    buffers_keep_their_device_alive,
    a_buffer_may_be_dropped_on_another_thread,
    release_returns_everything_and_says_so,
    release_names_what_pins_a_segment,
    threads_share_the_allocator_without_harm,
);
