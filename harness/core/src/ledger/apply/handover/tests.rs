use super::super::tests::{FAILED, SCOPE, World, creation};
use super::{Kind, Record};
use crate::ledger::event::{ContextUid, Creation, Event, Key, Space};
use crate::ledger::{Amount, Layer, Place, ScopeId};

const ADDRESS: u64 = 0x1000;

fn world(made: &[Creation]) -> World {
    let world = World::new();
    for made in made {
        world.0.apply(&Event::Created(*made));
    }
    world.0.apply(&Event::HandedOver { address: ADDRESS });
    world
}

fn in_space(space: Space, made: Creation) -> Creation {
    let key = Key::new(space, ADDRESS);
    Creation { key, ..made }
}

fn is_handed_over(world: &World, made: &Creation) -> bool {
    let record = world.0.get(&made.key).expect("live");
    record.made.caller.scope == ScopeId::NOBODY
}

fn handed_over(world: &World) -> (u64, u64) {
    let Amount { count, bytes } = world.0.scopes.all_handed_over(|scope| scope == SCOPE);
    (count, bytes)
}

#[test]
fn memory_of_every_sort_is_known_by_its_address() {
    for space in super::MEMORY {
        let made = in_space(space, creation(Kind::Linear, ADDRESS, 100));
        let world = world(&[made]);
        assert!(is_handed_over(&world, &made), "{space:?}");
        assert_eq!(world.0.snapshot(SCOPE).live, 0, "{space:?}");
        assert_eq!(handed_over(&world), (1, 100), "{space:?}");
    }
}

#[test]
fn a_segment_stays_its_allocator_s_if_its_first_block_is_handed_over() {
    let segment = creation(Kind::Linear, ADDRESS, 4096);
    let layer = Layer::allocator("handover-test");
    let block = creation(Kind::Block, ADDRESS, 100);
    let block = in_space(Space::Observed(layer), Creation { layer, ..block });
    let world = world(&[segment, block]);
    assert!(is_handed_over(&world, &block));
    assert!(!is_handed_over(&world, &segment));
}

#[test]
fn a_block_that_fills_its_segment_is_handed_over_with_it_once() {
    let segment = creation(Kind::Linear, ADDRESS, 100);
    let layer = Layer::allocator("handover-test");
    let block = in_space(Space::Observed(layer), Creation { layer, ..segment });
    let world = world(&[segment, block]);
    assert!(is_handed_over(&world, &block) && is_handed_over(&world, &segment));
    assert_eq!(
        (world.0.snapshot(SCOPE).live, handed_over(&world)),
        (0, (1, 100))
    );
}

#[test]
fn an_address_of_one_place_is_handed_over_unless_another_place_has_it_too() {
    let layer = Layer::allocator("handover-test");
    let at = |name: &str| {
        let place = Place::named(name);
        let made = creation(Kind::Block, ADDRESS, 100);
        let made = Creation {
            layer,
            place,
            ..made
        };
        in_space(Space::ObservedAt(layer, place), made)
    };
    let (one, other) = (at("handover:0"), at("handover:1"));
    assert!(is_handed_over(&world(&[one]), &one));
    let both = world(&[one, other]);
    assert!(!is_handed_over(&both, &one) && !is_handed_over(&both, &other));
    assert_eq!(both.0.snapshot(SCOPE).live, 2);
}

#[test]
fn a_handle_is_handed_over_unless_another_kind_has_the_same() {
    let stream = creation(Kind::Stream, ADDRESS, 0);
    let event = creation(Kind::Event, ADDRESS, 0);
    assert!(is_handed_over(&world(&[stream]), &stream));
    let both = world(&[stream, event]);
    assert!(!is_handed_over(&both, &stream) && !is_handed_over(&both, &event));
    assert_eq!(both.0.snapshot(SCOPE).live, 2);
}

