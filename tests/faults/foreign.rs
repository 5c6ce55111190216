//! Each driver function that the harness calls fails in turn: at its first call, at its second, and
//! at every call.

use gpu_leak_tests::checked;
use gpu_leak_tests::fake::Fake;

use super::bodies::{LEAVES_A_BLOCK, LEAVES_NOTHING, PLANTED};
use super::{assert_no_false_alarm, assert_not_missed};

/// The table of functions that the harness resolves. A function that is added to it is tested too.
const DRIVER: &str = include_str!("../../harness/src/device/driver.rs");

/// The calls that fail: the first, the second, or all.
const WHICH: [&str; 3] = ["@1", "@2", ""];

/// `CUDA_ERROR_UNKNOWN`
const UNKNOWN: &str = "999";
/// `CUDA_ERROR_NOT_FOUND`: the result for a function that the driver lacks.
const NOT_FOUND: &str = "500";

/// Without these functions the harness cannot empty a pool, and reports its reserve as first use.
const EMPTY_POOLS: [&str; 3] = ["cuCtxPushCurrent_v2", "cuCtxSynchronize", "cuMemPoolTrimTo"];

/// Returns the C strings in `source` that have this prefix.
fn functions<'a>(source: &'a str, begins: &'a str) -> impl Iterator<Item = &'a str> {
    let names = source.split("c\"").skip(1);
    let names = names.filter_map(|rest| rest.split_once('"').map(|(name, _)| name));
    names.filter(move |name| name.starts_with(begins))
}

/// Tries each fault with and without a leak.
fn try_all(names: &[&str], code: &str, which: &[&str]) -> usize {
    let mut tried = 0;
    for name in names {
        for at in which {
            let fault = format!("fail:{name}={code}{at}");
            let fake = Fake::new().fault(&fault);
            assert_not_missed(&checked::on(&fake, LEAVES_A_BLOCK), PLANTED, &fault);
            let keeps = EMPTY_POOLS.contains(name);
            assert_no_false_alarm(&checked::on(&fake, LEAVES_NOTHING), keeps, &fault);
            tried += 2;
        }
    }
    tried
}

/// Returns one half of the functions, for one of two threads.
fn half(names: Vec<&str>, which: usize) -> Vec<&str> {
    let (first, second) = names.split_at(names.len() / 2);
    [first, second][which].to_vec()
}

#[test]
fn each_function_of_the_driver_fails_first_half() {
    let names: Vec<_> = functions(DRIVER, "cu").collect();
    assert!(names.len() > 15, "the table has moved");
    try_all(&half(names, 0), UNKNOWN, &WHICH);
}

#[test]
fn each_function_of_the_driver_fails_second_half() {
    let names: Vec<_> = functions(DRIVER, "cu").collect();
    try_all(&half(names, 1), UNKNOWN, &WHICH);
}

#[test]
fn each_function_of_the_driver_is_missing() {
    let names: Vec<_> = functions(DRIVER, "cu").collect();
    try_all(&names, NOT_FOUND, &[""]);
}
