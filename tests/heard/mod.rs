//! Every watched function is intercepted in each of its variants, however it is looked up. After
//! each call, the ledger contains exactly what is live in the stand-in for the driver.

#![expect(unsafe_code, reason = "calls the driver's functions by name")]

mod calls;
mod lenient;
mod lists;
mod random;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{CString, c_void};
use std::mem::transmute;

use cudarc::driver::sys;
use gpu_leak_check::ledger::{self, Kind, Place};
use gpu_leak_tests::fake::{Control, Fake};

use calls::Calls;

/// The table of watched functions, which contains the names of all variants.
const TABLE: &str = include_str!("../../harness/src/api/cuda/functions/table.rs");

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`
const PER_THREAD: u64 = 2;

/// The names of kinds in the stand-in, where they are not the name in the ledger with hyphens. They
/// are those in `live_of` of `tests/fake-driver/cuda/src/control.rs`, and the names of `Class` in
/// `object.rs` and of `Kind` in `memory.rs`.
const NAMES: &[(Kind, &[&str])] = &[
    (Kind::Graph, &["graph-memory"]),
    (Kind::Imported, &["ipc", "pool-import", "external-buffer"]),
    (Kind::Array, &["array", "mipmapped-array"]),
    (Kind::GraphHandle, &["graph"]),
    (Kind::ExecGraph, &["exec"]),
    (Kind::Texture, &["texture", "texture-reference"]),
    (Kind::LinkState, &["link"]),
    (Kind::Multicast, &["multicast"]),
];

/// The kinds of CUDA whose counts are compared after every call. `calls` asserts the counts of the
/// others where it creates such resources:
///
/// - the stand-in also counts primary contexts, which have no record;
/// - the stand-in counts imported physical memory as its exporter's.
fn compared() -> impl Iterator<Item = Kind> {
    let is_compared = |kind: &Kind| !matches!(kind, Kind::Context | Kind::Imported);
    let of_cuda = Kind::ALL.into_iter().filter(|kind| kind.is_of_cuda());
    of_cuda.filter(is_compared)
}

/// Returns the names in the table, each with the first CUDA version whose programs get it.
fn variants() -> Vec<(&'static str, i32)> {
    // A row begins with its names: `    cuMemFree[2000] | cuMemFree_v2[3020] =`.
    let rows = TABLE.lines().filter(|line| line.starts_with("    cu"));
    let names = rows.flat_map(|row| row.trim().split(" | "));
    let parts = names.filter_map(|name| name.split_once('['));
    let variant = |(name, rest): (&'static str, &'static str)| {
        let (since, _) = rest.split_once(']').expect("the end of a version");
        (name, since.parse().expect("a version"))
    };
    parts.map(variant).collect()
}

/// Returns the name without its variant suffix, and whether stream 0 stands for the thread's
/// default stream.
fn base(name: &str) -> (&str, bool) {
    let (name, per_thread) = match name.strip_suffix("_ptsz") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let base = name
        .rsplit_once("_v")
        .filter(|(_, version)| version.parse::<u32>().is_ok());
    (base.map_or(name, |(base, _)| base), per_thread)
}

/// The driver as a program sees it, and the functions that have been called.
struct Driver<'a> {
    library: *mut c_void,
    /// `None` if the driver may be a real one.
    control: Option<&'a Control>,
    called: RefCell<BTreeSet<String>>,
}

impl Driver<'_> {
    fn find(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).expect("a name");
        // SAFETY: the library is open, and the name is a C string.
        unsafe { libc::dlsym(self.library, name.as_ptr()) }
    }

    /// Looks up a function as a program built for CUDA `version` does.
    fn ask(&self, name: &str, version: i32, flags: u64) -> *mut c_void {
        let (name, mut found) = (CString::new(name).expect("a name"), std::ptr::null_mut());
        let status = std::ptr::null_mut();
        // SAFETY: the out pointer is valid, and the name is a C string.
        let answer = unsafe {
            sys::cuGetProcAddress_v2(name.as_ptr(), &raw mut found, version, flags, status)
        };
        answer.result().expect("a function");
        found
    }

    /// Calls a function with numbers and addresses. The function ignores surplus arguments.
    fn try_call(&self, name: &str, arguments: &[u64]) -> u32 {
        type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64) -> u32;
        let mut all = [0; 8];
        all[..arguments.len()].copy_from_slice(arguments);
        let [a, b, c, d, e, f, g, h] = all;
        let function = self.find(name);
        assert!(!function.is_null(), "{name}");
        self.called.borrow_mut().insert(name.to_owned());
        // SAFETY: every parameter of these functions is passed like a number, and the arguments in
        // `calls` have the types that each function takes.
        unsafe { transmute::<*mut c_void, Function>(function)(a, b, c, d, e, f, g, h) }
    }

    /// Fails unless the ledger contains exactly what the driver has.
    #[track_caller]
    fn assert_agreed(&self, name: &str) {
        assert_eq!(self.difference(compared()), None, "after {name}");
    }

    /// Returns how the numbers and bytes of these kinds differ between the ledger and the driver.
    fn difference(&self, kinds: impl IntoIterator<Item = Kind>) -> Option<String> {
        let records = ledger::live().select(|_| true);
        let control = self.control.expect("the stand-in");
        kinds.into_iter().find_map(|kind| {
            let of_kind = records.iter().filter(|record| record.made.kind == kind);
            let heard = total(of_kind.map(|record| (1, record.made.bytes)));
            let live = match NAMES.iter().find(|(named, _)| *named == kind) {
                Some((_, names)) => total(names.iter().map(|name| control.live(name))),
                None => control.live(&kind.name().replace(' ', "-")),
            };
            let has_bytes = !kind.is_handle() && !matches!(kind, Kind::Array | Kind::Imported);
            let differ = heard.0 != live.0 || has_bytes && heard.1 != live.1;
            differ.then(|| format!("{kind:?} (count, bytes): {heard:?}, not {live:?}"))
        })
    }
}

impl Calls for Driver<'_> {
    #[track_caller]
    fn call(&self, name: &str, arguments: &[u64]) {
        self.call_uncompared(name, arguments);
        self.assert_agreed(name);
    }

    #[track_caller]
    fn call_uncompared(&self, name: &str, arguments: &[u64]) {
        assert_eq!(self.try_call(name, arguments), 0, "{name}");
    }

    #[track_caller]
    fn make(&self, name: &str, arguments: &[u64]) -> u64 {
        let mut answer = 0_u64;
        let mut all = vec![(&raw mut answer).expose_provenance() as u64];
        all.extend(arguments);
        self.call(name, &all);
        assert_ne!(answer, 0, "{name}");
        answer
    }

    fn last_device(&self) -> u64 {
        1
    }

    #[track_caller]
    fn assert_same(&self, is: u64, expected: u64) {
        assert_eq!(is, expected);
    }

    #[track_caller]
    fn assert_live(&self, kind: &str, count: usize) {
        let live = ledger::live().select(|record| record.made.kind.name() == kind);
        assert_eq!(live.len(), count, "{kind}");
    }

    #[track_caller]
    fn assert_only(&self, kind: &str, bytes: u64, device: u64) {
        let live = ledger::live().select(|record| record.made.kind.name() == kind);
        let live = live.iter().map(|it| (it.made.bytes, it.made.place));
        let live: Vec<_> = live.collect();
        assert_eq!(live, [(bytes, Place::cuda(device as usize))], "{kind}");
    }
}

fn total(amounts: impl Iterator<Item = (u64, u64)>) -> (u64, u64) {
    amounts.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
}

/// Returns a body for [`Fake::here`], which passes the driver to `body`.
fn with_driver(fake: &Fake, body: fn(&Driver<'_>)) -> impl FnOnce(&Control) {
    let _ = fake;
    move |control| {
        // SAFETY: the stand-in has no constructors.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        body(&Driver {
            library,
            control: Some(control),
            called: RefCell::default(),
        });
    }
}

#[test]
fn every_variant_is_a_wrapper_whichever_way_it_is_looked_up() {
    let fake = Fake::new();
    let body = with_driver(&fake, |driver| {
        let variants = variants();
        assert!(variants.len() > 120, "the table has moved");
        for (name, since) in variants {
            // No version of the headers declares this variant.
            if name == "cuMemHostAlloc_v2" {
                continue;
            }
            let (base, per_thread) = base(name);
            let wrapper = driver.find(name);
            let asked = driver.ask(base, since, u64::from(per_thread) * PER_THREAD);
            assert_eq!(
                asked, wrapper,
                "a program for CUDA {since} that asks for {base} must get {name}, and the stand-in \
                 has another answer in `VARIANTS` of tests/fake-driver/cuda/src/query.rs"
            );
            let mut info: libc::Dl_info = unsafe_zeroed();
            // SAFETY: the address is only compared with those of libraries, and the result is a
            // local variable.
            assert_ne!(unsafe { libc::dladdr(wrapper, &raw mut info) }, 0, "{name}");
            // SAFETY: `dladdr` has written the name of the file that contains the function.
            let own = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
            assert!(!own.to_string_lossy().contains("libcuda.so"), "{name}");
        }
    });
    fake.here(|control| body(control));
}

fn unsafe_zeroed() -> libc::Dl_info {
    // SAFETY: every field is a number, or a pointer that may be null.
    unsafe { std::mem::zeroed() }
}

#[test]
fn every_variant_is_heard_and_the_ledger_has_what_the_driver_has() {
    let fake = Fake::new().devices(2);
    let body = with_driver(&fake, |driver| {
        calls::all(driver);
        lenient::all(driver);
        let called = driver.called.borrow();
        let variants = variants();
        let left: Vec<_> = variants
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| !called.contains(*name))
            .collect();
        assert_eq!(
            left, [""; 0],
            "tests/heard/calls.rs and lenient.rs call none of these"
        );
        assert_eq!(ledger::live().unknown_frees(), 0);
    });
    fake.here(|control| body(control));
}
