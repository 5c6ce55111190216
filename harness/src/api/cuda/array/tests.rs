use super::bytes;

const UNSIGNED_INT8: u32 = 0x01;
const FLOAT: u32 = 0x20;

fn plain(extents: [u64; 3], format: u32, channels: u32) -> u64 {
    bytes(extents, format, channels, 0, 1)
}

#[test]
fn the_size_of_an_array_is_that_of_its_elements() {
    assert_eq!(plain([2048, 0, 0], FLOAT, 1), 8192);
    assert_eq!(plain([64, 64, 0], FLOAT, 1), 16_384);
    assert_eq!(plain([100, 3, 7], FLOAT, 4), 100 * 3 * 7 * 16);
    assert_eq!(plain([100, 50, 0], UNSIGNED_INT8, 2), 10_000);
}

#[test]
fn the_size_is_multiplied_by_the_number_of_layers_or_faces() {
    let layered = 0x01;
    assert_eq!(bytes([16, 0, 5], FLOAT, 1, layered, 1), 320, "1D layered");
    assert_eq!(bytes([16, 4, 5], FLOAT, 1, layered, 1), 1280);
    let cubemap = 0x04;
    assert_eq!(bytes([8, 8, 6], FLOAT, 1, cubemap, 1), 1536);
    let both = layered | cubemap;
    assert_eq!(bytes([8, 8, 12], FLOAT, 1, both, 1), 3072);
}

#[test]
fn the_size_of_a_mipmapped_array_includes_all_levels() {
    // 64 × 64, 32 × 32, 16 × 16 floats.
    let three = 4 * (4096 + 1024 + 256);
    assert_eq!(bytes([64, 64, 0], FLOAT, 1, 0, 3), three);
    // 8 × 2, 4 × 1, 2 × 1, 1 × 1: an extent of 1 stays at 1.
    assert_eq!(bytes([8, 2, 0], UNSIGNED_INT8, 1, 0, 4), 16 + 4 + 2 + 1);
    // 5 × 3, 2 × 1, 1 × 1: halves are rounded down.
    assert_eq!(bytes([5, 3, 0], UNSIGNED_INT8, 1, 0, 3), 15 + 2 + 1);
    // 4 × 4 × 4, 2 × 2 × 2, 1 × 1 × 1
    assert_eq!(bytes([4, 4, 4], UNSIGNED_INT8, 1, 0, 3), 64 + 8 + 1);
}

#[test]
fn each_level_has_the_same_number_of_layers_or_faces() {
    // (4 × 4 + 2 × 2 + 1) × 6
    for (flags, depth) in [(0x01, 6), (0x04, 6), (0x05, 6)] {
        let all = bytes([4, 4, depth], UNSIGNED_INT8, 1, flags, 3);
        assert_eq!(all, 21 * 6, "{flags}");
    }
}

#[test]
fn there_is_at_least_one_level_and_none_beyond_a_single_element() {
    let most = 16 + 4 + 1;
    assert_eq!(bytes([4, 4, 0], UNSIGNED_INT8, 1, 0, 3), most);
    assert_eq!(bytes([4, 4, 0], UNSIGNED_INT8, 1, 0, u32::MAX), most);
    assert_eq!(bytes([4, 4, 0], UNSIGNED_INT8, 1, 0, 0), 16);
    // The number of layers does not add levels.
    assert_eq!(bytes([1, 1, 100], UNSIGNED_INT8, 1, 0x01, 7), 100);
}

#[test]
fn compressed_elements_are_stored_in_whole_blocks_of_sixteen() {
    for (format, block) in [
        (0x91, 8),  // BC1_UNORM
        (0x92, 8),  // BC1_UNORM_SRGB
        (0x93, 16), // BC2_UNORM
        (0x96, 16), // BC3_UNORM_SRGB
        (0x97, 8),  // BC4_UNORM
        (0x98, 8),  // BC4_SNORM
        (0x99, 16), // BC5_UNORM
        (0x9c, 16), // BC6H_SF16
        (0x9e, 16), // BC7_UNORM_SRGB
    ] {
        assert_eq!(plain([64, 32, 0], format, 4), 16 * 8 * block, "{format:#x}");
        assert_eq!(plain([5, 5, 0], format, 4), 4 * block, "{format:#x}");
        // 8 × 8, 4 × 4, 2 × 2 and 1 × 1 elements: 4 blocks at the first level, and one block at
        // each of the other levels.
        let levels = bytes([8, 8, 0], format, 4, 0, 4);
        assert_eq!(levels, (4 + 1 + 1 + 1) * block, "{format:#x}");
    }
}

