//! Computes the size of a CUDA array from its descriptor. As for `cuMemAlloc`, this is the size
//! that the program requested, without the driver's padding.

use super::foreign::{
    ArrayDescriptor, ArrayDescriptor3D, ExternalBuffer, ExternalMipmapped, Number,
};

mod format;

/// `CUDA_ARRAY3D_LAYERED` and `CUDA_ARRAY3D_CUBEMAP`: the depth is the number of layers or faces,
/// which is the same at each level.
const WITH_LAYERS: u32 = 0x01 | 0x04;
/// `CUDA_ARRAY3D_SPARSE` and `CUDA_ARRAY3D_DEFERRED_MAPPING`: the program later maps memory to the
/// array, and that memory is a separate resource.
const WITHOUT_MEMORY: u32 = 0x40 | 0x80;

/// Returns the size in bytes of an array with `levels` levels, each with half the extents of the
/// level before it; 0 if the format is unknown. Extents are given in elements, and missing
/// dimensions are 0.
fn bytes(extents: [u64; 3], format: u32, channels: u32, flags: u32, levels: u32) -> u64 {
    let [width, height, depth] = extents;
    if flags & WITHOUT_MEMORY != 0 {
        return 0;
    }
    let Some([block_width, block_height, block_bytes]) = format::block(format, channels) else {
        return 0;
    };
    let has_layers = flags & WITH_LAYERS != 0;
    // The number of levels is limited: the longest extent is halved until it is one element.
    let longest = width.max(height).max(if has_layers { 0 } else { depth });
    let levels = levels.clamp(1, 1 + longest.checked_ilog2().unwrap_or(0));
    let level_bytes = |level: u32| {
        let halved = |extent: u64| (extent >> level).max(1);
        let across = halved(width).div_ceil(block_width);
        let down = halved(height).div_ceil(block_height);
        let deep = if has_layers { depth } else { halved(depth) };
        let blocks = across.saturating_mul(down).saturating_mul(deep);
        blocks.saturating_mul(block_bytes)
    };
    (0..levels).map(level_bytes).fold(0, u64::saturating_add)
}

impl<Size: Copy + Into<u64>> Number for ArrayDescriptor<Size> {
    fn number(self, levels: u32) -> u64 {
        let extents = [self.width.into(), self.height.into(), 0];
        bytes(extents, self.format, self.channels, 0, levels)
    }
}

impl<Size: Copy + Into<u64>> Number for ArrayDescriptor3D<Size> {
    fn number(self, levels: u32) -> u64 {
        let extents = [self.width, self.height, self.depth].map(Into::into);
        bytes(extents, self.format, self.channels, self.flags, levels)
    }
}

impl Number for ExternalMipmapped {
    fn number(self, _levels: u32) -> u64 {
        self.array.number(self.levels)
    }
}

impl Number for ExternalBuffer {
    fn number(self, _levels: u32) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests;
