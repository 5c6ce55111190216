mod arrays;

use std::ffi::c_void;
use std::ptr;

use super::super::call::{Call, Creates, Releases};
use super::super::watch;
use super::{Block, Caller, ContextUid, Creation, Current, Event, Key, Kind, Layer, Place, Space};
use crate::ledger::event::{ScopeId, StackId, ThreadNumber};

/// The context that all calls below are made in.
fn context() -> Current {
    Current {
        handle: 0xc0_0000,
        uid: ContextUid(3),
        place: Place::cuda(4),
    }
}

const CALLER: Caller = Caller {
    thread: ThreadNumber(1),
    scope: ScopeId(2),
    stack: StackId(0),
};

fn creates(id: u32) -> &'static Creates {
    match watch::call(id) {
        Some(Call::Creates(create)) => create,
        other => panic!("{id} is {other:?}"),
    }
}

fn releases(id: u32) -> &'static Releases {
    match watch::call(id) {
        Some(Call::Releases(release)) => release,
        other => panic!("{id} is {other:?}"),
    }
}

fn block<T>(params: &T) -> Block {
    Block::new(ptr::from_ref(params).cast::<c_void>())
}

/// What a successful call with this block made.
fn made<T>(id: u32, params: &T) -> Option<Creation> {
    let create = creates(id);
    // SAFETY: each test below passes the block of the call it names, with answers written.
    unsafe {
        let key = super::created_key(create, block(params))?;
        Some(super::created(
            create,
            block(params),
            key,
            context(),
            CALLER,
        ))
    }
}

fn released<T>(id: u32, params: &T) -> Option<Key> {
    // SAFETY: each test below passes the block of the call it names.
    unsafe { super::released_key(releases(id), block(params)) }
}

fn plain(kind: Kind, space: Space, value: u64, bytes: u64) -> Creation {
    Creation {
        key: Key { space, value },
        kind,
        layer: Layer::DRIVER,
        place: context().place,
        bytes,
        context: context().uid,
        stream: 0,
        pool: 0,
        caller: CALLER,
    }
}

/// The layouts here are written anew from `generated_cuda_meta.h` (the number of each field's
/// bytes in order), not taken from the structs under test.
#[repr(C)]
struct ThreeWords(*const u64, u64, u64);
#[repr(C)]
struct FourWords(*const u64, u64, u64, u64);

#[test]
fn a_linear_allocation_is_what_was_asked_for_at_the_answered_address() {
    let answer = 0x7f00_0000_1000_u64;
    let params = ThreeWords(&raw const answer, 1 << 20, 0xdead);
    let expected = plain(Kind::Linear, Space::DevicePointer, answer, 1 << 20);
    assert_eq!(made(243, &params), Some(expected));
}

#[test]
fn addresses_and_sizes_of_the_32_bit_calls_are_not_read_further_than_they_are() {
    #[repr(C)]
    struct Params(*const u32, u32, u32);
    let answers = [0x1000_u32, 0xffff_ffff];
    let params = Params(answers.as_ptr(), 64, 0xffff_ffff);
    let expected = plain(Kind::Linear, Space::DevicePointer, 0x1000, 64);
    assert_eq!(made(29, &params), Some(expected));

    let params: [u32; 2] = [0x1000, 0xffff_ffff];
    let key = Key {
        space: Space::DevicePointer,
        value: 0x1000,
    };
    assert_eq!(released(33, &params), Some(key));
}

#[test]
fn a_pitched_allocation_is_pitch_times_height() {
    #[repr(C)]
    struct Params(*const u64, *const u64, u64, u64, u32);
    let (answer, pitch) = (0x2000_u64, 512_u64);
    let params = Params(&raw const answer, &raw const pitch, 100, 7, 4);
    let expected = plain(Kind::Pitched, Space::DevicePointer, 0x2000, 512 * 7);
    assert_eq!(made(244, &params), Some(expected));

    #[repr(C)]
    struct Old(*const u32, *const u32, u32, u32, u32);
    let (answer, pitch) = (0x2000_u32, 512_u32);
    let params = Old(&raw const answer, &raw const pitch, 100, 7, 4);
    assert_eq!(made(31, &params), Some(expected));
}

