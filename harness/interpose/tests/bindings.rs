//! Tests libraries whose bindings to a driver, or to the C library's `dlsym`, bypass us.
#![cfg(interpose)]
#![expect(unsafe_code, reason = "calls C functions through looked-up addresses")]

mod support;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, ptr};

use gpu_leak_interpose::{
    BindingPastUs, Reach, Registration, bindings_past_us, libraries_elsewhere,
};
use support::{Libraries, Library, alone, look_up, table};

fn register() {
    let registered = gpu_leak_interpose::register(&table::TABLE);
    assert_eq!(registered, Reach::EveryLookup);
    assert_eq!(bindings_past_us(0).found, [], "before anything is loaded");
}

/// Returns the numbers of intercepted initialisations and allocations.
fn intercepted() -> [u32; 2] {
    [&table::INITS, &table::ALLOCATIONS].map(|count| count.load(Ordering::Relaxed))
}

fn binding(library: &Path, symbol: &str) -> BindingPastUs {
    BindingPastUs {
        library: library.display().to_string(),
        symbol: symbol.to_owned(),
        rebound: true,
    }
}

/// Returns the bindings that were found after `since`, sorted by name.
fn found(since: usize) -> Vec<BindingPastUs> {
    let mut found = bindings_past_us(since).found;
    found.sort_by(|one, other| one.symbol.cmp(&other.symbol));
    found
}

#[test]
fn a_library_that_is_linked_to_the_driver_is_rebound_and_named() {
    let test = "a_library_that_is_linked_to_the_driver_is_rebound_and_named";
    alone(test, &[], || {
        let libraries = Libraries::new();
        register();
        libraries.driver();
        let begin = bindings_past_us(usize::MAX).now;
        // This is how distributions link: everything is bound at load time and is read-only
        // afterwards.
        let options = ["-ldriver", "-Wl,-z,now,-z,relro"];
        let path = libraries.compile("linked.c", "liblinked.so", &options);
        let linked = Library::open(&path);
        assert_eq!(linked.call(c"allocates"), 102);
        assert_eq!(intercepted(), [0, 0], "the calls bypassed us");
        let expected = [binding(&path, "cuInit"), binding(&path, "cuMemAlloc_v2")];
        assert_eq!(found(begin), expected);
        assert_eq!(linked.call(c"allocates"), 102);
        assert_eq!(linked.call(c"initialises"), 100);
        assert_eq!(intercepted(), [1, 1]);
        assert_eq!(
            found(begin),
            expected,
            "the same for another check that began at that time"
        );
        assert_eq!(found(bindings_past_us(begin).now), [], "nothing new since");
    });
}

#[test]
fn a_function_that_has_not_been_called_is_rebound_and_not_named() {
    alone(
        "a_function_that_has_not_been_called_is_rebound_and_not_named",
        &[],
        || {
            let libraries = Libraries::new();
            register();
            libraries.driver();
            let options = ["-ldriver", "-Wl,-z,lazy"];
            let path = libraries.compile("linked.c", "liblinked.so", &options);
            let linked = Library::open_with(&path, libc::RTLD_LAZY);
            assert_eq!(
                found(0),
                [binding(&path, "cuInit")],
                "its data contains the address of this function"
            );
            assert_eq!(linked.call(c"allocates"), 102);
            assert_eq!(intercepted(), [0, 1]);
        },
    );
}

#[test]
fn a_library_that_is_loaded_again_is_rebound_again() {
    alone(
        "a_library_that_is_loaded_again_is_rebound_again",
        &[],
        || {
            let libraries = Libraries::new();
            register();
            libraries.driver();
            let path = libraries.compile("linked.c", "liblinked.so", &["-ldriver", "-Wl,-z,now"]);
            for round in 1..=3 {
                let begin = bindings_past_us(usize::MAX).now;
                let linked = Library::open(&path);
                assert_eq!(found(begin).len(), 2);
                assert_eq!(linked.call(c"allocates"), 102);
                assert_eq!(intercepted(), [0, round]);
                // SAFETY: the library was opened above.
                unsafe { libc::dlclose(linked.0) };
            }
        },
    );
}

#[test]
fn each_close_is_reported_and_so_is_each_unloading() {
    static CALLS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    extern "C" fn on_close(has_unloaded: bool) {
        CALLS[usize::from(has_unloaded)].fetch_add(1, Ordering::Relaxed);
    }
    static TABLE: Registration = Registration::new(&[], None).with_on_close(on_close);
    alone(
        "each_close_is_reported_and_so_is_each_unloading",
        &[],
        || {
            gpu_leak_interpose::register(&TABLE);
            let libraries = Libraries::new();
            let path = libraries.driver();
            let opened = [(); 2].map(|()| Library::open(&path));
            // The crate's own searches are not reported.
            let _ = bindings_past_us(0);
            for (library, expected) in opened.iter().zip([[1, 0], [2, 1]]) {
                // SAFETY: the library was opened above.
                assert_eq!(unsafe { libc::dlclose(library.0) }, 0);
                let calls = CALLS.each_ref().map(|count| count.load(Ordering::Relaxed));
                assert_eq!(calls, expected);
            }
        },
    );
}

