//! Arrays, texture and surface objects, link states, and imports from other APIs.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use std::mem::zeroed;
use std::ptr;

use cudarc::driver::sys::{self, CUarray_format, CUresult};
use gpu_leak_tests::fake::{Control, Fake};

use super::calls::{MIB, answer, context, free_bytes, ok, refusal};

const MISSING: CUresult = CUresult::CUDA_ERROR_INVALID_HANDLE;

fn descriptor(format: CUarray_format, flags: u32) -> sys::CUDA_ARRAY3D_DESCRIPTOR {
    sys::CUDA_ARRAY3D_DESCRIPTOR {
        Width: 64,
        Height: 32,
        Depth: 0,
        Format: format,
        NumChannels: 1,
        Flags: flags,
    }
}

fn array(format: CUarray_format, flags: u32) -> sys::CUarray {
    let descriptor = descriptor(format, flags);
    // SAFETY: the out pointer and the descriptor are valid.
    answer(|out| unsafe { sys::cuArray3DCreate_v2(out, &raw const descriptor) })
}

fn destroy(array: sys::CUarray) -> CUresult {
    // SAFETY: the driver checks the handle.
    unsafe { sys::cuArrayDestroy(array) }
}

#[test]
fn an_array_holds_what_its_descriptor_says() {
    Fake::new().here(|control| {
        context();
        let before = free_bytes();
        let flat = sys::CUDA_ARRAY_DESCRIPTOR {
            Width: 1000,
            Height: 3,
            Format: CUarray_format::CU_AD_FORMAT_FLOAT,
            NumChannels: 4,
        };
        // SAFETY: the out pointer and the descriptor are valid.
        let first = answer(|out| unsafe { sys::cuArrayCreate_v2(out, &raw const flat) });
        assert_eq!(control.live("array"), (1, 48_000));
        assert_eq!(before - free_bytes(), 2 * MIB);
        let compressed = array(CUarray_format::CU_AD_FORMAT_BC1_UNORM, 0);
        assert_eq!(control.live("array"), (2, 48_000 + 16 * 8 * 8));
        for array in [first, compressed] {
            ok(destroy(array));
            assert_eq!(destroy(array), MISSING);
        }
        assert_eq!(control.live("array"), (0, 0));
    });
}

#[test]
fn a_sparse_or_deferred_array_holds_nothing() {
    Fake::new().here(|control| {
        context();
        let before = free_bytes();
        for flags in [0x40, 0x80] {
            let array = array(CUarray_format::CU_AD_FORMAT_FLOAT, flags);
            assert_eq!(control.live("array"), (1, 0));
            ok(destroy(array));
        }
        assert_eq!(before, free_bytes());
    });
}

#[test]
fn planes_and_levels_belong_to_their_array() {
    Fake::new().here(|control| {
        context();
        let nv12 = array(CUarray_format::CU_AD_FORMAT_NV12, 0);
        assert_eq!(control.live("array"), (1, 64 * 32 * 3 / 2));
        let descriptor = descriptor(CUarray_format::CU_AD_FORMAT_FLOAT, 0);
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let plane = answer(|out| sys::cuArrayGetPlane(out, nv12, 1));
            assert_eq!(plane, answer(|out| sys::cuArrayGetPlane(out, nv12, 1)));
            assert_eq!(destroy(plane), MISSING);
            let mips = answer(|out| sys::cuMipmappedArrayCreate(out, &raw const descriptor, 3));
            let level_bytes = |level: u32| u64::from((64 >> level) * (32 >> level) * 4_u32);
            let bytes = (0..3).map(level_bytes).sum();
            assert_eq!(control.live("mipmapped-array"), (1, bytes));
            let level = answer(|out| sys::cuMipmappedArrayGetLevel(out, mips, 2));
            assert_eq!(destroy(level), MISSING);
            assert_eq!(
                refusal(|out| sys::cuMipmappedArrayGetLevel(out, mips, 3)),
                CUresult::CUDA_ERROR_INVALID_VALUE
            );
            assert_eq!(control.live("array-part").0, 2);
            ok(sys::cuMipmappedArrayDestroy(mips));
        }
        ok(destroy(nv12));
        assert_eq!(control.live("array-part").0, 0);
    });
}

