//! Tests what `dlsym` returns when a table is registered, and that the result for all other names
//! is unchanged.
#![cfg(interpose)]
#![expect(unsafe_code, reason = "calls C functions through looked-up addresses")]

mod support;

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use gpu_leak_interpose::{Reach, Registration, Slot, WatchedFunction};
use support::table::{self, Alloc, GetProcAddress, Init};
use support::{Libraries, Library, alone, look_up};

fn register() {
    assert_eq!(
        gpu_leak_interpose::register(&table::TABLE),
        Reach::EveryLookup
    );
}

fn intercepted(count: &AtomicU32) -> u32 {
    count.load(Ordering::Relaxed)
}

fn init(function: *const ()) -> c_int {
    // SAFETY: this is the address of `cuInit`, or of its wrapper or thunk, which all have this
    // type.
    unsafe { std::mem::transmute::<*const (), Init>(function)(0) }
}

fn allocate(function: *const ()) -> c_int {
    let mut address = 0;
    // SAFETY: this is the address of a variant of `cuMemAlloc`, or of its wrapper or thunk, which
    // all have this type.
    unsafe { std::mem::transmute::<*const (), Alloc>(function)(&raw mut address, 64) }
}

fn missed() -> Vec<(String, u64)> {
    let calls = gpu_leak_interpose::missed_calls().into_iter();
    calls.map(|it| (it.name, it.calls)).collect()
}

#[test]
fn a_look_up_of_a_watched_function_returns_its_wrapper() {
    alone(
        "a_look_up_of_a_watched_function_returns_its_wrapper",
        &[],
        || {
            let libraries = Libraries::new();
            register();
            let driver = Library::open(libraries.driver());
            assert_eq!(allocate(driver.find(c"cuMemAlloc_v2")), 102);
            assert_eq!(allocate(driver.find(c"cuMemAlloc_v2")), 102);
            assert_eq!(allocate(driver.find(c"cuMemAlloc")), 101);
            assert_eq!(init(driver.find(c"cuInit")), 100);
            assert_eq!(driver.call(c"cuKnown"), 105);
            let counts = [&table::ALLOCATIONS, &table::OLD_ALLOCATIONS, &table::INITS];
            assert_eq!(counts.map(intercepted), [2, 1, 1]);
            assert_eq!(intercepted(&table::LOOKUPS), 5);
            // The library stays loaded even if it is closed, because wrappers call it.
            let found = driver.find(c"cuInit");
            // SAFETY: the library was opened above.
            unsafe { libc::dlclose(driver.0) };
            assert_eq!(init(found), 100);
            assert_eq!(missed(), []);
        },
    );
}

#[test]
fn look_ups_by_the_harness_are_not_intercepted() {
    alone("look_ups_by_the_harness_are_not_intercepted", &[], || {
        let libraries = Libraries::new();
        register();
        let driver = Library::open(libraries.driver());
        // SAFETY: the library is open.
        let real = unsafe { gpu_leak_interpose::real_symbol(driver.0, c"cuInit") };
        assert_eq!(init(real), 100);
        assert_ne!(driver.find(c"cuInit"), real);
        assert_eq!(intercepted(&table::INITS), 0);
    });
}

#[test]
fn without_a_driver_there_is_no_function() {
    alone("without_a_driver_there_is_no_function", &[], || {
        register();
        for handle in [libc::RTLD_DEFAULT, libc::RTLD_NEXT] {
            assert_eq!(look_up(handle, c"cuInit"), ptr::null());
            let error = support::error();
            assert!(error.contains("undefined symbol: cuInit"), "{error:?}");
        }
        // SAFETY: a null name stands for the program itself.
        let program = unsafe { libc::dlopen(ptr::null(), libc::RTLD_NOW) };
        assert_eq!(look_up(program, c"cuInit"), ptr::null());
    });
}

#[test]
fn a_look_up_of_the_next_definition_finds_it() {
    alone("a_look_up_of_the_next_definition_finds_it", &[], || {
        let libraries = Libraries::new();
        libraries.compile(
            "second.c",
            "libsecond.so",
            &["-DVERSIONS", "-Wl,--version-script=versions.map"],
        );
        libraries.driver();
        let linked = ["-Wl,--no-as-needed", "-lsecond", "-ldriver"];
        let first = Library::open(libraries.compile("first.c", "libfirst.so", &linked));
        let answers =
            || [c"by_default", c"next", c"next_of_a_watched_name"].map(|name| first.call(name));
        let before = answers();
        register();
        assert_eq!(answers(), before);
        assert_eq!(before, [1, 2, 100]);
        assert_eq!(intercepted(&table::INITS), 0);
        // The default one of two versions is found by its name, and the other by its version.
        assert_eq!(first.call(c"versioned"), 20);
        // SAFETY: the library is open, and both names are C strings.
        let old = unsafe { libc::dlvsym(first.0, c"versioned".as_ptr(), c"OLD".as_ptr()) };
        assert!(!old.is_null());
        assert_ne!(old.cast_const().cast(), first.find(c"versioned"));
    });
}

