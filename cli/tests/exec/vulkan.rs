//! A program that uses Vulkan, linked to its loader or not.

use std::path::Path;
use std::process::Command;

use gpu_leak_check::ledger::Kind;
use gpu_leak_tests::fake::Fake;

use super::ran_with;

/// Builds the program and compares what it leaves.
fn is_found(name: &str, flags: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exec/vulkan.c");
    let built = Command::new("cc")
        .args(["-g", "-O0", "-o"])
        .args([&program, &source])
        .args(flags)
        .output()
        .expect("a C compiler");
    let plain = || Command::new(&program).status().expect("it runs").code();
    if !built.status.success() || plain() != Some(0) {
        let is_demanded = std::env::var_os("VULKAN_TESTS").is_some_and(|value| value == "require");
        assert!(
            !is_demanded,
            "VULKAN_TESTS=require, but no Vulkan device: {built:?}"
        );
        return;
    }
    let ran = ran_with(&Fake::new(), &[], &program, &[]);
    assert_eq!(ran.told.code, Some(1), "{:?}", ran.told);
    let files = ran.files();
    let [file] = &files[..] else {
        panic!("{} files: {:?}", files.len(), ran.told);
    };
    let mut found: Vec<_> = file.reports[0]
        .findings
        .iter()
        .map(|it| {
            (
                it.resource,
                it.count,
                it.site.user_frame().and_then(|it| it.line),
            )
        })
        .collect();
    found.sort_unstable();
    let kinds: Vec<_> = found
        .iter()
        .map(|(kind, count, _)| (*kind, *count))
        .collect();
    let expected = [Kind::Device, Kind::Instance, Kind::Fence].map(|kind| (Some(kind), 1));
    assert_eq!(kinds, expected, "{:?}", ran.told);
    let lines = include_str!("vulkan.c").lines();
    let line = (1..)
        .zip(lines)
        .find(|(_, line)| line.contains("/* left here */"));
    assert_eq!(found[2].2, line.map(|(line, _)| line), "{:?}", ran.told);
}

#[test]
fn what_a_program_leaves_that_opens_vulkan_is_told_with_its_line() {
    is_found("opens", &["-ldl"]);
}

#[test]
fn what_a_program_leaves_that_is_linked_to_vulkan_is_told_with_its_line() {
    is_found("linked", &["-DLINKED", "-ldl", "-l:libvulkan.so.1"]);
}
