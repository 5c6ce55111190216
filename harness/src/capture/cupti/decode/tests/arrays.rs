//! Arrays and what external memory is mapped as: their bytes stand in descriptors.

use std::ptr;

use super::{CALLER, block, creates, made, plain, released};
use crate::capture::cupti::decode;
use crate::ledger::Kind;
use crate::ledger::event::{Creation, Event, Space};

const FLOAT: u32 = 0x20;
const CREATE_V2: u32 = 272;
const CREATE_3D_V2: u32 = 274;
const CREATE_MIPMAPPED: u32 = 347;
const MAP_BUFFER: u32 = 486;
const MAP_MIPMAPPED: u32 = 487;
const OUT_OF_MEMORY: u32 = 2;
const INVALID_VALUE: u32 = 1;

/// `CUDA_ARRAY3D_DESCRIPTOR`
#[repr(C)]
struct Array3D(u64, u64, u64, u32, u32, u32);

#[repr(C)]
struct Create<Descriptor>(*const u64, *const Descriptor);
#[repr(C)]
struct CreateMipmapped(*const u64, *const Array3D, u32);
#[repr(C)]
struct Map<Descriptor>(*const u64, u64, *const Descriptor);

static ANSWER: u64 = 0x5555_1000;

fn array(kind: Kind, bytes: u64) -> Creation {
    plain(kind, Space::Handle(Kind::Array), ANSWER, bytes)
}

#[test]
fn an_array_s_bytes_are_those_of_its_descriptor() {
    #[repr(C)]
    struct Array(u64, u64, u32, u32);
    #[repr(C)]
    struct ArrayV1(u32, u32, u32, u32);
    #[repr(C)]
    struct Array3DV1(u32, u32, u32, u32, u32, u32);
    let answer = &raw const ANSWER;

    let flat = Some(array(Kind::Array, 64 * 32 * 8));
    let descriptor = Array(64, 32, FLOAT, 2);
    let params = Create(answer, &raw const descriptor);
    assert_eq!(made(CREATE_V2, &params), flat);
    let descriptor = ArrayV1(64, 32, FLOAT, 2);
    let params = Create(answer, &raw const descriptor);
    assert_eq!(made(87, &params), flat);

    let deep = Some(array(Kind::Array, 64 * 32 * 5 * 8));
    let descriptor = Array3D(64, 32, 5, FLOAT, 2, 0);
    let params = Create(answer, &raw const descriptor);
    assert_eq!(made(CREATE_3D_V2, &params), deep);
    let descriptor = Array3DV1(64, 32, 5, FLOAT, 2, 0);
    let params = Create(answer, &raw const descriptor);
    assert_eq!(made(90, &params), deep);
    assert_eq!(released(89, &ANSWER), deep.map(|array| array.key));

    let descriptor = Array3D(64, 32, 5, FLOAT, 2, 0x40);
    let params = Create(answer, &raw const descriptor);
    assert_eq!(made(CREATE_3D_V2, &params), Some(array(Kind::Array, 0)));
}

#[test]
fn a_mipmapped_array_is_all_its_levels() {
    let descriptor = Array3D(8, 4, 0, FLOAT, 1, 0);
    let params = CreateMipmapped(&raw const ANSWER, &raw const descriptor, 2);
    let expected = array(Kind::Array, 4 * (8 * 4 + 4 * 2));
    assert_eq!(made(CREATE_MIPMAPPED, &params), Some(expected));
    assert_eq!(released(349, &ANSWER), Some(expected.key));
}

#[test]
fn external_memory_is_mapped_as_a_buffer_or_as_levels() {
    #[repr(C)]
    struct Buffer(u64, u64, u32, [u32; 16]);
    let buffer = Buffer(4096, 12_288, 0, [9; 16]);
    let params = Map(&raw const ANSWER, 0xe, &raw const buffer);
    let expected = plain(Kind::Imported, Space::DevicePointer, ANSWER, 12_288);
    assert_eq!(made(MAP_BUFFER, &params), Some(expected));
    assert_eq!(released(245, &ANSWER), Some(expected.key), "cuMemFree");

    #[repr(C)]
    struct Mipmapped(u64, Array3D, u32, [u32; 16]);
    let levels = Mipmapped(4096, Array3D(8, 4, 0, FLOAT, 1, 0x20), 2, [9; 16]);
    let params = Map(&raw const ANSWER, 0xe, &raw const levels);
    let expected = array(Kind::Imported, 160);
    assert_eq!(made(MAP_MIPMAPPED, &params), Some(expected));
    assert_eq!(released(349, &ANSWER), Some(expected.key));
}

#[test]
fn a_null_descriptor_has_no_bytes() {
    let params = CreateMipmapped(&raw const ANSWER, ptr::null(), 2);
    assert_eq!(made(CREATE_MIPMAPPED, &params), Some(array(Kind::Array, 0)));
    let params = Map::<u64>(&raw const ANSWER, 0xe, ptr::null());
    assert_eq!(made(MAP_BUFFER, &params).map(|made| made.bytes), Some(0));
}

#[test]
fn a_descriptor_is_read_after_a_failure_only_if_the_driver_has_read_it() {
    let failed = |id, params: &Create<Array3D>, error| {
        // SAFETY: the block is that of the call.
        unsafe { decode::creation_failed(creates(id), block(params), error, CALLER) }
    };
    let expected = |bytes, error| Event::CreationFailed {
        kind: Kind::Array,
        bytes,
        error,
        caller: CALLER,
    };
    let descriptor = Array3D(8, 4, 2, FLOAT, 1, 0);
    let params = Create(ptr::dangling(), &raw const descriptor);
    let made = failed(CREATE_3D_V2, &params, OUT_OF_MEMORY);
    assert_eq!(made, expected(256, OUT_OF_MEMORY));
    let garbage = Create(ptr::dangling(), ptr::dangling());
    let made = failed(CREATE_3D_V2, &garbage, INVALID_VALUE);
    assert_eq!(made, expected(0, INVALID_VALUE));
}
