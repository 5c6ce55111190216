//! Queries about pointers, error codes and the addresses of functions.

use std::ffi::{c_char, c_void};

use crate::dispatch::{In, Out, api};
use crate::error::{self, Error};
use crate::memory::Kind;
use crate::state::{Driver, driver};

/// The variants of versioned functions: the plain name, the first CUDA version whose programs get
/// the variant, and its name.
const VARIANTS: &[(&str, i32, &str)] = &[
    ("cuDeviceTotalMem", 3020, "cuDeviceTotalMem_v2"),
    ("cuCtxCreate", 12_050, "cuCtxCreate_v4"),
    ("cuCtxCreate", 11_040, "cuCtxCreate_v3"),
    ("cuCtxCreate", 3020, "cuCtxCreate_v2"),
    ("cuCtxDestroy", 4000, "cuCtxDestroy_v2"),
    ("cuCtxPushCurrent", 4000, "cuCtxPushCurrent_v2"),
    ("cuCtxPopCurrent", 4000, "cuCtxPopCurrent_v2"),
    (
        "cuDevicePrimaryCtxRelease",
        11_000,
        "cuDevicePrimaryCtxRelease_v2",
    ),
    (
        "cuDevicePrimaryCtxReset",
        11_000,
        "cuDevicePrimaryCtxReset_v2",
    ),
    (
        "cuDevicePrimaryCtxSetFlags",
        11_000,
        "cuDevicePrimaryCtxSetFlags_v2",
    ),
    ("cuDeviceGetUuid", 11_040, "cuDeviceGetUuid_v2"),
    ("cuStreamDestroy", 4000, "cuStreamDestroy_v2"),
    ("cuEventDestroy", 4000, "cuEventDestroy_v2"),
    ("cuEventElapsedTime", 12_080, "cuEventElapsedTime_v2"),
    ("cuMemHostRegister", 6050, "cuMemHostRegister_v2"),
    ("cuStreamBeginCapture", 10_010, "cuStreamBeginCapture_v2"),
    (
        "cuStreamGetCaptureInfo",
        12_030,
        "cuStreamGetCaptureInfo_v3",
    ),
    (
        "cuStreamGetCaptureInfo",
        11_030,
        "cuStreamGetCaptureInfo_v2",
    ),
    ("cuGraphExecUpdate", 12_000, "cuGraphExecUpdate_v2"),
    ("cuGraphInstantiate", 12_000, "cuGraphInstantiateWithFlags"),
    ("cuGraphInstantiate", 11_000, "cuGraphInstantiate_v2"),
    ("cuGetProcAddress", 12_000, "cuGetProcAddress_v2"),
    ("cuIpcOpenMemHandle", 11_000, "cuIpcOpenMemHandle_v2"),
    ("cuArrayCreate", 3020, "cuArrayCreate_v2"),
    ("cuArray3DCreate", 3020, "cuArray3DCreate_v2"),
    ("cuMemAlloc", 99_000, "cuMemAlloc_v99"),
    ("cuMemAlloc", 3020, "cuMemAlloc_v2"),
    ("cuMemAllocPitch", 3020, "cuMemAllocPitch_v2"),
    ("cuMemFree", 3020, "cuMemFree_v2"),
    ("cuMemAllocHost", 3020, "cuMemAllocHost_v2"),
    ("cuLinkCreate", 6050, "cuLinkCreate_v2"),
    ("cuLinkAddData", 6050, "cuLinkAddData_v2"),
    ("cuLinkAddFile", 6050, "cuLinkAddFile_v2"),
    ("cuGraphAddNode", 13_040, "cuGraphAddNode_v3"),
    ("cuGraphAddNode", 12_030, "cuGraphAddNode_v2"),
];

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

