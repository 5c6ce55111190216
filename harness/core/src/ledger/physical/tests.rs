//! Makes random calls, and compares the result with a model that keeps handles and mappings as
//! plain lists.

use std::mem;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Dropped, Kind, Physical, Record, TableChange};
use crate::ledger::event::{Caller, ContextUid, Creation, Key, Space};
use crate::ledger::{Layer, Place};

/// There are so few handles and pages that handles are reused, ranges are adjacent, and objects are
/// mapped twice.
const HANDLES: u64 = 4;
const PAGES: u64 = 6;
const PAGE: u64 = 0x1000;

#[derive(Clone, Debug)]
enum Call {
    Create(u64),
    Import(u64),
    Map(u64, u64),
    Retain(u64, u64),
    Release(u64, bool),
    /// The first page, the number of pages, and whether the call fails.
    Unmap(u64, u64, bool),
}

fn call() -> impl Strategy<Value = Call> {
    let (handle, page) = (0..HANDLES, 0..PAGES);
    prop_oneof![
        handle.clone().prop_map(Call::Create),
        handle.clone().prop_map(Call::Import),
        (page.clone(), handle.clone()).prop_map(|(page, handle)| Call::Map(page, handle)),
        (handle.clone(), page.clone()).prop_map(|(handle, page)| Call::Retain(handle, page)),
        (handle, any::<bool>()).prop_map(|(handle, fails)| Call::Release(handle, fails)),
        (page, 1..3_u64, any::<bool>())
            .prop_map(|(page, count, fails)| Call::Unmap(page, count, fails)),
    ]
}

/// The state that a driver would know: each reference and each mapped page is one entry.
#[derive(Debug, Default)]
struct Model {
    objects: u64,
    /// The handles, each with its object. A handle is listed once for each reference.
    references: Vec<(u64, u64)>,
    /// The mapped pages, each with its object.
    maps: Vec<(u64, u64)>,
}

impl Model {
    fn named(&self, handle: u64) -> Option<u64> {
        let mut all = self.references.iter();
        all.find(|(name, _)| *name == handle)
            .map(|(_, object)| *object)
    }

    fn mapped(&self, page: u64) -> Option<u64> {
        let mut all = self.maps.iter();
        all.find(|(at, _)| *at == page).map(|(_, object)| *object)
    }

    fn live(&self) -> Vec<u64> {
        let held = self.references.iter().chain(&self.maps);
        let mut live: Vec<_> = held.map(|(_, object)| *object).collect();
        live.sort_unstable();
        live.dedup();
        live
    }

    fn make(&mut self, handle: u64) {
        self.objects += 1;
        self.references.push((handle, self.objects));
    }
}

/// The code under test, and the table that results from its changes.
#[derive(Debug, Default)]
struct Tested {
    physical: Physical,
    moment: u64,
    live: Vec<u64>,
}

impl Tested {
    fn record(&self, kind: Kind, handle: u64) -> Record {
        let space = Space::PhysicalHandle;
        let value = handle;
        let made = Creation {
            key: Key::new(space, value),
            kind,
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            bytes: PAGE,
            context: ContextUid(1),
            stream: 0,
            pool: 0,
            caller: Caller::default(),
        };
        let sequence = self.moment;
        Record { sequence, made }
    }

    fn follow(&mut self) {
        for change in mem::take(&mut self.physical.holds.changes) {
            match change {
                TableChange::Entered(record, _) => {
                    assert!(!self.live.contains(&record.key().value()), "{record:?}");
                    self.live.push(record.key().value());
                }
                TableChange::Left(record) | TableChange::Overwritten(record) => {
                    let at = self.live.iter().position(|id| *id == record.key().value());
                    self.live.remove(at.expect("it was live"));
                }
            }
        }
        self.live.sort_unstable();
    }

    fn end(&mut self, dropped: impl IntoIterator<Item = Dropped>, fails: bool) {
        for dropped in dropped {
            if fails {
                self.physical.put_back(dropped);
            } else {
                self.physical.holds.commit(dropped.taken);
            }
        }
        self.follow();
    }

    /// Carries out the call as the driver would. The driver refuses invalid calls.
    fn carry_out(&mut self, model: &mut Model, call: &Call) {
        self.moment += 1;
        match *call {
            Call::Create(handle) if model.named(handle).is_none() => {
                model.make(handle);
                let record = self.record(Kind::Physical, handle);
                self.physical.created(record);
            }
            Call::Import(handle) => {
                match model.named(handle) {
                    Some(object) => model.references.push((handle, object)),
                    None => model.make(handle),
                }
                let record = self.record(Kind::Imported, handle);
                self.physical.created(record);
            }
            Call::Map(page, handle) if model.mapped(page).is_none() => {
                let Some(object) = model.named(handle) else {
                    return;
                };
                model.maps.push((page, object));
                let (address, now) = (page * PAGE, self.moment);
                self.physical.mapped(address, PAGE, handle, now);
            }
            Call::Retain(handle, page) => {
                let Some(object) = model.mapped(page) else {
                    return;
                };
                if model.named(handle).is_some_and(|other| other != object) {
                    return;
                }
                model.references.push((handle, object));
                let (address, now) = (page * PAGE + 7, self.moment);
                self.physical.retained(handle, address, now);
            }
            Call::Release(handle, fails) => {
                let known = model
                    .references
                    .iter()
                    .position(|(name, _)| *name == handle);
                if let (Some(known), false) = (known, fails) {
                    model.references.remove(known);
                }
                let dropped = self.physical.release_began(handle);
                assert_eq!(dropped.is_some(), known.is_some());
                self.follow();
                self.end(dropped, fails);
                return;
            }
            Call::Unmap(page, count, fails) => {
                if !fails {
                    let range = page..page + count;
                    model.maps.retain(|(at, _)| !range.contains(at));
                }
                let (address, bytes) = (page * PAGE, count * PAGE);
                let dropped = self.physical.unmap_began(address, bytes);
                self.follow();
                self.end(dropped, fails);
                return;
            }
            Call::Create(_) | Call::Map(..) => {}
        }
        self.follow();
    }
}

proptest! {
    #[test]
    fn an_object_is_live_while_a_handle_names_it_or_a_range_maps_it(calls in vec(call(), 0..80)) {
        let (mut tested, mut model) = (Tested::default(), Model::default());
        for call in &calls {
            tested.carry_out(&mut model, call);
            prop_assert_eq!(&tested.live, &model.live(), "after {:?}", call);
        }
        let holdings = tested.physical.holdings();
        for object in model.live() {
            let of = |held: &[(u64, u64)]| held.iter().filter(|(_, o)| *o == object).count() as u64;
            let holding = holdings[&super::key_of(object)];
            prop_assert_eq!(holding.references, of(&model.references));
            prop_assert_eq!(holding.maps, of(&model.maps));
        }
        prop_assert_eq!(holdings.len(), model.live().len());
    }
}