#[test]
fn a_pitched_allocation_that_failed_asked_for_width_times_height() {
    #[repr(C)]
    struct Params(*const u64, *const u64, u64, u64, u32);
    // Both answers are garbage: the call failed before it wrote them.
    let garbage = ptr::dangling::<u64>();
    let params = Params(garbage, garbage, 100, 7, 4);
    // SAFETY: the block is that of the call; its answers are not read after a failure.
    let event = unsafe { super::creation_failed(creates(244), block(&params), 2, CALLER) };
    let expected = Event::CreationFailed {
        kind: Kind::Pitched,
        bytes: 700,
        error: 2,
        caller: CALLER,
    };
    assert_eq!(event, expected);
}

#[test]
fn managed_memory_ends_with_its_flags() {
    let answer = 0x3000_u64;
    let params = ThreeWords(&raw const answer, 4096, 1);
    let expected = plain(Kind::Managed, Space::DevicePointer, 0x3000, 4096);
    assert_eq!(made(371, &params), Some(expected));
}

#[test]
fn stream_ordered_memory_knows_its_stream_and_its_pool() {
    let answer = 0x4000_u64;
    let in_order = plain(Kind::StreamOrdered, Space::DevicePointer, 0x4000, 400);
    for id in [598, 599] {
        let expected = Creation {
            stream: 0x57,
            ..in_order
        };
        let params = ThreeWords(&raw const answer, 400, 0x57);
        assert_eq!(made(id, &params), Some(expected));
    }
    for id in [611, 612] {
        let expected = Creation {
            stream: 0x57,
            pool: 0x900,
            // The ledger takes the pool's.
            place: Place::UNKNOWN,
            ..in_order
        };
        let params = FourWords(&raw const answer, 400, 0x900, 0x57);
        assert_eq!(made(id, &params), Some(expected));
    }
}

#[test]
fn host_memory_is_at_the_host_whichever_call_pinned_it() {
    let answer = 0x5000_u64;
    let pinned = Creation {
        place: Place::HOST,
        ..plain(Kind::Pinned, Space::HostPointer, 0x5000, 8192)
    };
    for id in [39, 271, 294] {
        let params = ThreeWords(&raw const answer, 8192, 3);
        assert_eq!(made(id, &params), Some(pinned), "{id}");
    }
    #[repr(C)]
    struct Old(*const u64, u32, u32);
    let params = Old(&raw const answer, 8192, 0xffff_ffff);
    assert_eq!(made(37, &params), Some(pinned));
}

#[test]
fn registered_memory_is_named_by_the_program() {
    #[repr(C)]
    struct Params(u64, u64, u32);
    let expected = Creation {
        place: Place::HOST,
        ..plain(
            Kind::Registered,
            Space::RegisteredPointer,
            0x7fff_1000,
            12_288,
        )
    };
    for id in [301, 379] {
        assert_eq!(made(id, &Params(0x7fff_1000, 12_288, 2)), Some(expected));
    }
    assert_eq!(released(302, &0x7fff_1000_u64), Some(expected.key));
}

#[test]
fn an_unwanted_or_null_answer_makes_nothing() {
    assert_eq!(made(243, &ThreeWords(ptr::null(), 64, 0)), None);
    let null = 0_u64;
    assert_eq!(made(243, &ThreeWords(&raw const null, 64, 0)), None);
    assert_eq!(released(245, &0_u64), None, "freeing null frees nothing");
}

#[test]
fn a_handle_is_the_first_answer_and_the_first_parameter() {
    let answer = 0x5555_0000_u64;
    for (create, destroy, kind) in [
        (124, 326, Kind::Stream),
        (367, 127, Kind::Stream),
        (118, 325, Kind::Event),
        (118, 122, Kind::Event),
        (20, 22, Kind::Module),
        (678, 680, Kind::Library),
        (501, 517, Kind::GraphHandle),
        (643, 516, Kind::ExecGraph),
        (339, 340, Kind::Texture),
        (92, 93, Kind::Texture),
        (343, 344, Kind::Surface),
        (485, 488, Kind::ExternalMemory),
        (489, 494, Kind::ExternalSemaphore),
    ] {
        let space = Space::Handle(kind);
        let made = made(create, &ThreeWords(&raw const answer, 0, 0));
        assert_eq!(made, Some(plain(kind, space, answer, 0)), "{create}");
        assert_eq!(released(destroy, &answer), Some(made.unwrap().key));
    }
}