/// Creates one object of each kind that ends with its context.
fn make_one_of_each() {
    array(CUarray_format::CU_AD_FORMAT_FLOAT, 0);
    texture();
    surface();
    link();
    // SAFETY: the out pointers are valid and the handles are live, here and below; zero is a valid
    // value of an unused handle.
    unsafe {
        let mips = descriptor(CUarray_format::CU_AD_FORMAT_FLOAT, 0);
        let _: sys::CUmipmappedArray =
            answer(|out| sys::cuMipmappedArrayCreate(out, &raw const mips, 1));
        let _: sys::CUtexref = answer(|out| sys::cuTexRefCreate(out));
        let memory = import(4096);
        buffer(memory, 0, 4096).expect("within the import");
        let semaphore = sys::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC {
            type_: sys::CUexternalSemaphoreHandleType::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD,
            handle: zeroed(),
            flags: 0,
            reserved: [0; 16],
        };
        let _: sys::CUexternalSemaphore =
            answer(|out| sys::cuImportExternalSemaphore(out, &raw const semaphore));
    }
}

fn texture() -> u64 {
    // SAFETY: the out pointer is valid, and the stand-in reads no description.
    answer(|out| unsafe { sys::cuTexObjectCreate(out, ptr::null(), ptr::null(), ptr::null()) })
}

fn surface() -> u64 {
    // SAFETY: the out pointer is valid, and the stand-in reads no description.
    answer(|out| unsafe { sys::cuSurfObjectCreate(out, ptr::null()) })
}

fn link() -> sys::CUlinkState {
    // SAFETY: the out pointer is valid, and there are no options.
    answer(|out| unsafe { sys::cuLinkCreate_v2(0, ptr::null_mut(), ptr::null_mut(), out) })
}

/// The classes of objects that end with their context.
const CLASSES: usize = 9;

fn live(control: &Control) -> [u64; CLASSES] {
    [
        "array",
        "mipmapped-array",
        "texture",
        "surface",
        "texture-reference",
        "link",
        "external-memory",
        "external-semaphore",
        "external-buffer",
    ]
    .map(|kind| control.live(kind).0)
}

/// The ways in which a context can end.
#[derive(Clone, Copy, Debug)]
enum End {
    Destroy,
    Release,
    Reset,
}

#[test]
fn a_context_takes_its_objects_with_it_however_it_ends() {
    Fake::new().here(|control| {
        context();
        let before = free_bytes();
        // SAFETY: the device exists.
        ok(unsafe { sys::cuDevicePrimaryCtxRelease_v2(0) });
        for end in [End::Destroy, End::Release, End::Reset] {
            // SAFETY: the out pointers are valid and the handles are live, here and below.
            unsafe {
                let context = match end {
                    End::Destroy => answer(|out| sys::cuCtxCreate_v4(out, ptr::null_mut(), 0, 0)),
                    End::Release | End::Reset => context(),
                };
                make_one_of_each();
                assert_eq!(live(control), [1; CLASSES], "{end:?}");
                ok(match end {
                    End::Destroy => sys::cuCtxDestroy_v2(context),
                    End::Release => sys::cuDevicePrimaryCtxRelease_v2(0),
                    End::Reset => sys::cuDevicePrimaryCtxReset_v2(0),
                });
            }
            assert_eq!(live(control), [0; CLASSES], "{end:?}");
        }
        context();
        assert_eq!(before, free_bytes());
    });
}

