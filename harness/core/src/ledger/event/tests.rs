use std::hash::{BuildHasher, BuildHasherDefault};

use rustc_hash::FxHasher;

use super::{Caller, ContextUid, Creation, Event, Key, Kind, Layer, Place, Record, Space};

#[test]
fn events_survive_json() {
    let caller = Caller::default();
    for event in [
        Event::Mapped {
            address: 1,
            bytes: 2,
            handle: 3,
        },
        Event::UnmapBegan {
            address: 1,
            bytes: 2,
            caller,
        },
        Event::ReleaseBegan {
            key: Key::new(Space::PhysicalHandle, 1),
            count: u64::MAX,
            graph: None,
            caller,
        },
    ] {
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }
}

#[test]
fn keys_that_differ_in_their_number_or_copy_have_different_hashes() {
    let hash = |value, copy| {
        let (kind, context) = (Kind::Buffer, ContextUid(1));
        let space = Space::Object {
            kind,
            context,
            copy,
        };
        BuildHasherDefault::<FxHasher>::default().hash_one(Key::new(space, value))
    };
    let keys = [(1, 0), (2, 0), (1, 1), (1 << 48 | 4, 0), (1 << 48 | 4, 1)];
    let mut hashes = keys.map(|(value, copy)| hash(value, copy));
    hashes.sort_unstable();
    assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn keys_are_shown_and_sorted_by_the_number_that_they_hide() {
    let key = |value| Key::new(Space::DevicePointer, value);
    assert!(key(1) < key(2) && key(2).max(key(1)) == key(2));
    assert!(format!("{:?}", key(0x2a)).contains("0x2a"));
}

#[test]
fn an_address_belongs_to_the_record_that_contains_it() {
    let key = |value| Key::new(Space::DevicePointer, value);
    let made = |bytes| Creation {
        key: key(100),
        kind: Kind::Linear,
        layer: Layer::DRIVER,
        place: Place::HOST,
        bytes,
        context: ContextUid(1),
        stream: 0,
        pool: 0,
        caller: Caller::default(),
    };
    let is_at = |bytes, value| {
        let (sequence, made) = (1, made(bytes));
        Record { sequence, made }.is_at(key(value))
    };
    let at = [99, 100, 107, 108].map(|address| is_at(8, address));
    assert_eq!(at, [false, true, true, false]);
    assert!(is_at(0, 100), "without bytes it has an address as well");
}
