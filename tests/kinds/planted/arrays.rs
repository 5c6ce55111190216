//! Arrays, and the objects by which kernels read and write them.

use std::mem::MaybeUninit;

use cudarc::driver::sys;

use super::{done, made, zeroed};

fn description(
    width: usize,
    height: usize,
    format: sys::CUarray_format,
    channels: u32,
) -> sys::CUDA_ARRAY_DESCRIPTOR {
    sys::CUDA_ARRAY_DESCRIPTOR {
        Width: width,
        Height: height,
        Format: format,
        NumChannels: channels,
    }
}

/// An array of 1000 elements of one byte.
pub(crate) fn of_1_dimension() -> sys::CUarray {
    let description = description(1000, 0, sys::CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8, 1);
    // SAFETY: the call only reads the description.
    unsafe { made(|out| sys::cuArrayCreate_v2(out, &raw const description)) } // leak: array_1d
}

/// An array of 64 × 32 elements of four floats.
pub(crate) fn of_2_dimensions() -> sys::CUarray {
    let description = description(64, 32, sys::CUarray_format::CU_AD_FORMAT_FLOAT, 4);
    // SAFETY: the call only reads the description.
    unsafe { made(|out| sys::cuArrayCreate_v2(out, &raw const description)) } // leak: array_2d
}

fn floats(width: usize, height: usize, depth: usize, flags: u32) -> sys::CUDA_ARRAY3D_DESCRIPTOR {
    sys::CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: sys::CUarray_format::CU_AD_FORMAT_FLOAT,
        NumChannels: 1,
        Flags: flags,
    }
}

/// An array of 16 × 8 × 4 floats.
pub(crate) fn of_3_dimensions() -> sys::CUarray {
    let description = floats(16, 8, 4, 0);
    // SAFETY: the call only reads the description.
    unsafe { made(|out| sys::cuArray3DCreate_v2(out, &raw const description)) } // leak: array_3d
}

/// An array of 6 layers of 16 × 16 floats.
pub(crate) fn layered() -> sys::CUarray {
    let description = floats(16, 16, 6, sys::CUDA_ARRAY3D_LAYERED);
    // SAFETY: the call only reads the description.
    unsafe { made(|out| sys::cuArray3DCreate_v2(out, &raw const description)) } // leak: array_layered
}

pub(crate) fn destroy(array: sys::CUarray) {
    // SAFETY: the caller created the array and no longer uses it.
    done(unsafe { sys::cuArrayDestroy(array) });
}

/// A mipmapped array of 64 × 64 floats, with three more levels.
pub(crate) fn mipmapped() -> sys::CUmipmappedArray {
    let description = floats(64, 64, 0, 0);
    // SAFETY: the call only reads the description.
    unsafe { made(|out| sys::cuMipmappedArrayCreate(out, &raw const description, 4)) } // leak: array_mipmapped
}

pub(crate) fn destroy_mipmapped(array: sys::CUmipmappedArray) {
    // SAFETY: the caller created the array and no longer uses it.
    done(unsafe { sys::cuMipmappedArrayDestroy(array) });
}

/// An object by which kernels read or write an array, and the array.
pub(crate) type OnArray = (u64, sys::CUarray);

fn resource(array: sys::CUarray) -> sys::CUDA_RESOURCE_DESC {
    // SAFETY: zero is a valid value of every field.
    let mut resource: sys::CUDA_RESOURCE_DESC = unsafe { zeroed() };
    resource.resType = sys::CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    resource
}

pub(crate) fn texture() -> OnArray {
    let array = layerless();
    let resource = resource(array);
    let how = MaybeUninit::<sys::CUDA_TEXTURE_DESC>::zeroed();
    let view = std::ptr::null();
    // SAFETY: the call only reads both descriptions, and the second may be all zeros.
    let texture = unsafe {
        made(|out| sys::cuTexObjectCreate(out, &raw const resource, how.as_ptr(), view)) // leak: texture
    };
    (texture, array)
}

pub(crate) fn destroy_texture((texture, array): OnArray) {
    // SAFETY: the caller created the texture object and no longer uses it.
    done(unsafe { sys::cuTexObjectDestroy(texture) });
    destroy(array);
}

pub(crate) fn surface() -> OnArray {
    let array = layerless();
    let resource = resource(array);
    // SAFETY: the call only reads the description.
    let surface = unsafe { made(|out| sys::cuSurfObjectCreate(out, &raw const resource)) }; // leak: surface
    (surface, array)
}

pub(crate) fn destroy_surface((surface, array): OnArray) {
    // SAFETY: the caller created the surface object and no longer uses it.
    done(unsafe { sys::cuSurfObjectDestroy(surface) });
    destroy(array);
}

/// An array of 16 × 16 floats that kernels may write to.
fn layerless() -> sys::CUarray {
    let description = floats(16, 16, 0, sys::CUDA_ARRAY3D_SURFACE_LDST);
    // SAFETY: the call only reads the description.
    unsafe { made(|out| sys::cuArray3DCreate_v2(out, &raw const description)) }
}

/// Forgets the object and destroys its array, so that only the object is leaked.
pub(crate) fn forget_object((_, array): OnArray) {
    destroy(array);
}

pub(crate) fn texture_reference() -> sys::CUtexref {
    // SAFETY: a context is current.
    unsafe { made(|out| sys::cuTexRefCreate(out)) } // leak: texture_reference
}

pub(crate) fn destroy_texture_reference(reference: sys::CUtexref) {
    // SAFETY: the caller created the texture reference and no longer uses it.
    done(unsafe { sys::cuTexRefDestroy(reference) });
}
