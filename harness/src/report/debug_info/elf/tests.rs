//! Compiles a library with each form of debug information that users have, loads it, and resolves a
//! backtrace through it.

#![expect(unsafe_code, reason = "looks up the library's function by name")]

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::Symbol;
use super::DebugInfo;
use crate::capture;
use crate::capture::modules;
use crate::capture::modules::Modules;
use crate::loader::Library;

/// The source that is compiled. The call is on line 3, and the inlined function is called on line
/// 7.
const SOURCE: &str = "#[inline(always)]
fn inlined(back: extern \"C\" fn()) {
    back();
}
#[inline(never)]
fn around(back: extern \"C\" fn()) {
    inlined(back);
    std::hint::black_box(());
}
#[unsafe(no_mangle)]
pub extern \"C\" fn enter(back: extern \"C\" fn()) {
    around(back);
    std::hint::black_box(());
}
";

thread_local! {
    static STACK: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) };
}

extern "C" fn back() {
    STACK.with_borrow_mut(|stack| {
        capture::trace(|_, address, _| {
            stack.push(address);
            true
        });
    });
}

/// Returns a directory with a library `libform.so`, which has been compiled with `options` and then
/// processed by `commands` in that directory.
fn compiled(options: &[&str], commands: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("form.rs"), SOURCE).unwrap();
    compile(directory.path(), "form", &options.join(" "));
    for command in commands {
        shell(directory.path(), command);
    }
    directory
}

/// Compiles `name.rs` in `directory` to the library `libname.so`.
fn compile(directory: &Path, name: &str, options: &str) {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let compile = format!("'{compiler}' --edition 2024 --crate-type cdylib {options} {name}.rs");
    shell(directory, &compile);
}

fn shell(directory: &Path, command: &str) {
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", command]).current_dir(directory);
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
}

/// Returns the symbols of the library's frames in a backtrace that passes through it.
fn symbols(directory: &Path) -> Vec<Symbol> {
    symbols_after(directory, || {})
}

/// Returns these symbols after `then` has run in the meantime.
fn symbols_after(directory: &Path, then: impl FnOnce()) -> Vec<Symbol> {
    let path: PathBuf = directory.join("libform.so").canonicalize().unwrap();
    let library = Library::open(&path).unwrap();
    // SAFETY: the source above has a function with this signature.
    let enter = unsafe { library.function::<extern "C" fn(extern "C" fn())>(c"enter") };
    STACK.take();
    enter.unwrap()(back);
    let modules = Modules::parse(&modules::read_maps());
    then();
    let mut info = DebugInfo::default();
    let mut found = Vec::new();
    for address in STACK.take() {
        let call = address.saturating_sub(1);
        let module = modules.find(call);
        if module.is_some_and(|module| module.path == path) {
            found.extend(info.at(call, module.map(|it| &**it)));
        }
    }
    found
}

fn names(symbols: &[Symbol]) -> Vec<&str> {
    let name = |symbol: &Symbol| symbol.function.is_some();
    let named = symbols.iter().filter(|symbol| name(symbol));
    named.filter_map(|it| it.function.as_deref()).collect()
}

fn lines(symbols: &[Symbol]) -> Vec<(bool, Option<u32>)> {
    let of_source = |file: &str| file.ends_with("form.rs");
    let line = |it: &Symbol| (it.file.as_deref().is_some_and(of_source), it.line);
    symbols.iter().map(line).collect()
}

/// Asserts that no information is lost in a library of this form.
fn assert_complete(options: &[&str], commands: &[&str]) {
    let directory = compiled(options, commands);
    let symbols = symbols(directory.path());
    let expected = [(true, Some(3)), (true, Some(7)), (true, Some(12))];
    assert_eq!(lines(&symbols), expected, "{symbols:#?}");
    let names = names(&symbols);
    assert!(names[0].ends_with("inlined"), "{names:?}");
    assert_eq!(names[1..], ["form::around", "enter"]);
}

#[test]
fn full_debug_information_is_read() {
    assert_complete(&["-Cdebuginfo=2"], &[]);
}

#[test]
fn line_tables_are_enough_for_lines_inlined_functions_and_paths() {
    assert_complete(&["-Cdebuginfo=line-tables-only"], &[]);
    assert_complete(&["-Cdebuginfo=line-tables-only", "-Copt-level=3"], &[]);
}

#[test]
fn debug_information_that_is_left_in_the_objects_is_read() {
    let are_there = ["ls *.dwo"];
    assert_complete(&["-Cdebuginfo=2", "-Csplit-debuginfo=unpacked"], &are_there);
}

#[test]
fn debug_information_in_a_package_is_read() {
    assert_complete(
        &["-Cdebuginfo=2", "-Csplit-debuginfo=packed"],
        &["rm -f *.dwo"],
    );
}

#[test]
fn compressed_debug_information_is_read() {
    let compressed = "-Clink-arg=-Wl,--compress-debug-sections=zlib";
    assert_complete(&["-Cdebuginfo=2", compressed], &[]);
}

#[test]
fn debug_information_in_a_file_beside_it_is_read() {
    let separated = [
        "objcopy --only-keep-debug libform.so libform.debug",
        "objcopy --strip-all --add-gnu-debuglink=libform.debug libform.so",
    ];
    assert_complete(&["-Cdebuginfo=2"], &separated);
}

