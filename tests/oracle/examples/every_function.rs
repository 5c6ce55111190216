//! Calls every watched function in each of its variants on this machine's GPU, as `tests/heard` does
//! on the stand-in. With the oracle preloaded, both the harness and CUPTI report each call. Calls
//! that this driver or this device does not support fail, and both report the failure as well.

#![expect(unsafe_code, reason = "calls the driver's functions by name")]
#![expect(clippy::print_stdout, reason = "the program prints its result")]

#[path = "../../heard/calls.rs"]
mod calls;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::mem::transmute;

use calls::{Calls, MISSING, at};

/// The driver as a program sees it, and the number of times that it has returned each error. What
/// the calls do is compared by the oracle.
struct Driver {
    library: *mut c_void,
    errors: RefCell<BTreeMap<(String, u32), u32>>,
}

impl Driver {
    /// Calls a function with numbers and addresses. The function ignores surplus arguments.
    fn try_call(&self, name: &str, arguments: &[u64]) -> u32 {
        type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64) -> u32;
        if arguments.contains(&MISSING) {
            return u32::MAX;
        }
        let symbol = CString::new(name).expect("a name");
        // SAFETY: the library is open, and the name is a C string.
        let function = unsafe { libc::dlsym(self.library, symbol.as_ptr()) };
        let mut all = [0; 8];
        all[..arguments.len()].copy_from_slice(arguments);
        let [a, b, c, d, e, f, g, h] = all;
        let error = if function.is_null() {
            u32::MAX
        } else {
            // SAFETY: every parameter of these functions is passed like a number, and the arguments
            // have the types that each function takes.
            unsafe { transmute::<*mut c_void, Function>(function)(a, b, c, d, e, f, g, h) }
        };
        let key = (name.to_owned(), error);
        *self.errors.borrow_mut().entry(key).or_default() += 1;
        error
    }
}

impl Calls for Driver {
    fn call(&self, name: &str, arguments: &[u64]) {
        self.try_call(name, arguments);
    }

    fn call_uncompared(&self, name: &str, arguments: &[u64]) {
        self.try_call(name, arguments);
    }

    fn make(&self, name: &str, arguments: &[u64]) -> u64 {
        // If the driver's result is shorter than 64 bits, the remaining bits stay 0.
        let answer = Cell::new(0_u64);
        let mut all = vec![at(&answer)];
        all.extend(arguments);
        match self.try_call(name, &all) {
            0 => answer.get(),
            _ => MISSING,
        }
    }

    fn last_device(&self) -> u64 {
        let count = Cell::new(0_u32);
        self.try_call("cuDeviceGetCount", &[at(&count)]);
        u64::from(count.get()).saturating_sub(1)
    }

    fn assert_same(&self, _is: u64, _expected: u64) {}

    fn assert_live(&self, _kind: &str, _count: usize) {}

    fn assert_only(&self, _kind: &str, _bytes: u64, _device: u64) {}
}

fn main() {
    // SAFETY: the driver's constructors may run at any time.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "no driver");
    let driver = Driver {
        library,
        errors: RefCell::default(),
    };
    driver.call("cuInit", &[0]);
    let primary = driver.make("cuDevicePrimaryCtxRetain", &[0]);
    driver.call("cuCtxSetCurrent", &[primary]);
    // The driver refuses a size that no device has, and a second free.
    driver.make("cuMemAlloc_v2", &[1 << 60]);
    let pointer = driver.make("cuMemAlloc_v2", &[64]);
    driver.call("cuMemFree_v2", &[pointer]);
    driver.call("cuMemFree_v2", &[pointer]);
    driver.call("cuDevicePrimaryCtxRelease_v2", &[0]);
    calls::all(&driver);
    for ((name, error), times) in &*driver.errors.borrow() {
        if *error != 0 {
            println!("{name}: error {error}, {times} times");
        }
    }
}
