//! Tests a library that is preloaded into unmodified programs, and one that is loaded late.
#![cfg(interpose)]
#![expect(unsafe_code, reason = "calls C functions through looked-up addresses")]

mod support;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::Ordering;

use gpu_leak_interpose::Reach;
use support::{Libraries, Library, alone, built, look_up, program, table, text};

/// Returns the output of a program linked to the driver, followed by the shim's output.
fn under_the_shim(program_path: &Path, arguments: &[&Path]) -> String {
    let mut command = program(program_path);
    let output = command
        .env("LD_PRELOAD", built("interpose_shim"))
        .args(arguments)
        .output()
        .expect("the program");
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn calls_of_a_linked_program_and_of_its_libraries_are_intercepted() {
    let libraries = Libraries::new();
    libraries.driver();
    let linked = ["-ldriver", "-DCONSTRUCTOR", "-Wl,-z,now"];
    let also = libraries.compile("linked.c", "libalso.so", &linked);
    for option in ["-Wl,-z,now", "-Wl,-z,lazy", "-no-pie"] {
        let options = ["-DPROGRAM", "-ldriver", option];
        let program = libraries.compile("linked.c", "program", &options);
        let text = under_the_shim(&program, &[&also]);
        assert_eq!(
            text, "init 100 alloc 102\nalso 102\nshim: 1 inits, 3 allocations, missed []\n",
            "{option}: one of them in a constructor"
        );
    }
}

#[test]
fn a_program_with_its_own_mock_keeps_it() {
    let libraries = Libraries::new();
    let options = ["-DPROGRAM", "driver.c", "-DNUMBER=3"];
    let program = libraries.compile("linked.c", "program", &options);
    let text = under_the_shim(&program, &[]);
    assert!(text.starts_with("init 300 alloc 302\n"), "{text}");
}

#[test]
fn a_library_loaded_at_start_may_look_up_a_missing_symbol() {
    let libraries = Libraries::new();
    libraries.compile("looks_up.c", "liblooks_up.so", &[]);
    let program = libraries.compile("asks.c", "asks", &["-DPROGRAM", "-llooks_up"]);
    assert!(under_the_shim(&program, &[]).starts_with("not there, not there\n"));
}

#[test]
fn with_trampolines_and_no_driver_there_is_no_function() {
    let shim = built("interpose_shim");
    let test = "with_trampolines_and_no_driver_there_is_no_function";
    alone(test, &[("LD_PRELOAD", shim.as_os_str())], || {
        assert_eq!(look_up(libc::RTLD_DEFAULT, c"cuInit"), std::ptr::null());
        let error = support::error();
        assert!(error.contains("undefined symbol: cuInit"), "{error:?}");
        let shim = Library::open(built("interpose_shim"));
        // A caller with a weak reference gets a result that shows that there is no driver.
        let result_of = |name| {
            // SAFETY: the library is open, and this is the address of a trampoline, which jumps to
            // a function without arguments.
            unsafe {
                let real = gpu_leak_interpose::real_symbol(shim.0, name);
                std::mem::transmute::<*const (), extern "C" fn() -> *const ()>(real)()
            }
        };
        assert_eq!(result_of(c"cuInit") as i32, 34);
        assert_eq!(result_of(c"vkCreateInstance") as i32, -3);
        assert_eq!(result_of(c"vkGetInstanceProcAddr"), std::ptr::null());
        let libraries = Libraries::new();
        let driver = Library::open(libraries.driver());
        assert_ne!(driver.find(c"cuInit"), std::ptr::null());
        assert_eq!(look_up(libc::RTLD_DEFAULT, c"cuInit"), std::ptr::null());
    });
}

#[test]
fn a_library_that_loads_the_driver_in_its_own_functions_reaches_them() {
    let shim = built("interpose_shim");
    let test = "a_library_that_loads_the_driver_in_its_own_functions_reaches_them";
    alone(test, &[("LD_PRELOAD", shim.as_os_str())], || {
        let registered = gpu_leak_interpose::register(&table::TABLE);
        assert_eq!(registered, Reach::EveryLookup);
        let libraries = Libraries::new();
        let driver = format!("-DDRIVER=\"{}\"", libraries.driver().display());
        let path = libraries.compile("lazy.c", "liblazy.so", &[&driver]);
        // The shim's functions precede those of the library, which is not in the global scope.
        let lazy = Library::open(path);
        for _ in 0..2 {
            assert_eq!(lazy.call(c"initialises"), 100);
            assert_eq!(lazy.call(c"allocates"), 102);
        }
        assert_eq!(table::INITS.load(Ordering::Relaxed), 2);
        assert_eq!(table::ALLOCATIONS.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_trampoline_passes_on_all_arguments() {
    let shim = built("interpose_shim");
    let libraries = Libraries::new();
    let driver = libraries.driver();
    let variables = [
        ("LD_PRELOAD", shim.as_os_str()),
        ("DRIVER", driver.as_os_str()),
    ];
    alone("a_trampoline_passes_on_all_arguments", &variables, || {
        Library::open_with(
            std::env::var_os("DRIVER").expect("a path"),
            libc::RTLD_NOW | libc::RTLD_GLOBAL,
        );
        let shim = Library::open(built("interpose_shim"));
        for _ in 0..2 {
            // SAFETY: the library is open.
            let trampoline =
                unsafe { gpu_leak_interpose::real_symbol(shim.0, c"cuManyArguments_v9") };
            let squares: i32 = (1..=28).map(|at| at * at).sum();
            assert_eq!(support::many_arguments(trampoline), f64::from(squares));
        }
    });
}

#[test]
fn a_program_with_a_harness_also_serves_the_preloaded_one() {
    let shim = built("interpose_shim");
    let libraries = Libraries::new();
    let driver = libraries.driver();
    let variables = [
        ("LD_PRELOAD", shim.as_os_str()),
        ("DRIVER", driver.as_os_str()),
    ];
    alone(
        "a_program_with_a_harness_also_serves_the_preloaded_one",
        &variables,
        || {
            let driver = Library::open(std::env::var_os("DRIVER").expect("a path"));
            // The shim registered its table before `main`. This table sees the same calls as the
            // program's own table.
            let before = driver.find(c"cuMemAlloc_v2");
            let registered = gpu_leak_interpose::register(&table::TABLE);
            assert_eq!(registered, Reach::EveryLookup);
            assert_eq!(driver.find(c"cuMemAlloc_v2"), before);
            // SAFETY: this is the address of the wrapper of `cuMemAlloc_v2`, which has this type.
            unsafe {
                let alloc = std::mem::transmute::<*const (), table::Alloc>(before);
                assert_eq!(alloc(&mut 0, 64), 102);
            }
            assert_eq!(table::ALLOCATIONS.load(Ordering::Relaxed), 1);
            assert_eq!(gpu_leak_interpose::missed_calls(), []);
        },
    );
}

#[test]
fn a_plugin_registers_with_the_program_that_loads_it() {
    alone(
        "a_plugin_registers_with_the_program_that_loads_it",
        &[],
        || {
            let libraries = Libraries::new();
            let driver = Library::open(libraries.driver());
            let registered = gpu_leak_interpose::register(&table::TABLE);
            assert_eq!(registered, Reach::EveryLookup);
            let alloc = driver.find(c"cuMemAlloc_v2");
            let plugin = Library::open(built("interpose_plugin"));
            assert_eq!(plugin.call(c"plugin_registers"), 0);
            // SAFETY: this is the address of the wrapper of `cuMemAlloc_v2`, which has this type.
            unsafe {
                let alloc = std::mem::transmute::<*const (), table::Alloc>(alloc);
                assert_eq!(alloc(&mut 0, 64), 102);
            }
            assert_eq!(table::ALLOCATIONS.load(Ordering::Relaxed), 1);
            assert_eq!(plugin.call(c"plugin_intercepted"), 1);
        },
    );
}

#[test]
fn calls_are_intercepted_once_a_plugin_has_rebound_the_program() {
    let libraries = Libraries::new();
    let driver = libraries.driver();
    let host = libraries.compile("host.c", "host", &["-DPROGRAM"]);
    let plugins = [
        built("interpose_plugin"),
        libraries.path("libsecond_plugin.so"),
    ];
    std::fs::copy(&plugins[0], &plugins[1]).expect("a copy");
    let arguments: [&OsStr; 3] = [driver.as_ref(), plugins[0].as_ref(), plugins[1].as_ref()];
    let output = program(&host)
        .args(arguments)
        .output()
        .expect("the program");
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    // The first plugin intercepts nothing before it rebinds libraries. The second cannot replace
    // the first, and reports this.
    assert_eq!(
        text,
        "registers 1, intercepts 0, then 1\nregisters 1, intercepts 0, 1 bypassed it\n"
    );
}