#[test]
fn formats_that_imply_their_channels_ignore_the_number_of_channels() {
    for (format, element) in [
        (0xc0, 1), // UNORM_INT8X1
        (0xc7, 2), // SNORM_INT8X2
        (0xc2, 4), // UNORM_INT8X4
        (0xc3, 2), // UNORM_INT16X1
        (0xca, 4), // SNORM_INT16X2
        (0xc5, 8), // UNORM_INT16X4
        (0x50, 4), // UNORM_INT_101010_2
    ] {
        for channels in [1, 2, 4] {
            let all = plain([10, 10, 0], format, channels);
            assert_eq!(all, 100 * element, "{format:#x}, {channels}");
        }
    }
}

#[test]
fn the_size_of_a_video_image_follows_its_chroma_subsampling() {
    // An array has 1920 × 1080 elements. The size of an element is given in quarters of a byte.
    for (format, quarters) in [
        (0xb0, 6),  // NV12: 8 bits, 4:2:0
        (0x9f, 12), // P010: 10 bits stored in 16, 4:2:0
        (0xa1, 12), // P016
        (0xa2, 8),  // NV16: 8 bits, 4:2:2
        (0xa3, 16), // P210
        (0xa4, 16), // P216
        (0xa5, 8),  // YUY2
        (0xa6, 16), // Y210
        (0xa7, 16), // Y216
        (0xa8, 16), // AYUV: 8 bits, 4:4:4 and alpha
        (0xa9, 16), // Y410: 10, 10, 10 and 2 bits
        (0xb1, 32), // Y416: 16 bits each and alpha
        (0xb2, 12), // Y444_PLANAR8
        (0xb3, 24), // Y444_PLANAR10
        (0xb4, 12), // YUV444_8bit_SemiPlanar
        (0xb5, 24), // YUV444_16bit_SemiPlanar
        (0x51, 8),  // UINT8_PACKED_422
        (0x52, 16), // UINT8_PACKED_444
        (0x53, 6),  // UINT8_SEMIPLANAR_420
        (0x54, 12), // UINT16_SEMIPLANAR_420
        (0x55, 8),  // UINT8_SEMIPLANAR_422
        (0x56, 16), // UINT16_SEMIPLANAR_422
        (0x57, 12), // UINT8_SEMIPLANAR_444
        (0x58, 24), // UINT16_SEMIPLANAR_444
        (0x59, 6),  // UINT8_PLANAR_420
        (0x5a, 12), // UINT16_PLANAR_420
        (0x5b, 8),  // UINT8_PLANAR_422
        (0x5c, 16), // UINT16_PLANAR_422
        (0x5d, 12), // UINT8_PLANAR_444
        (0x5e, 24), // UINT16_PLANAR_444
    ] {
        let all = plain([1920, 1080, 0], format, 3);
        assert_eq!(all, 1920 * 1080 / 4 * quarters, "{format:#x}");
    }
}

#[test]
fn an_array_that_gets_its_memory_later_has_size_0() {
    let (sparse, deferred) = (0x40, 0x80);
    for flags in [sparse, deferred, sparse | 0x01, deferred | 0x02] {
        assert_eq!(bytes([64, 64, 4], FLOAT, 1, flags, 3), 0, "{flags:#x}");
    }
    let surface = 0x02;
    assert_eq!(bytes([64, 64, 0], FLOAT, 1, surface, 1), 16_384);
}

#[test]
fn an_array_with_an_unknown_format_has_size_0() {
    for format in [0, 0x04, 0x5f, 0x90, 0xa0, 0xbf, 0xcc, 0x7fff_ffff] {
        assert_eq!(plain([64, 64, 0], format, 4), 0, "{format:#x}");
    }
}

#[test]
fn garbage_does_not_overflow() {
    let all = bytes([u64::MAX; 3], FLOAT, u32::MAX, 0, u32::MAX);
    assert_eq!(all, u64::MAX);
}
