//! The whole device's bytes: advice beside the layers, never a verdict, and never a reason to make a
//! context.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::model::{Part, Share, Verdict};
use gpu_leak_tests::checked;
use gpu_leak_tests::fake::{Control, Fake};
use gpu_leak_tests::gpu;

use super::driver::{allocate, context, free};

const HERE: &str = "boundary::whole::";
const BYTES: usize = 4 << 20;

#[test]
fn what_a_leak_takes_of_the_device_is_accounted_for() {
    let checked = checked::run(&format!("{HERE}uses_the_device_and_leaks"));
    let story = checked.story();
    let [first, second] = &checked.reports[..] else {
        panic!("{story}")
    };
    assert_eq!(first.verdict, Verdict::Clean, "{story}");
    assert_eq!(first.devices[0].whole, None, "no context before: {story}");
    let Some(whole) = &second.devices[0].whole else {
        // A GPU that others use as well.
        assert!(gpu::is_present(), "{story}");
        return;
    };
    let taken = Part {
        share: Share::Driver,
        bytes: BYTES as i64,
    };
    assert!(whole.parts.contains(&taken), "{story}");
    if !gpu::is_present() {
        assert_eq!(whole.unexplained, 0, "{story}");
        let line = "device used +4.00 MiB, of which 4.00 MiB accounted for: driver +4.00 MiB\n";
        assert!(checked.child.stderr.contains(line), "{story}");
    }
}

#[test]
#[ignore = "run in a process of its own"]
fn uses_the_device_and_leaks() {
    // The context is made inside: its own bytes are nobody's, and nothing was read before.
    uses_the_device();
    std::panic::catch_unwind(leaks).expect_err("a leak fails its test");
}

#[gpu_leak_check]
#[ignore = "needs what its caller does"]
#[test]
fn uses_the_device() {
    context();
    free(allocate(BYTES).unwrap()).unwrap();
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks() {
    context();
    allocate(BYTES).unwrap();
}

#[test]
fn a_device_without_a_context_is_given_none() {
    let fake = Fake::new().devices(2);
    checked::on(&fake, &format!("{HERE}uses_one_of_two_devices")).assert_clean();
}

#[test]
#[ignore = "run on the stand-in"]
fn uses_one_of_two_devices() {
    uses_the_device();
    uses_the_device();
    let control = Control::of_this_process().expect("the stand-in");
    assert_eq!(control.contexts_made(), 1);
}