#[test]
fn a_pool_of_vulkan_is_handed_over_with_its_contents() {
    let object = |kind, context, handle, pool| {
        let space = Space::Object {
            kind,
            context,
            copy: 0,
        };
        Creation {
            key: Key::new(space, handle),
            context,
            pool,
            ..creation(kind, handle, 0)
        }
    };
    for (pool, content) in [
        (Kind::CommandPool, Kind::CommandBuffer),
        (Kind::DescriptorPool, Kind::DescriptorSet),
    ] {
        let [device, other_device] = [ContextUid(1 << 31), ContextUid((1 << 31) + 1)];
        let pool = object(pool, device, ADDRESS, 0);
        let inside = [0x2000, 0x3000].map(|handle| object(content, device, handle, ADDRESS));
        let in_another = object(content, device, 0x4000, ADDRESS + 1);
        let of_another_device = object(content, other_device, 0x5000, ADDRESS);
        let [one, two] = inside;
        let world = world(&[pool, one, two, in_another, of_another_device]);
        assert!([pool, one, two].iter().all(|it| is_handed_over(&world, it)));
        let others = [in_another, of_another_device];
        assert!(!others.iter().any(|it| is_handed_over(&world, it)));
        assert_eq!(
            (world.0.snapshot(SCOPE).live, handed_over(&world)),
            (2, (1, 0))
        );
    }
}

#[test]
fn an_object_with_counted_references_keeps_them() {
    let context = creation(Kind::Context, ADDRESS, 0);
    let world = world(&[context]);
    assert!(is_handed_over(&world, &context));
    assert_eq!(
        (world.0.snapshot(SCOPE).live, handed_over(&world)),
        (0, (1, 0))
    );
}

#[test]
fn physical_memory_is_known_by_its_handle_and_by_its_address() {
    let handle = 0x77;
    let physical = creation(Kind::Physical, handle, 64);
    let physical = Creation {
        key: Key::new(Space::PhysicalHandle, handle),
        ..physical
    };
    for named in [handle, ADDRESS] {
        let world = World::new();
        world.0.apply(&Event::Created(physical));
        world.0.apply(&Event::Mapped {
            address: ADDRESS,
            bytes: 64,
            handle,
        });
        world.0.apply(&Event::HandedOver { address: named });
        let objects = world.0.select(|record| record.made.kind == Kind::Physical);
        let owners: Vec<_> = objects
            .iter()
            .map(|it: &Record| it.made.caller.scope)
            .collect();
        assert_eq!(owners, [ScopeId::NOBODY]);
        assert_eq!(
            (world.0.snapshot(SCOPE).live, handed_over(&world)),
            (0, (1, 64))
        );
    }
}

#[test]
fn handing_over_unknown_memory_or_twice_changes_nothing() {
    let made = creation(Kind::Linear, ADDRESS, 100);
    let world = world(&[made]);
    for address in [0, 0x9999, ADDRESS] {
        world.0.apply(&Event::HandedOver { address });
    }
    assert_eq!(
        (world.0.snapshot(SCOPE).live, handed_over(&world)),
        (0, (1, 100))
    );
}

#[test]
fn impossible_sizes_do_not_end_the_program() {
    let world = world(&[creation(Kind::Linear, ADDRESS, u64::MAX)]);
    let other = creation(Kind::Linear, 0x9000, 1);
    world.0.apply(&Event::Created(other));
    world.0.apply(&Event::HandedOver { address: 0x9000 });
    assert_eq!(handed_over(&world), (2, u64::MAX));
}

#[test]
fn memory_stays_handed_over_if_its_release_fails() {
    let object = Creation {
        key: Key::new(Space::Handle(Kind::UserObject), 0x0b),
        ..creation(Kind::UserObject, 0x0b, 0)
    };
    let world = world(&[object]);
    world.0.apply(&Event::HandedOver { address: 0x0b });
    assert!(is_handed_over(&world, &object));
    world.end_free(world.begin_release(object.key, 1), FAILED);
    assert!(is_handed_over(&world, &object));
}
