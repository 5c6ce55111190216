//! Computes the size of a CUDA array from its descriptor. As with `cuMemAlloc`, this is the size
//! that the program requested, without the driver's padding.

use super::foreign::{
    ArrayDescriptor, ArrayDescriptor3D, ExternalBuffer, ExternalMipmapped, Number,
};

/// `CUDA_ARRAY3D_LAYERED` and `CUDA_ARRAY3D_CUBEMAP`: the depth is the number of layers or faces,
/// which is the same at each level.
const WITH_LAYERS: u32 = 0x01 | 0x04;
/// `CUDA_ARRAY3D_SPARSE` and `CUDA_ARRAY3D_DEFERRED_MAPPING`: the program later maps memory to the
/// array, and that memory is a separate resource.
const WITHOUT_MEMORY: u32 = 0x40 | 0x80;

/// Returns the size in bytes of an array with `levels` levels, each with half the extents of the
/// previous one; 0 if the format is unknown. Extents are given in elements, and missing
/// dimensions are 0.
fn bytes(extents: [u64; 3], format: u32, channels: u32, flags: u32, levels: u32) -> u64 {
    let [width, height, depth] = extents;
    if flags & WITHOUT_MEMORY != 0 {
        return 0;
    }
    let Some([block_width, block_height, block_bytes]) = block(format, channels) else {
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

/// Returns the width, the height and the bytes of the smallest rectangle of elements that a format
/// stores as a unit: one element, a compressed block, or the elements that share a colour sample.
/// `None` if the format is unknown. Only plain formats depend on the number of channels. All others
/// imply it.
///
/// The numbers are those of `CUarray_format` in `cuda.h` 13.5. Older headers have a subset of them.
fn block(format: u32, channels: u32) -> Option<[u64; 3]> {
    let plain = |bytes: u64| [1, 1, bytes * u64::from(channels)];
    Some(match format {
        // UNSIGNED_INT8, SIGNED_INT8
        0x01 | 0x08 => plain(1),
        // UNSIGNED_INT16, SIGNED_INT16, HALF
        0x02 | 0x09 | 0x10 => plain(2),
        // UNSIGNED_INT32, SIGNED_INT32, FLOAT
        0x03 | 0x0a | 0x20 => plain(4),

        // UNORM_INT8X1, SNORM_INT8X1
        0xc0 | 0xc6 => [1, 1, 1],
        // UNORM_INT8X2, SNORM_INT8X2, UNORM_INT16X1, SNORM_INT16X1
        0xc1 | 0xc7 | 0xc3 | 0xc9 => [1, 1, 2],
        // UNORM_INT8X4, SNORM_INT8X4, UNORM_INT16X2, SNORM_INT16X2, UNORM_INT_101010_2
        0xc2 | 0xc8 | 0xc4 | 0xca | 0x50 => [1, 1, 4],
        // UNORM_INT16X4, SNORM_INT16X4
        0xc5 | 0xcb => [1, 1, 8],

        // Blocks of 4 × 4 compressed elements.
        // BC1_UNORM, BC1_UNORM_SRGB, BC4_UNORM, BC4_SNORM
        0x91 | 0x92 | 0x97 | 0x98 => [4, 4, 8],
        // BC2_UNORM, BC2_UNORM_SRGB, BC3_UNORM, BC3_UNORM_SRGB
        0x93..=0x96
        // BC5_UNORM, BC5_SNORM, BC6H_UF16, BC6H_SF16, BC7_UNORM, BC7_UNORM_SRGB
        | 0x99..=0x9e => [4, 4, 16],

        // One luma sample per element and two chroma samples per four elements, of 8 or 16 bits
        // each.
        // NV12, UINT8_SEMIPLANAR_420, UINT8_PLANAR_420
        0xb0 | 0x53 | 0x59 => [2, 2, 6],
        // P010, P016, UINT16_SEMIPLANAR_420, UINT16_PLANAR_420
        0x9f | 0xa1 | 0x54 | 0x5a => [2, 2, 12],

        // One luma sample per element and two chroma samples per two elements.
        // NV16, YUY2, UINT8_PACKED_422, UINT8_SEMIPLANAR_422, UINT8_PLANAR_422
        0xa2 | 0xa5 | 0x51 | 0x55 | 0x5b => [2, 1, 4],
        // P210, P216, Y210, Y216, UINT16_SEMIPLANAR_422, UINT16_PLANAR_422
        0xa3 | 0xa4 | 0xa6 | 0xa7 | 0x56 | 0x5c => [2, 1, 8],

        // One luma and two chroma samples per element.
        // Y444_PLANAR8, YUV444_8bit_SemiPlanar, UINT8_SEMIPLANAR_444, UINT8_PLANAR_444
        0xb2 | 0xb4 | 0x57 | 0x5d => [1, 1, 3],
        // Y444_PLANAR10, YUV444_16bit_SemiPlanar, UINT16_SEMIPLANAR_444, UINT16_PLANAR_444
        0xb3 | 0xb5 | 0x58 | 0x5e => [1, 1, 6],

        // With alpha: AYUV, UINT8_PACKED_444. Three samples of 10 bits and an alpha of 2 bits:
        // Y410.
        0xa8 | 0x52 | 0xa9 => [1, 1, 4],
        // Samples of 12 bits, each stored in 16 bits, with alpha: Y416.
        0xb1 => [1, 1, 8],
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