#[test]
fn a_link_state_is_the_last_parameter() {
    #[repr(C)]
    struct Params(u32, *const u32, *const u64, *const u64);
    let answer = 0x7000_u64;
    let params = Params(1, ptr::dangling(), ptr::dangling(), &raw const answer);
    let space = Space::Handle(Kind::LinkState);
    let expected = plain(Kind::LinkState, space, 0x7000, 0);
    for id in [381, 362] {
        assert_eq!(made(id, &params), Some(expected), "{id}");
    }
    assert_eq!(released(366, &answer), Some(expected.key));
}

#[test]
fn a_green_context_is_on_its_device() {
    #[repr(C)]
    struct Params(*const u64, u64, u32, u32);
    let answer = 0x8000_u64;
    let params = Params(&raw const answer, 0xde5c, 6, 1);
    let kind = Kind::GreenContext;
    let expected = Creation {
        place: Place::cuda(6),
        ..plain(kind, Space::Handle(kind), 0x8000, 0)
    };
    assert_eq!(made(743, &params), Some(expected));
    assert_eq!(released(744, &answer), Some(expected.key));
}

#[test]
fn memory_imported_from_a_pool_is_where_the_pool_is_and_of_unknown_size() {
    let answer = 0x9000_u64;
    let params = ThreeWords(&raw const answer, 0x900, 0x5a5a);
    let expected = Creation {
        pool: 0x900,
        // The ledger takes the pool's.
        place: Place::UNKNOWN,
        ..plain(Kind::Imported, Space::DevicePointer, 0x9000, 0)
    };
    assert_eq!(made(616, &params), Some(expected));
}

#[test]
fn an_ended_capture_s_graph_is_its_second_parameter() {
    #[repr(C)]
    struct Params(u64, *const u64);
    let answer = 0x6000_u64;
    let space = Space::Handle(Kind::GraphHandle);
    let expected = plain(Kind::GraphHandle, space, 0x6000, 0);
    assert_eq!(made(497, &Params(9, &raw const answer)), Some(expected));
}

#[test]
fn a_pool_is_where_its_properties_say() {
    #[repr(C)]
    struct Properties(u32, u32, u32, u32, [u64; 9]);
    #[repr(C)]
    struct Params(*const u64, *const Properties);
    let answer = 0x900_u64;
    let place = |location_type, location_id| {
        let properties = Properties(1, 0, location_type, location_id, [0; 9]);
        let params = Params(&raw const answer, &raw const properties);
        made(607, &params).unwrap().place
    };
    assert_eq!(place(1, 2), Place::cuda(2));
    assert_eq!(place(2, 7), Place::HOST);
    assert_eq!(place(3, 1), Place::HOST);
    assert_eq!(place(6, 0x0100_0003_u32.to_le()), Place::cuda(3));
    let home = context().place;
    assert_eq!(place(0, 0), home, "a managed pool names none");
    let params = Params(&raw const answer, ptr::null());
    assert_eq!(made(607, &params).unwrap().place, home);
}

#[test]
fn a_context_is_on_its_device_and_belongs_to_itself() {
    #[repr(C)]
    struct V4(*const u64, u64, u32, u32);
    #[repr(C)]
    struct V3(*const u64, u64, u32, u32, u32);
    #[repr(C)]
    struct V2(*const u64, u32, u32);
    let current = context().handle;
    let expected = Creation {
        place: Place::cuda(5),
        ..plain(Kind::Context, Space::Handle(Kind::Context), current, 0)
    };
    assert_eq!(made(757, &V4(&raw const current, 0, 0, 5)), Some(expected));
    let v3 = V3(&raw const current, 0, 0, 0, 5);
    assert_eq!(made(645, &v3), Some(expected));
    for id in [235, 10] {
        assert_eq!(made(id, &V2(&raw const current, 0, 5)), Some(expected));
    }
    // A driver that shows the context from before the call.
    let other = 0xc1_0000_u64;
    let made = made(757, &V4(&raw const other, 0, 0, 5)).unwrap();
    assert_eq!(made.context, ContextUid(0));
}
