//! Arrays and mipmapped arrays, their planes and levels, and memory mapped into sparse arrays.

use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::object::{self, Class, Plan};
use crate::state::driver;

/// `CUDA_ARRAY3D_SPARSE` and `CUDA_ARRAY3D_DEFERRED_MAPPING`: an array without its own memory.
const WITHOUT_MEMORY: u32 = 0x40 | 0x80;
/// `CU_AD_FORMAT_NV12`: a luma plane, and a chroma plane of half the width and height.
const NV12: u32 = 0xb0;

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

/// `CUDA_ARRAY_DESCRIPTOR_v1`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescriptorV1 {
    width: u32,
    height: u32,
    format: u32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor3d {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    channels: u32,
    flags: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR_v1`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor3dV1 {
    width: u32,
    height: u32,
    depth: u32,
    format: u32,
    channels: u32,
    flags: u32,
}

impl From<Descriptor> for Descriptor3d {
    fn from(flat: Descriptor) -> Self {
        let Descriptor {
            width,
            height,
            format,
            channels,
        } = flat;
        Self {
            width,
            height,
            depth: 0,
            format,
            channels,
            flags: 0,
        }
    }
}

impl From<DescriptorV1> for Descriptor3d {
    fn from(narrow: DescriptorV1) -> Self {
        Descriptor {
            width: narrow.width as usize,
            height: narrow.height as usize,
            format: narrow.format,
            channels: narrow.channels,
        }
        .into()
    }
}

impl From<Descriptor3dV1> for Descriptor3d {
    fn from(narrow: Descriptor3dV1) -> Self {
        Self {
            width: narrow.width as usize,
            height: narrow.height as usize,
            depth: narrow.depth as usize,
            format: narrow.format,
            channels: narrow.channels,
            flags: narrow.flags,
        }
    }
}

impl Descriptor3d {
    /// The bytes of one level.
    fn level_size(&self, level: u32) -> Result<u64, Error> {
        if self.width == 0 || !matches!(self.channels, 1..=4) {
            return Err(Error::INVALID_VALUE);
        }
        let at_level = |extent: usize| ((extent as u64) >> level).max(1);
        let [width, height, depth] = [self.width, self.height, self.depth].map(at_level);
        let texels = width * height * depth;
        let channels = u64::from(self.channels);
        match self.format {
            0x01 | 0x08 => Ok(texels * channels),
            0x02 | 0x09 | 0x10 => Ok(texels * channels * 2),
            0x03 | 0x0a | 0x20 => Ok(texels * channels * 4),
            // Normalised integers. The format implies the number of channels.
            0xc0..=0xcb => Ok(texels * [1, 2, 4, 2, 4, 8][(self.format as usize - 0xc0) % 6]),
            // Compressed blocks of 4 × 4 texels. A block has eight bytes in some formats and
            // sixteen in others.
            0x91..=0x9e => {
                let block = if matches!(self.format, 0x91 | 0x92 | 0x97 | 0x98) {
                    8
                } else {
                    16
                };
                Ok(width.div_ceil(4) * height.div_ceil(4) * depth * block)
            }
            NV12 => Ok(texels + texels / 2),
            _ => Err(Error::INVALID_VALUE),
        }
    }

    /// The bytes of an array with this number of levels.
    fn size(&self, levels: u32) -> Result<u64, Error> {
        let full: u64 = (0..levels)
            .map(|level| self.level_size(level))
            .sum::<Result<u64, Error>>()?;
        Ok(if self.flags & WITHOUT_MEMORY == 0 {
            full
        } else {
            0
        })
    }

    /// Returns the plan of a mipmapped array with this descriptor and at most this number of
    /// levels.
    pub(crate) fn mipmapped(&self, levels: u32) -> Result<Plan, Error> {
        let longest = self.width.max(self.height).max(self.depth).max(1);
        let levels = levels.clamp(1, longest.ilog2() + 1);
        Ok(Plan {
            class: Class::MipmappedArray,
            size: self.size(levels)?,
            detail: u64::from(levels),
        })
    }
}

fn create(array: Out<Handle>, descriptor: impl Into<Descriptor3d>) -> Result<(), Error> {
    let descriptor = descriptor.into();
    object::create(
        array,
        Plan {
            class: Class::Array,
            size: descriptor.size(1)?,
            detail: u64::from(descriptor.format),
        },
    )
}

/// `CUarrayMapInfo`, of which only the memory handle is used.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapInfo {
    resource_type: u32,
    resource: Handle,
    subresource_type: u32,
    subresource: [u64; 4],
    operation: u32,
    memory_type: u32,
    memory: Handle,
    offset: u64,
    devices: u32,
    flags: u32,
    reserved: [u32; 2],
}

api! {
    cuArrayCreate fn(array: Out<Handle>, descriptor: In<DescriptorV1>) {
        create(array, descriptor.get()?)
    }

    cuArrayCreate_v2 fn(array: Out<Handle>, descriptor: In<Descriptor>) {
        create(array, descriptor.get()?)
    }

    cuArray3DCreate fn(array: Out<Handle>, descriptor: In<Descriptor3dV1>) {
        create(array, descriptor.get()?)
    }

    cuArray3DCreate_v2 fn(array: Out<Handle>, descriptor: In<Descriptor3d>) {
        create(array, descriptor.get()?)
    }

    cuArrayDestroy fn(array: Handle) {
        driver()?.destroy_object(Class::Array, array)
    }

    cuArrayGetPlane fn(plane: Out<Handle>, array: Handle, index: u32) {
        let mut driver = driver()?;
        if driver.object(Class::Array, array)?.detail != u64::from(NV12) || index > 1 {
            return Err(Error::INVALID_VALUE);
        }
        plane.put(driver.part_of(Class::Array, array, index)?)
    }

    cuMipmappedArrayCreate fn(array: Out<Handle>, descriptor: In<Descriptor3d>, levels: u32) {
        object::create(array, descriptor.get()?.mipmapped(levels)?)
    }

    cuMipmappedArrayGetLevel fn(level_out: Out<Handle>, array: Handle, level: u32) {
        let mut driver = driver()?;
        if u64::from(level) >= driver.object(Class::MipmappedArray, array)?.detail {
            return Err(Error::INVALID_VALUE);
        }
        level_out.put(driver.part_of(Class::MipmappedArray, array, level)?)
    }

    cuMipmappedArrayDestroy fn(array: Handle) {
        driver()?.destroy_object(Class::MipmappedArray, array)
    }

    cuMemMapArrayAsync, cuMemMapArrayAsync_ptsz fn(list: In<MapInfo>, count: u32, stream: Handle) {
        let driver = driver()?;
        driver.context_of_stream(stream)?;
        for index in 0..count as usize {
            let MapInfo { memory, operation, .. } = list.at(index).get()?;
            // 1 maps; 2 unmaps, which needs no handle.
            if operation == 1 {
                driver.physical_of(memory)?;
            }
        }
        Ok(())
    }
}