#[test]
fn each_context_numbers_its_textures_and_its_surfaces() {
    Fake::new().here(|control| {
        context();
        // SAFETY: the out pointers are valid, and the driver checks the handles, here and below.
        let other = answer(|out| unsafe { sys::cuCtxCreate_v4(out, ptr::null_mut(), 0, 0) });
        assert_eq!((texture(), surface()), (1, 1));
        context();
        let (texture, surface) = (texture(), surface());
        assert_eq!((texture, surface), (1, 1));
        assert_eq!(control.live("texture").0, 2);
        // SAFETY: the out pointers are valid, and the driver checks the handles, here and below.
        unsafe {
            ok(sys::cuCtxDestroy_v2(other));
            ok(sys::cuTexObjectDestroy(texture));
            assert_eq!(sys::cuTexObjectDestroy(texture), MISSING);
            assert_eq!(control.live("surface").0, 1);
            ok(sys::cuSurfObjectDestroy(surface));
            let reference = answer(|out| sys::cuTexRefCreate(out));
            ok(sys::cuTexRefDestroy(reference));
        }
        assert_eq!(control.live("texture-reference").0, 0);
    });
}

#[test]
fn a_link_state_owns_its_program_until_it_is_destroyed() {
    Fake::new().here(|control| {
        context();
        let state = link();
        let (mut program, mut size) = (ptr::null_mut(), 0);
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let image = c"image".as_ptr().cast_mut().cast();
            let kind = sys::CUjitInputType::CU_JIT_INPUT_PTX;
            let (none, values) = (ptr::null_mut(), ptr::null_mut());
            ok(sys::cuLinkAddData_v2(
                state,
                kind,
                image,
                5,
                ptr::null(),
                0,
                none,
                values,
            ));
            ok(sys::cuLinkComplete(state, &raw mut program, &raw mut size));
            assert!(!program.is_null() && size > 0);
            ok(sys::cuLinkDestroy(state));
            assert_eq!(sys::cuLinkDestroy(state), MISSING);
        }
        assert_eq!(control.live("link").0, 0);
    });
}

fn import(size: u64) -> sys::CUexternalMemory {
    // SAFETY: zero is a valid value of an unused handle, and the out pointer is valid.
    unsafe {
        let handle = sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
            type_: sys::CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
            handle: zeroed(),
            size,
            flags: 0,
            reserved: [0; 16],
        };
        answer(|out| sys::cuImportExternalMemory(out, &raw const handle))
    }
}

fn buffer(memory: sys::CUexternalMemory, offset: u64, size: u64) -> Result<u64, CUresult> {
    let mut address = 0;
    // SAFETY: zero is a valid value of every field, and the out pointer is valid.
    let code = unsafe {
        let mut buffer: sys::CUDA_EXTERNAL_MEMORY_BUFFER_DESC = zeroed();
        (buffer.offset, buffer.size) = (offset, size);
        sys::cuExternalMemoryGetMappedBuffer(&raw mut address, memory, &raw const buffer)
    };
    if code == CUresult::CUDA_SUCCESS {
        Ok(address)
    } else {
        Err(code)
    }
}

#[test]
fn a_mapping_of_an_import_outlives_it() {
    Fake::new().here(|control| {
        context();
        let before = free_bytes();
        let memory = import(8192);
        assert_eq!(
            buffer(memory, 8192, 1),
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        );
        let address = buffer(memory, 4096, 4096).expect("within the import");
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let description = sys::CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC {
                offset: 0,
                arrayDesc: descriptor(CUarray_format::CU_AD_FORMAT_FLOAT, 0),
                numLevels: 1,
                reserved: [0; 16],
            };
            let mips = answer(|out| {
                sys::cuExternalMemoryGetMappedMipmappedArray(out, memory, &raw const description)
            });
            ok(sys::cuDestroyExternalMemory(memory));
            assert_eq!(control.live("external-memory").0, 0);
            assert_eq!(control.live("external-buffer"), (1, 4096));
            assert_eq!(control.live("mipmapped-array"), (1, 0));
            assert_eq!(before, free_bytes(), "the memory is another API's");
            ok(sys::cuMemFree_v2(address));
            ok(sys::cuMipmappedArrayDestroy(mips));
        }
        assert_eq!(live(control), [0; CLASSES]);
    });
}