#[test]
fn a_library_finds_what_was_loaded_with_it() {
    alone("a_library_finds_what_was_loaded_with_it", &[], || {
        let libraries = Libraries::new();
        register();
        libraries.driver();
        let linked = Library::open(libraries.compile("linked.c", "liblinked.so", &["-ldriver"]));
        assert_eq!(look_up(libc::RTLD_DEFAULT, c"cuInit"), ptr::null());
        assert_eq!(init(linked.asks(c"finds", c"cuInit")), 100);
        assert_eq!(intercepted(&table::INITS), 1);
        assert_eq!(linked.asks(c"finds", c"cuNothing"), ptr::null());
    });
}

#[test]
fn calls_to_a_variant_that_is_in_no_table_are_counted() {
    alone(
        "calls_to_a_variant_that_is_in_no_table_are_counted",
        &[],
        || {
            let libraries = Libraries::new();
            register();
            let driver = Library::open(libraries.driver());
            let found = driver.find(c"cuMemAlloc_v9");
            assert_eq!(missed(), []);
            for _ in 0..3 {
                assert_eq!(allocate(found), 109);
            }
            assert_eq!(driver.find(c"cuMemAlloc_v9"), found);
            assert_eq!(missed(), [("cuMemAlloc_v9".to_owned(), 3)]);
            // A name that merely begins like a name in the table is not one of its variants.
            // SAFETY: the library is open.
            let real = unsafe { gpu_leak_interpose::real_symbol(driver.0, c"cuDeviceGetCount") };
            assert_eq!(driver.find(c"cuDeviceGetCount"), real);
        },
    );
}

#[test]
fn a_thunk_passes_on_all_arguments() {
    alone("a_thunk_passes_on_all_arguments", &[], || {
        let libraries = Libraries::new();
        register();
        let driver = Library::open(libraries.driver());
        let function = driver.find(c"cuManyArguments_v9");
        let squares: i32 = (1..=28).map(|at| at * at).sum();
        assert_eq!(support::many_arguments(function), f64::from(squares));
        assert_eq!(missed(), [("cuManyArguments_v9".to_owned(), 1)]);
    });
}

#[test]
fn calls_to_a_second_driver_are_counted() {
    alone("calls_to_a_second_driver_are_counted", &[], || {
        let libraries = Libraries::new();
        register();
        let first = Library::open(libraries.driver());
        let second = libraries.compile("driver.c", "libother.so", &["-DNUMBER=2"]);
        let second = Library::open(second);
        assert_eq!(allocate(first.find(c"cuMemAlloc_v2")), 102);
        assert_eq!(allocate(second.find(c"cuMemAlloc_v2")), 202);
        assert_eq!(allocate(first.find(c"cuMemAlloc_v2")), 102);
        assert_eq!(intercepted(&table::ALLOCATIONS), 2);
        assert_eq!(missed(), [("cuMemAlloc_v2".to_owned(), 1)]);
        assert_eq!(init(second.find(c"cuInit")), 200, "its slot was empty");
        assert_eq!(intercepted(&table::INITS), 1);
    });
}

fn proc_address(function: *const (), name: &CStr, version: c_int) -> *const () {
    let mut found = ptr::null();
    // SAFETY: this is the address of `cuGetProcAddress`, or of its wrapper, which both have this
    // type.
    let result = unsafe {
        let function = std::mem::transmute::<*const (), GetProcAddress>(function);
        function(name.as_ptr(), &raw mut found, version, 0)
    };
    assert_eq!(result, 0);
    found
}

#[test]
fn an_address_is_replaced_by_the_wrapper_of_its_variant() {
    let test = "an_address_is_replaced_by_the_wrapper_of_its_variant";
    alone(test, &[], || {
        let libraries = Libraries::new();
        register();
        let driver = Library::open(libraries.driver());
        let get = driver.find(c"cuGetProcAddress");
        assert_eq!(proc_address(get, c"cuGetProcAddress", 11000), get);
        assert_eq!(allocate(proc_address(get, c"cuMemAlloc", 3020)), 102);
        assert_eq!(allocate(proc_address(get, c"cuMemAlloc", 2000)), 101);
        let counts = [&table::ALLOCATIONS, &table::OLD_ALLOCATIONS];
        assert_eq!(counts.map(intercepted), [1, 1]);
        assert_eq!(missed(), []);
        // This function is exported under a name that is not in a table.
        assert_eq!(allocate(proc_address(get, c"cuMemAlloc", 9000)), 109);
        assert_eq!(missed(), [("cuMemAlloc_v9".to_owned(), 1)]);
        // SAFETY: the library is open.
        let real = unsafe { gpu_leak_interpose::real_symbol(driver.0, c"cuDeviceGetCount") };
        assert_eq!(proc_address(get, c"cuDeviceGetCount", 3020), real);
        assert_eq!(support::error(), "");
    });
}

