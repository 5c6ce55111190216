//! The messages of the Khronos validation layer about the leaks in [`objects`], and when the layer
//! prints them.
//!
//! The layer prints to standard output unless the program has a messenger, so no messenger is among
//! the leaks.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;

use ash::vk;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_tests::checked::Checked;
use gpu_leak_vulkan_tests::{gpu, is_present, run_with};

use super::WORKS;
use super::objects::{self, Row, shared};

const LAYER: &str = "VK_LAYER_KHRONOS_validation";
/// The version of the layer whose messages are in the documentation.
const DOCUMENTED: u32 = vk::make_api_version(0, 1, 3, 239);
/// The end of the layer's messages about leaks.
const LEAKED: &str = " has not been destroyed";

/// Returns the rows of `objects`, except that of the messenger.
fn planted() -> impl Iterator<Item = &'static Row> {
    objects::planted().filter(|row| row.kind != Kind::Messenger)
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_one_of_each() {
    for row in planted() {
        (row.leak)(gpu());
    }
}

/// Destroys everything except the leaks, and finally their device and instance.
#[test]
#[ignore = "leaks on purpose"]
fn child_that_destroys_the_device() {
    let leaked = catch_unwind(leaks_one_of_each);
    shared().destroy();
    // SAFETY: this violates Vulkan's rules, as some programs do: the device ends before its
    // objects.
    unsafe {
        gpu().device.destroy_device(None);
        gpu().instance.destroy_instance(None);
    }
    assert!(leaked.is_err(), "the check has failed");
}

/// Returns the version of the layer, or `None` if there is no layer or no device.
fn layer_version() -> Option<u32> {
    if !is_present() {
        return None;
    }
    // SAFETY: the loader is loaded.
    let layers = unsafe { gpu().entry.enumerate_instance_layer_properties() }.expect(WORKS);
    let is_it = |layer: &&vk::LayerProperties| {
        let name = layer.layer_name_as_c_str();
        name.is_ok_and(|name| name.to_bytes() == LAYER.as_bytes())
    };
    let version = layers.iter().find(is_it).map(|layer| layer.spec_version);
    let is_demanded = std::env::var_os("VULKAN_TESTS").is_some_and(|value| value == "require");
    assert!(
        version.is_some() || !is_demanded,
        "VULKAN_TESTS=require, but there is no {LAYER}; scripts/lavapipe installs it"
    );
    version
}

/// Returns the leaks in the layer's output: for each, the object's type, its handle, and the call
/// during which the layer reported it.
fn named(output: &str) -> Vec<(&str, &str, &'static str)> {
    let parts = output.split_inclusive(LEAKED);
    let objects = parts.filter_map(|text| text.strip_suffix(LEAKED));
    let named = objects.map(|text| {
        let line = text.lines().next_back().unwrap_or("");
        let mut words = line.split_whitespace().rev();
        let (handle, of_type) = (words.next(), words.next());
        // A message during `vkDestroyInstance` does not name that call.
        let call = match line.contains("vkDestroyDevice") {
            true => "vkDestroyDevice",
            false => "vkDestroyInstance",
        };
        (of_type.unwrap_or(""), handle.unwrap_or(""), call)
    });
    named.collect()
}

fn run_under_the_layer(test: &str) -> Option<Checked> {
    run_with(test, &[("VK_INSTANCE_LAYERS", LAYER)])
}

/// The layer reports nothing for a program that ends without destroying its device.
#[test]
fn the_layer_reports_nothing_about_a_device_that_is_never_destroyed() {
    if layer_version().is_none() {
        return;
    }
    let test = "validation_layer::leaks_one_of_each";
    let mut expected: Vec<_> = planted().map(|row| (row.kind, 1, row.bytes)).collect();
    let checked = run_under_the_layer(test).expect("a device");
    let output = checked.output();
    assert!(!checked.child.stdout.contains(LEAKED), "{output}");
    let findings = &checked.report().findings;
    let found = findings
        .iter()
        .map(|it| (it.resource.expect("a kind"), it.count, it.bytes));
    let mut found: Vec<_> = found.collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected, "{output}");
    for finding in findings {
        let user = &finding.site.frames[finding.site.user.expect("a line of the user's")];
        assert!(user.line.is_some(), "{output}");
    }
}

/// If the device and the instance are destroyed, the layer names each object that is left, by its
/// handle.
#[test]
fn the_layer_names_handles_when_the_device_is_destroyed() {
    let Some(version) = layer_version() else {
        return;
    };
    let test = "validation_layer::child_that_destroys_the_device";
    let checked = run_under_the_layer(test).expect("a device");
    let (printed, output) = (&checked.child.stdout, checked.output());
    let named = named(printed);
    assert!(!named.is_empty() && !printed.contains(".rs"), "{output}");
    let is_a_handle = |(_, handle, _): &(_, &str, _)| handle.starts_with("0x");
    assert!(named.iter().all(is_a_handle), "{output}");
    // Other versions of the layer may name other leaks.
    if version == DOCUMENTED {
        assert_documented(&named, &output);
    }
}

/// Fails unless the page says which types of objects the layer has named, and in which call.
#[track_caller]
fn assert_documented(named: &[(&str, &str, &str)], output: &str) {
    const PAGE: &str = include_str!("../../docs/coming-from.md");
    let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut expected = 0;
    for row in planted() {
        let name = row.vulkan_type();
        let call = named.iter().find(|(of_type, _, _)| **of_type == name);
        let when = call.map_or_else(|| "never".to_owned(), |(_, _, call)| format!("in `{call}`"));
        expected += usize::from(call.is_some());
        types.entry(when).or_default().insert(name);
    }
    assert_eq!(named.len(), expected, "{output}");
    let lines = types.into_iter().map(|(when, types)| {
        let types: Vec<_> = types.into_iter().collect();
        format!("| {} | {when} |", types.join(", "))
    });
    let missing: Vec<_> = lines.filter(|line| !PAGE.contains(line)).collect();
    let missing = missing.join("\n");
    assert!(
        missing.is_empty(),
        "docs/coming-from.md must have these lines:\n{missing}"
    );
}
