//! Registers a handler with Python's `atexit`, with functions of the [stable
//! ABI](https://docs.python.org/3/c-api/stable.html).

#![expect(unsafe_code, reason = "calls Python's C functions")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use crate::symbols::function;

/// `METH_NOARGS`
const NO_ARGUMENTS: c_int = 4;

type Object = *mut c_void;

/// `PyMethodDef`
#[repr(C)]
struct MethodDefinition {
    name: *const c_char,
    method: extern "C" fn(Object, Object) -> Object,
    flags: c_int,
    documentation: *const c_char,
}

// SAFETY: the pointers in the structure refer to constants, which any thread may read.
unsafe impl Sync for MethodDefinition {}

static HANDLER: MethodDefinition = MethodDefinition {
    name: c"gpu_leak_check".as_ptr(),
    method: shuts_down,
    flags: NO_ARGUMENTS,
    documentation: ptr::null(),
};

static THEN: OnceLock<fn()> = OnceLock::new();

pub(crate) fn before(then: fn()) {
    type Add = unsafe extern "C" fn(extern "C" fn(*mut c_void) -> c_int, *mut c_void) -> c_int;

    // An error means that the handler has already been registered.
    if THEN.set(then).is_err() {
        return;
    }
    // SAFETY: the signature is the documented one. The function may be called from any thread, with
    // or without the interpreter's lock, which the driver's caller may have released.
    unsafe {
        if let Some(add) = function::<Add>(c"Py_AddPendingCall") {
            add(register, ptr::null_mut());
        }
    }
}

/// The main thread calls this function, with the interpreter's lock held.
extern "C" fn register(_: *mut c_void) -> c_int {
    // If a function is missing, nothing is registered.
    let _ = try_to_register();
    0
}

fn try_to_register() -> Option<()> {
    type Import = unsafe extern "C" fn(*const c_char) -> Object;
    type NewFunction = unsafe extern "C" fn(*const MethodDefinition, Object, Object) -> Object;
    type CallMethod = unsafe extern "C" fn(Object, *const c_char, *const c_char, ...) -> Object;
    type Release = unsafe extern "C" fn(Object);
    type Clear = unsafe extern "C" fn();

    // SAFETY: the signatures are the documented ones, and this thread holds the interpreter's lock.
    // `Py_DecRef` accepts null. Objects are checked for null before they are passed to other
    // functions. `HANDLER` is static, because the Python function refers to it for as long as that
    // function lives.
    unsafe {
        let import = function::<Import>(c"PyImport_ImportModule")?;
        let new_function = function::<NewFunction>(c"PyCFunction_NewEx")?;
        let call_method = function::<CallMethod>(c"PyObject_CallMethod")?;
        let release = function::<Release>(c"Py_DecRef")?;
        let clear = function::<Clear>(c"PyErr_Clear")?;
        let module = import(c"atexit".as_ptr());
        let handler = new_function(&raw const HANDLER, ptr::null_mut(), ptr::null_mut());
        let mut registered = ptr::null_mut();
        if !module.is_null() && !handler.is_null() {
            registered = call_method(module, c"register".as_ptr(), c"O".as_ptr(), handler);
        }
        if registered.is_null() {
            // The program must not see an error that it did not cause.
            clear();
        }
        for object in [registered, handler, module] {
            release(object);
        }
    }
    Some(())
}

/// The handler. Python calls it with the interpreter's lock held.
extern "C" fn shuts_down(_: Object, _: Object) -> Object {
    // This collects unreachable cycles. Otherwise they would be freed later, as if a variable had
    // referred to them.
    // SAFETY: the signature is the documented one, and this thread holds the interpreter's lock.
    unsafe {
        if let Some(collect) = function::<unsafe extern "C" fn() -> isize>(c"PyGC_Collect") {
            collect();
        }
    }
    if let Some(then) = THEN.get() {
        then();
    }
    none()
}

/// Returns a new reference to `None`.
fn none() -> Object {
    type Build = unsafe extern "C" fn(*const c_char, ...) -> Object;
    // SAFETY: the signature is the documented one, and an empty format makes `None`.
    unsafe {
        match function::<Build>(c"Py_BuildValue") {
            Some(build) => build(c"".as_ptr()),
            // Null makes Python print an error and continue.
            None => ptr::null_mut(),
        }
    }
}