#[test]
fn an_unexported_variant_is_the_one_that_the_harness_names() {
    let test = "an_unexported_variant_is_the_one_that_the_harness_names";
    alone(test, &[], || {
        let libraries = Libraries::new();
        register();
        let driver = Library::open(libraries.driver());
        let get = driver.find(c"cuGetProcAddress");
        assert_eq!(allocate(proc_address(get, c"cuMemAlloc", 5000)), 103);
        assert_eq!(intercepted(&table::ALLOCATIONS), 1);
        // That wrapper now calls this function and no other.
        assert_eq!(allocate(driver.find(c"cuMemAlloc_v2")), 102);
        assert_eq!(intercepted(&table::ALLOCATIONS), 1);
        assert_eq!(missed(), [("cuMemAlloc_v2".to_owned(), 1)]);
    });
}

#[test]
fn calls_in_constructors_destructors_and_children_are_intercepted() {
    let libraries = Libraries::new();
    let driver = libraries.driver();
    let looks_up = libraries.compile("looks_up.c", "liblooks_up.so", &[]);
    let variables = [
        ("DRIVER", driver.as_os_str()),
        ("LOOKS_UP", looks_up.as_os_str()),
    ];
    let test = "calls_in_constructors_destructors_and_children_are_intercepted";
    alone(test, &variables, || {
        register();
        let library = Library::open(std::env::var_os("LOOKS_UP").expect("a path"));
        assert_eq!(intercepted(&table::ALLOCATIONS), 1, "by its constructor");
        // SAFETY: the child only calls the library and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let result = library.call(c"allocates");
            let intercepted = intercepted(&table::ALLOCATIONS);
            // SAFETY: the call ends the child without running destructors.
            unsafe { libc::_exit(i32::from(result != 102 || intercepted != 2)) };
        }
        let mut status = -1;
        // SAFETY: `child` is a child of this process, and `status` is writable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        // SAFETY: the library was opened above.
        unsafe { libc::dlclose(library.0) };
        assert_eq!(intercepted(&table::ALLOCATIONS), 2, "by its destructor");
    });
}

#[test]
fn a_later_table_intercepts_calls_through_earlier_pointers() {
    static LATER: AtomicU32 = AtomicU32::new(0);
    static SLOT: Slot = Slot::empty();
    unsafe extern "C" fn alloc(address: *mut u64, bytes: u64) -> c_int {
        LATER.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the slot holds the driver's function with this name, which has this type.
        unsafe { std::mem::transmute::<*const (), Alloc>(SLOT.real())(address, bytes) }
    }
    static FUNCTIONS: [WatchedFunction; 1] = [WatchedFunction::new(
        c"cuMemAlloc_v2",
        alloc as *const (),
        &SLOT,
    )];
    static TABLE: Registration = Registration::new(&FUNCTIONS, None);

    alone(
        "a_later_table_intercepts_calls_through_earlier_pointers",
        &[],
        || {
            let libraries = Libraries::new();
            register();
            let driver = Library::open(libraries.driver());
            let before = driver.find(c"cuMemAlloc_v2");
            assert_eq!(allocate(before), 102);
            assert_eq!(gpu_leak_interpose::register(&TABLE), Reach::EveryLookup);
            assert_eq!(allocate(before), 102);
            assert_eq!(driver.find(c"cuMemAlloc_v2"), before);
            assert_eq!(allocate(before), 102);
            assert_eq!([&table::ALLOCATIONS, &LATER].map(intercepted), [3, 2]);
            assert_eq!(missed(), []);
        },
    );
}

#[test]
fn a_library_that_interposes_malloc_finds_the_next_one() {
    let libraries = Libraries::new();
    let library = libraries.compile("counts_malloc.c", "libcounts_malloc.so", &[]);
    let variables = [("LD_PRELOAD", library.as_os_str())];
    alone(
        "a_library_that_interposes_malloc_finds_the_next_one",
        &variables,
        || {
            register();
            let count = look_up(libc::RTLD_DEFAULT, c"allocations");
            assert_ne!(count, ptr::null());
            // SAFETY: the function with this name has this type.
            let count = unsafe { std::mem::transmute::<*const (), extern "C" fn() -> u64>(count) };
            let before = count();
            let text = std::hint::black_box(String::from("allocated"));
            assert_eq!(count() - before, 1, "{text}");
        },
    );
}