fn resolve(name: &str, version: i32, flags: u64) -> Option<*const c_void> {
    let exported = |name: &str| {
        crate::entries()
            .find(|entry| entry.name == name)
            .map(|entry| entry.address)
    };
    let versioned = VARIANTS
        .iter()
        .find(|(plain, since, _)| *plain == name && *since <= version);
    let name = match versioned {
        Some((_, _, variant)) => (*variant).to_owned(),
        // Since CUDA 3.2, such a function has a second version, and only its name is exported.
        None if exported(name).is_none() => format!("{name}_v2"),
        None => name.to_owned(),
    };
    let per_thread = ["_ptsz", "_ptds"]
        .iter()
        .find_map(|suffix| exported(&format!("{name}{suffix}")));
    per_thread
        .filter(|_| flags & PER_THREAD != 0)
        .or_else(|| exported(&name))
}

fn pointer_attribute(
    driver: &Driver,
    attribute: u32,
    address: u64,
    value: Out<u8>,
) -> Result<(), Error> {
    let (base, range) = driver.range_of(address).ok_or(Error::INVALID_VALUE)?;
    match attribute {
        1 => value.cast::<u64>().put(range.context),
        // The type of memory: 1 for the host, 2 for a device.
        2 => value
            .cast::<u32>()
            .put(if matches!(range.kind, Kind::Pinned | Kind::Registered) {
                1
            } else {
                2
            }),
        3 => value.cast::<u64>().put(address),
        4 if matches!(range.kind, Kind::Pinned | Kind::Registered | Kind::Managed) => {
            value.cast::<u64>().put(address)
        }
        7 => value.cast::<u64>().put(base),
        8 => value
            .cast::<u32>()
            .put(u32::from(range.kind == Kind::Managed)),
        9 => value.cast::<i32>().put(range.device as i32),
        11 => value.cast::<u64>().put(base),
        12 => value.cast::<usize>().put(range.size as usize),
        13 => value.cast::<u32>().put(1),
        17 if range.kind == Kind::StreamOrdered => value.cast::<u64>().put(range.owner),
        _ => Err(Error::INVALID_VALUE),
    }
}

api! {
    cuPointerGetAttribute fn(value: Out<u8>, attribute: u32, address: u64) {
        pointer_attribute(&*driver()?, attribute, address, value)
    }

    cuPointerGetAttributes fn(count: u32, attributes: In<u32>, values: In<Out<u8>>, address: u64) {
        let driver = driver()?;
        for index in 0..count as usize {
            // The value of an attribute that does not apply stays unchanged.
            let _ = pointer_attribute(&driver, attributes.at(index).get()?, address, values.at(index).get()?);
        }
        Ok(())
    }

    cuGetErrorName fn(code: u32, text: Out<*const c_char>) {
        let known = error::describe(code);
        text.put(known.map_or(std::ptr::null(), |(name, _)| name.as_ptr()))?;
        known.map(drop).ok_or(Error::INVALID_VALUE)
    }

    cuGetErrorString fn(code: u32, text: Out<*const c_char>) {
        let known = error::describe(code);
        text.put(known.map_or(std::ptr::null(), |(_, text)| text.as_ptr()))?;
        known.map(drop).ok_or(Error::INVALID_VALUE)
    }

    cuGetProcAddress fn(name: In<c_char>, function: Out<*const c_void>, version: i32, flags: u64) {
        let found = resolve(&name.text()?, version, flags);
        function.put(found.unwrap_or(std::ptr::null()))?;
        found.map(drop).ok_or(Error::NOT_FOUND)
    }

    cuGetProcAddress_v2 fn(
        name: In<c_char>, function: Out<*const c_void>, version: i32, flags: u64, status: Out<u32>,
    ) {
        let found = resolve(&name.text()?, version, flags);
        status.offer(u32::from(found.is_none()));
        function.put(found.unwrap_or(std::ptr::null()))?;
        found.map(drop).ok_or(Error::NOT_FOUND)
    }

    cuProfilerStart fn() {
        driver()?.current().map(drop)
    }

    cuProfilerStop fn() {
        driver()?.current().map(drop)
    }
}
