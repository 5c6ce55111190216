//! Tests of programs that use Vulkan: linked to its loader, not linked to it, or through volk.

use std::path::Path;
use std::process::Command;

use gpu_leak_check::ledger::Kind;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::skipped;

use super::ran_with;

/// Builds the program and checks what it leaves: one object of each kind in `left`, and the fence
/// with its line.
fn assert_found(compiler: &str, source: &str, flags: &[&str], left: &[Kind]) {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let built = Command::new(compiler)
        .args(["-g", "-O0", "-o"])
        .args([&program, &source])
        .args(flags)
        .output()
        .expect("a compiler");
    let plain = || Command::new(&program).status().expect("it runs").code();
    if !built.status.success() || plain() != Some(0) {
        let is_required = std::env::var_os("VULKAN_TESTS").is_some_and(|value| value == "require");
        assert!(
            !is_required,
            "VULKAN_TESTS=require, but no Vulkan device: {built:?}"
        );
        return;
    }
    let ran = ran_with(&Fake::new(), &[], &program, &[]);
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    let files = ran.files();
    let [file] = &files[..] else {
        panic!("{} files: {:?}", files.len(), ran.reported);
    };
    let findings = &file.reports[0].findings;
    let mut found: Vec<_> = findings.iter().map(|it| (it.resource, it.count)).collect();
    let mut expected: Vec<_> = left.iter().map(|kind| (Some(*kind), 1)).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "{:?}", ran.reported);
    let fence = findings.iter().find(|it| it.resource == Some(Kind::Fence));
    let line = fence.and_then(|it| it.site.user_frame()?.line);
    let source = std::fs::read_to_string(source).expect("it was compiled");
    let mut lines = (1..).zip(source.lines());
    let marked = lines.find(|(_, line)| line.contains("/* left here */"));
    assert_eq!(line, marked.map(|(line, _)| line), "{:?}", ran.reported);
}

const LEFT: [Kind; 3] = [Kind::Device, Kind::Instance, Kind::Fence];
const LEFT_BY_CPP: [Kind; 4] = [Kind::Device, Kind::Instance, Kind::Fence, Kind::Event];

#[test]
fn a_leak_of_a_program_that_opens_vulkan_is_reported_with_its_line() {
    assert_found("cc", "tests/exec/vulkan.c", &["-ldl"], &LEFT);
}

#[test]
fn a_leak_of_a_program_linked_to_vulkan_is_reported_with_its_line() {
    let flags = ["-DLINKED", "-ldl", "-l:libvulkan.so.1"];
    assert_found("cc", "tests/exec/vulkan.c", &flags, &LEFT);
}

/// Whether a C header is installed. If not, prints a note.
fn has_header(name: &str) -> bool {
    let is_there = Path::new("/usr/include").join(name).exists();
    if !is_there {
        skipped(&format!("there is no {name}; scripts/lavapipe installs it"));
    }
    is_there
}

#[test]
fn a_leak_of_a_cpp_program_is_reported_with_its_line() {
    if has_header("vulkan/vulkan.h") {
        assert_found("c++", "tests/exec/vulkan.cpp", &["-lvulkan"], &LEFT_BY_CPP);
    }
}

#[test]
fn each_object_of_a_program_with_volk_counts_once() {
    if has_header("volk.h") {
        let flags = ["-DVOLK", "-ldl"];
        assert_found("c++", "tests/exec/vulkan.cpp", &flags, &LEFT_BY_CPP);
    }
}
