//! How many bytes a CUDA array holds, by its descriptor.
//!
//! What the program asked for, as `cuMemAlloc` counts it: the driver's padding is not in it.

use super::foreign::{
    ArrayDescriptor, ArrayDescriptor3D, Describes, ExternalBuffer, ExternalMipmapped,
};

mod format;

use format::Block;

/// `CUDA_ARRAY3D_LAYERED`: the depth counts layers.
const LAYERED: u32 = 0x01;
/// `CUDA_ARRAY3D_CUBEMAP`: the depth counts faces.
const CUBEMAP: u32 = 0x04;
/// `CUDA_ARRAY3D_SPARSE`, `CUDA_ARRAY3D_DEFERRED_MAPPING`: the program maps memory to it later, and
/// that memory is a resource of its own.
const WITHOUT_MEMORY: u32 = 0x40 | 0x80;

/// An array. Of its extents, in elements, those that it does not have are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Array {
    pub(super) width: u64,
    pub(super) height: u64,
    pub(super) depth: u64,
    /// `CUarray_format`
    pub(super) format: u32,
    pub(super) channels: u32,
    pub(super) flags: u32,
}

impl Array {
    /// Its bytes, so often at half the extents each time; 0 where the format is unknown.
    pub(super) fn bytes(&self, levels: u32) -> u64 {
        if self.flags & WITHOUT_MEMORY != 0 {
            return 0;
        }
        let Some(block) = format::block(self.format, self.channels) else {
            return 0;
        };
        let levels = levels.clamp(1, self.most_levels());
        let bytes = (0..levels).map(|level| self.level_bytes(level, block));
        bytes.fold(0, u64::saturating_add)
    }

    /// From the whole array down to one element.
    fn most_levels(&self) -> u32 {
        let depth = if self.has_layers() { 0 } else { self.depth };
        let longest = self.width.max(self.height).max(depth);
        1 + longest.checked_ilog2().unwrap_or(0)
    }

    /// Layers and faces are as many in each level.
    fn has_layers(&self) -> bool {
        self.flags & (LAYERED | CUBEMAP) != 0
    }

    fn level_bytes(&self, level: u32, block: Block) -> u64 {
        let halved = |extent: u64| (extent >> level).max(1);
        let across = halved(self.width).div_ceil(block.width);
        let down = halved(self.height).div_ceil(block.height);
        let deep = if self.has_layers() {
            self.depth
        } else {
            halved(self.depth)
        };
        [across, down, deep]
            .into_iter()
            .fold(block.bytes, u64::saturating_mul)
    }
}

impl<Size: Copy + Into<u64>> Describes for ArrayDescriptor<Size> {
    fn bytes(self, levels: u32) -> u64 {
        let array = Array {
            width: self.width.into(),
            height: self.height.into(),
            depth: 0,
            format: self.format,
            channels: self.channels,
            flags: 0,
        };
        array.bytes(levels)
    }
}

impl<Size: Copy + Into<u64>> Describes for ArrayDescriptor3D<Size> {
    fn bytes(self, levels: u32) -> u64 {
        let array = Array {
            width: self.width.into(),
            height: self.height.into(),
            depth: self.depth.into(),
            format: self.format,
            channels: self.channels,
            flags: self.flags,
        };
        array.bytes(levels)
    }
}

impl Describes for ExternalMipmapped {
    fn bytes(self, _levels: u32) -> u64 {
        self.array.bytes(self.levels)
    }
}

impl Describes for ExternalBuffer {
    fn bytes(self, _levels: u32) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests;
