//! Shared libraries in the process: one contains a second harness, and another starts threads.

#![expect(unsafe_code, reason = "loads a plugin")]

use std::sync::OnceLock;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_tests::checked;
use gpu_leak_tests::fake::{Fake, built};

use super::assert_one_leak;
use super::driver::{allocate, context};

const HERE: &str = "boundary::copies::";
/// The plugin's answers.
const HEARS_NOTHING: u32 = 1;
const HEARS: u32 = 2;

fn plugin() -> &'static libloading::Library {
    static PLUGIN: OnceLock<libloading::Library> = OnceLock::new();
    PLUGIN.get_or_init(|| {
        // SAFETY: the plugin's only constructor writes to an atomic of the plugin, and the plugin
        // is never closed.
        unsafe { libloading::Library::new(built("libgpu_leak_fake_plugin.so")) }.expect("a plugin")
    })
}

fn plugin_checks() -> u32 {
    // SAFETY: the plugin's function has this signature.
    let checks = unsafe { plugin().get::<extern "C" fn() -> u32>(b"fake_plugin_checks") };
    checks.expect("a function of the plugin")()
}

fn plugin_runs(work: extern "C" fn()) {
    type Runs = extern "C" fn(extern "C" fn()) -> bool;
    // SAFETY: the plugin's function has this signature.
    let runs = unsafe { plugin().get::<Runs>(b"fake_plugin_runs") };
    assert!(runs.expect("a function of the plugin")(work));
}

#[test]
fn a_late_harness_measures_nothing_and_the_first_one_misses_nothing() {
    let checked = checked::on(&Fake::new(), &format!("{HERE}has_a_plugin_that_checks"));
    assert_one_leak(&checked, Kind::Linear, 10);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn has_a_plugin_that_checks() {
    context();
    assert_eq!(plugin_checks(), HEARS_NOTHING);
    allocate(10).unwrap();
}

#[test]
fn an_earlier_check_of_a_plugin_hides_nothing_from_the_program_s_own() {
    let checked = checked::on(&Fake::new(), &format!("{HERE}comes_after_its_plugin"));
    assert_one_leak(&checked, Kind::Linear, 10);
}

/// A single interposer serves both harnesses.
#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn comes_after_its_plugin() {
    plugin();
    context();
    assert_eq!(plugin_checks(), HEARS);
    allocate(10).unwrap();
}

/// The library's call of `pthread_create` reaches the wrapper in the program first.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_thread_of_a_shared_library_works_for_the_test_that_started_it() {
    let fake = Fake::new();
    let test = format!("{HERE}leaks_on_a_thread_of_the_plugin");
    for run in [fake.run(&test), fake.run(&test).beside_others()] {
        let checked = checked::finish(run);
        let finding = assert_one_leak(&checked, Kind::Linear, 32);
        assert_eq!(finding.foreign_thread, None, "{}", checked.output());
    }
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_on_a_thread_of_the_plugin() {
    extern "C" fn leak() {
        context();
        allocate(32).unwrap();
    }
    plugin_runs(leak);
}