#[test]
fn debug_information_of_another_build_is_not_used() {
    let other = "printf 'fn other() {}\\n' > other.rs && cat other.rs form.rs > both.rs \
         && rustc --edition 2024 --crate-type cdylib -Clink-arg=-Wl,--build-id both.rs -Cdebuginfo=2 \
         && objcopy --only-keep-debug libboth.so libform.debug";
    let linked = "objcopy --strip-all --add-gnu-debuglink=libform.debug libform.so";
    let directory = compiled(&["-Clink-arg=-Wl,--build-id"], &[other, linked]);
    let symbols = symbols(directory.path());
    assert_eq!(names(&symbols), ["enter"], "{symbols:#?}");
    assert_eq!(symbols[0].line, None);
}

/// Adds a line before the source, renames a function, and compiles the source again.
fn build_again(directory: &Path, options: &str) {
    let edit = "(echo && sed s/around/about/ form.rs) > new.rs && mv new.rs form.rs";
    shell(directory, edit);
    compile(directory, "form", options);
}

#[test]
fn a_library_that_is_built_again_while_it_is_loaded_has_no_lines() {
    let directory = compiled(&["-Cdebuginfo=2"], &[]);
    let path = directory.path();
    let symbols = symbols_after(path, || build_again(path, "-Cdebuginfo=2"));
    assert_eq!(symbols, [], "they would be those of the new build");
}

#[test]
fn debug_information_in_objects_of_another_build_is_not_used() {
    let options = "-Cdebuginfo=2 -Csplit-debuginfo=unpacked";
    let directory = compiled(&[options], &["cp -p libform.so old.so"]);
    build_again(directory.path(), options);
    shell(directory.path(), "ls *.dwo && mv old.so libform.so");
    let symbols = symbols(directory.path());
    let lines: Vec<_> = symbols.iter().filter_map(|symbol| symbol.line).collect();
    assert_eq!(lines, [3, 12], "{symbols:#?}");
    assert_eq!(names(&symbols), ["form::around", "enter"]);
}

#[test]
fn without_debug_information_functions_are_named_by_the_symbol_table() {
    let directory = compiled(&["-Cdebuginfo=0"], &[]);
    let symbols = symbols(directory.path());
    let names = names(&symbols);
    assert_eq!(names.last(), Some(&"enter"), "{names:?}");
    assert!(names.contains(&"form::around"), "{names:?}");
    assert!(symbols.iter().all(|symbol| symbol.line.is_none()));
}

#[test]
fn exported_functions_of_a_stripped_library_are_named() {
    let directory = compiled(&["-Cstrip=symbols"], &[]);
    let symbols = symbols(directory.path());
    assert_eq!(names(&symbols), ["enter"], "{symbols:#?}");
}

#[test]
fn a_file_that_is_not_a_library_has_no_symbols() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert!(super::Image::open(&file, &file).is_none(), "not there");
    for length in [0, 4, 63, 64, 200] {
        std::fs::write(&file, &program[..length]).unwrap();
        let image = super::Image::open(&file, &file);
        assert!(image.is_none_or(|it| it.at(0x1000).is_empty()), "{length}");
    }
}

/// A small library, which needs no other: its debug information has a few kilobytes.
const SMALL: &str = "#![no_std]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
#[inline(always)]
fn inlined(back: extern \"C\" fn()) {
    back();
}
#[unsafe(no_mangle)]
pub extern \"C\" fn enter(back: extern \"C\" fn()) {
    inlined(back);
    inlined(back);
}
";

/// A user's process must not panic because of a library that it loads, or wait long for it.
#[test]
fn damaged_debug_information_is_read_without_a_panic() {
    let small = |options: &str, file: &str| {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("small.rs"), SMALL).unwrap();
        let options = format!("-Cpanic=abort -Clink-arg=-nostdlib {options}");
        compile(directory.path(), "small", &options);
        std::fs::read(directory.path().join(file)).unwrap()
    };
    let library = |options: &str| small(options, "libsmall.so");
    let compressed = "-Cdebuginfo=2 -Clink-arg=-Wl,--compress-debug-sections=zlib";
    let packed = "-Cdebuginfo=2 -Csplit-debuginfo=packed";
    let forms = ["-Cdebuginfo=2", compressed, "-Cdebuginfo=0"].map(library);
    let directory = tempfile::tempdir().unwrap();
    let look_up = |at: &Path| {
        let maps = format!("1000-5000 r-xp 00000000 08:01 11 {}\n", at.display());
        let (modules, mut info) = (Modules::parse(&maps), DebugInfo::default());
        let addresses = (0x1000..0x4000).step_by(16);
        let found = addresses.flat_map(|at| info.at(at, modules.find(at).map(|it| &**it)));
        found.collect::<Vec<_>>()
    };
    let mut number = 0;
    // A file stays mapped, so it must not be written again.
    let mut file = || {
        number += 1;
        directory.path().join(format!("{number}.so"))
    };
    gpu_leak_mutations::each_of("elf", &forms, 1_000, 4, |seed, input| {
        let path = file();
        std::fs::write(&path, input).unwrap();
        let found = look_up(&path);
        assert!(seed != input || names(&found).contains(&"enter"));
        std::fs::remove_file(&path).unwrap();
    });
    let (whole, package) = (file(), small(packed, "libsmall.so.dwp"));
    std::fs::write(&whole, library(packed)).unwrap();
    gpu_leak_mutations::each_of("dwp", &[package], 500, 4, |seed, input| {
        let path = file();
        std::fs::copy(&whole, &path).unwrap();
        let package = super::separate::package(&path);
        std::fs::write(&package, input).unwrap();
        let found = look_up(&path);
        assert!(
            seed != input || lines(&found).contains(&(false, Some(8))),
            "{found:?}"
        );
        std::fs::remove_file(&package).unwrap();
        std::fs::remove_file(&path).unwrap();
    });
}