#[test]
fn a_library_with_its_own_symbols_first_looks_up_through_us() {
    let test = "a_library_with_its_own_symbols_first_looks_up_through_us";
    alone(test, &[], || {
        let libraries = Libraries::new();
        register();
        let driver = Library::open(libraries.driver());
        let path = libraries.compile("looks_up.c", "liblooks_up.so", &["-Wl,-z,now"]);
        let deep = Library::open_with(&path, libc::RTLD_NOW | libc::RTLD_DEEPBIND);
        type LooksUp = unsafe extern "C" fn(*mut std::ffi::c_void, *const i8) -> *const ();
        // SAFETY: the function with this name has this type.
        let looks_up = unsafe { std::mem::transmute::<*const (), LooksUp>(deep.find(c"looks_up")) };
        // SAFETY: the library is open, and the name is a C string.
        let asks = || unsafe { looks_up(driver.0, c"cuInit".as_ptr().cast()) };
        // SAFETY: the library is open.
        let real = unsafe { gpu_leak_interpose::real_symbol(driver.0, c"cuInit") };
        assert_eq!(asks(), real);
        assert_eq!(found(0), [binding(&path, "dlsym")]);
        assert_eq!(asks(), driver.find(c"cuInit"));
        assert_ne!(asks(), real);
    });
}

#[test]
fn a_library_with_its_own_driver_keeps_it() {
    alone("a_library_with_its_own_driver_keeps_it", &[], || {
        let libraries = Libraries::new();
        register();
        let driver = Library::open(libraries.driver());
        assert_ne!(driver.find(c"cuInit"), ptr::null());
        assert_ne!(driver.find(c"cuMemAlloc_v2"), ptr::null());
        libraries.compile("driver.c", "libmock.so", &["-DNUMBER=2"]);
        let path = libraries.compile("linked.c", "liblinked.so", &["-lmock", "-Wl,-z,now"]);
        let linked = Library::open(&path);
        assert_eq!(found(0).len(), 2);
        assert_eq!(linked.call(c"allocates"), 202);
        let missed = gpu_leak_interpose::missed_calls();
        assert_eq!(missed.len(), 1);
        assert_eq!(missed[0].name, "cuMemAlloc_v2");
        assert_eq!(intercepted(), [0, 0]);
    });
}

#[test]
fn other_namespaces_are_reported() {
    alone("other_namespaces_are_reported", &[], || {
        let libraries = Libraries::new();
        register();
        let driver = libraries.driver();
        assert_eq!(libraries_elsewhere(), [""; 0]);
        let path = std::ffi::CString::new(driver.as_os_str().as_encoded_bytes()).expect("a path");
        // SAFETY: the library has no constructors.
        let handle = unsafe { libc::dlmopen(libc::LM_ID_NEWLM, path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{}", support::error());
        let elsewhere = libraries_elsewhere();
        // glibc reports this only since version 2.35. SAFETY: the result is a static string.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        let minor = version.to_str().expect("a version").split('.').nth(1);
        if minor.and_then(|minor| minor.parse().ok()) >= Some(35) {
            assert!(
                elsewhere.contains(&driver.display().to_string()),
                "{elsewhere:?}"
            );
        }
        // The library in the other namespace also has a driver of its own.
        assert_ne!(look_up(handle, c"cuInit"), ptr::null());
        assert_eq!(found(0), []);
    });
}

#[test]
fn calls_are_intercepted_under_an_auditor() {
    let libraries = Libraries::new();
    let auditor = libraries.compile("auditor.c", "libauditor.so", &[]);
    let driver = libraries.driver();
    let options = ["-ldriver", "-Wl,-z,lazy"];
    let linked = libraries.compile("linked.c", "liblinked.so", &options);
    let variables: [(&str, &OsStr); 3] = [
        ("LD_AUDIT", auditor.as_os_str()),
        ("DRIVER", driver.as_os_str()),
        ("LINKED", linked.as_os_str()),
    ];
    alone("calls_are_intercepted_under_an_auditor", &variables, || {
        register();
        let driver = Library::open(env::var_os("DRIVER").expect("a path"));
        // SAFETY: the library is open.
        let real = unsafe { gpu_leak_interpose::real_symbol(driver.0, c"cuInit") };
        assert_ne!(driver.find(c"cuInit"), real);
        let linked = Library::open(env::var_os("LINKED").expect("a path"));
        let _ = bindings_past_us(0);
        assert_eq!(linked.call(c"allocates"), 102);
        assert_eq!(linked.call(c"initialises"), 100);
        assert_eq!(intercepted(), [1, 1]);
        let elsewhere = libraries_elsewhere().concat();
        assert!(elsewhere.is_empty() || elsewhere.contains("libauditor.so"));
    });
}

/// Loaders that are written by hand store the addresses of the driver's functions in such
/// variables.
#[test]
fn a_variable_with_the_name_of_a_function_is_left_alone() {
    let test = "a_variable_with_the_name_of_a_function_is_left_alone";
    alone(test, &[], || {
        let libraries = Libraries::new();
        register();
        let path = libraries.compile("variable.c", "libvariable.so", &[]);
        let has_it = Library::open(path);
        let variable = has_it.find(c"cuInit").cast::<table::Init>();
        // SAFETY: the variable with this name has this type.
        assert_eq!(unsafe { (*variable)(0) }, 7);
        let options = ["-DIMPORTS", "-lvariable"];
        let imports_it = Library::open(libraries.compile("variable.c", "libimports.so", &options));
        assert_eq!(found(0), []);
        assert_eq!(imports_it.call(c"initialises"), 7);
        let driver = Library::open(libraries.driver());
        // SAFETY: the function with this name, or its wrapper, has this type.
        let init = unsafe { std::mem::transmute::<*const (), table::Init>(driver.find(c"cuInit")) };
        // SAFETY: the function takes any number.
        assert_eq!(unsafe { init(0) }, 100);
        assert_eq!(intercepted(), [1, 0]);
    });
}
