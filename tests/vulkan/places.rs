//! The numbers by which reports identify devices.

use ash::Entry;
use gpu_leak_check::ledger::{self, Kind, Place};
use gpu_leak_tests::child::Run;
use gpu_leak_vulkan_tests::{device, instance, is_present, with_two_devices};

use super::WORKS;

#[test]
#[ignore = "run in a process of its own"]
fn child_that_lists_groups_first() {
    // SAFETY: the loader stays loaded, and every handle is used with its own functions.
    unsafe {
        let instance = instance(&Entry::load().expect(WORKS)).expect(WORKS);
        let count = instance.enumerate_physical_device_groups_len();
        let mut groups = vec![Default::default(); count.expect(WORKS)];
        let listed = instance.enumerate_physical_device_groups(&mut groups);
        listed.expect(WORKS);
        let physical = groups[0].physical_devices[0];
        let _device = device(&instance, physical);
        let mut all = instance
            .enumerate_physical_devices()
            .expect(WORKS)
            .into_iter();
        let number = all.position(|it| it == physical).expect("it is listed");
        let devices = ledger::live().select(|it| it.made.kind == Kind::Device);
        let places: Vec<_> = devices.iter().map(|it| it.made.place).collect();
        assert_eq!(places, [Place::named(&format!("vulkan:{number}"))]);
    }
}

/// Mesa's layer for selecting a device changes the order of the devices, but not that of the
/// groups.
#[test]
fn a_device_of_a_group_has_its_number_in_the_list_of_devices() {
    if is_present() {
        let run = with_two_devices(Run::of("places::child_that_lists_groups_first"));
        let child = run.run();
        assert!(child.status.success(), "{}", child.stderr);
    }
}
