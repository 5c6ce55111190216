//! Decides which records belong to an allocator that is judged in its own layer.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::pairs;

use crate::ledger::event::{Key, Space};
use crate::ledger::{Holding, Kind, Layer, Place, Record};

/// A range of addresses that an allocator holds in the layer below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first address, in the address space of the layer below. For memory of Vulkan, which has
    /// no address, this is its handle.
    pub address: u64,
    /// The size in bytes.
    pub bytes: u64,
}

/// The ranges that probed allocators hold in the layer below them.
///
/// A record inside one of these ranges is never a finding. The blocks in it are judged in the
/// allocator's own layer, and the segment itself is judged as that allocator's reserve.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SegmentMap {
    /// For each layer that holds segments at a place, their ranges by first address. An allocator
    /// may get its segments from another one, so the segments of two layers may overlap.
    #[serde(with = "pairs")]
    ranges: BTreeMap<(Layer, Place), Vec<Range<u64>>>,
}

impl SegmentMap {
    /// Adds the segments that `layer` holds at `place`.
    pub fn add(&mut self, layer: Layer, place: Place, segments: &[Segment]) {
        if segments.is_empty() {
            return;
        }
        let ranges = self.ranges.entry((layer, place)).or_default();
        let range = |it: &Segment| it.address..it.address.saturating_add(it.bytes);
        ranges.extend(segments.iter().map(range));
        ranges.sort_by_key(|range| range.start);
    }

    /// Returns the segment of `layer` at `place` that contains an address, as its first address and
    /// its end.
    pub fn segment_of(&self, layer: Layer, place: Place, address: u64) -> Option<(u64, u64)> {
        let range = around(self.ranges.get(&(layer, place))?, address)?;
        Some((range.start, range.end))
    }

    /// Whether `layer` holds anything at `place`.
    pub fn has_any_of(&self, layer: Layer, place: Place) -> bool {
        self.ranges.contains_key(&(layer, place))
    }

    /// Returns the allocator whose segment is or contains `record`. If there are several, returns
    /// the one with the smallest segment. Physical memory is located at the addresses at which it
    /// is mapped according to `holdings`.
    ///
    /// A record in a segment of its own layer is claimed only by an allocator that holds a part of
    /// that segment. So an allocator does not claim the segments of the allocators above it. If two
    /// allocators hold exactly the same range, it is unknown which one is above the other, so
    /// neither claims it: reporting a leak in both layers is better than reporting it in neither.
    pub fn owner(&self, record: &Record, holdings: &BTreeMap<Key, Holding>) -> Option<Layer> {
        let made = &record.made;
        // An address range is the only kind of handle that is an address.
        if made.kind.is_handle() && made.kind != Kind::AddressRange {
            return None;
        }
        let address = match made.key.space {
            Space::PhysicalObject => holdings.get(&made.key)?.mapped_at?,
            _ => made.key.value(),
        };
        // A handle is not an address, so other handles are not inside the segment.
        let is_handle = matches!(made.key.space, Space::Object { .. });
        let own = self.ranges.get(&(made.layer, made.place));
        let own = own.and_then(|ranges| around(ranges, address));
        let claims = self.ranges.iter().filter_map(|((layer, place), ranges)| {
            let range = around(ranges, address)?;
            let is_above = own.as_ref().is_none_or(|own| is_part(&range, own));
            let is_inside = !is_handle || range.start == address;
            let claims = *place == made.place && *layer != made.layer && is_above && is_inside;
            claims.then_some((range.end - range.start, *layer))
        });
        claims.min().map(|(_, layer)| layer)
    }
}

/// Returns the range among the `ranges` of one layer that contains `address`.
fn around(ranges: &[Range<u64>], address: u64) -> Option<Range<u64>> {
    let after = ranges.partition_point(|range| range.start <= address);
    let last = ranges[..after].last()?;
    last.contains(&address).then(|| last.clone())
}

/// Whether `range` is a proper part of `whole`.
fn is_part(range: &Range<u64>, whole: &Range<u64>) -> bool {
    whole.start <= range.start && range.end <= whole.end && range != whole
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, Holding, Key, Kind, Layer, Place, Record, Segment, SegmentMap, Space};
    use crate::ledger::event::{Caller, ContextUid, Creation};

    fn record(kind: Kind, layer: Layer, place: Place, address: u64) -> Record {
        let key = Key::new(Space::DevicePointer, address);
        let context = ContextUid(1);
        let caller = Caller::default();
        let made = Creation {
            key,
            kind,
            layer,
            place,
            bytes: 8,
            context,
            stream: 0,
            pool: 0,
            caller,
        };
        Record { sequence: 1, made }
    }

    #[test]
    fn physical_memory_is_claimed_where_it_is_mapped() {
        let cache = Layer::allocator("claims-test");
        let mut claims = SegmentMap::default();
        let segment = Segment {
            address: 4096,
            bytes: 1024,
        };
        claims.add(cache, Place::cuda(0), &[segment]);
        let mut physical = record(Kind::Physical, Layer::DRIVER, Place::cuda(0), 4100);
        physical.made.key.space = Space::PhysicalObject;
        let owner = |mapped_at| {
            let holding = Holding {
                references: 0,
                maps: 1,
                mapped_at,
            };
            claims.owner(&physical, &BTreeMap::from_iter([(physical.key(), holding)]))
        };
        assert_eq!(owner(Some(5000)), Some(cache));
        assert_eq!(owner(Some(6000)), None);
        assert_eq!(owner(None), None, "an object's ID is not an address");
        let range = record(Kind::AddressRange, Layer::DRIVER, Place::cuda(0), 4096);
        assert_eq!(claims.owner(&range, &BTreeMap::default()), Some(cache));
    }

    /// A driver's handles are often addresses of its own small heap blocks, so other memory may have
    /// a handle that is less than a segment's size greater.
    #[test]
    fn memory_that_has_only_a_handle_is_claimed_by_that_handle() {
        let cache = Layer::allocator("claims-test");
        let place = Place::named("vulkan:0");
        let mut claims = SegmentMap::default();
        let segment = |address| Segment {
            address,
            bytes: 1 << 20,
        };
        claims.add(cache, place, &[0x5000, 0x5400].map(segment));
        let owner = |handle| {
            let mut memory = record(Kind::Memory, Layer::DRIVER, place, handle);
            memory.made.key.space = Space::Object {
                kind: Kind::Memory,
                context: ContextUid(1),
                copy: 0,
            };
            claims.owner(&memory, &BTreeMap::default())
        };
        assert_eq!([0x5000, 0x5400].map(owner), [Some(cache); 2]);
        assert_eq!([0x5200, 0x5800].map(owner), [None; 2]);
    }

    #[test]
    fn a_segment_is_claimed_and_the_allocator_s_own_blocks_are_not() {
        let cache = Layer::allocator("claims-test");
        let mut claims = SegmentMap::default();
        claims.add(
            cache,
            Place::cuda(0),
            &[Segment {
                address: 4096,
                bytes: 1024,
            }],
        );
        let linear = |place, address| record(Kind::Linear, Layer::DRIVER, place, address);
        let owner = |record: &Record| claims.owner(record, &BTreeMap::default());
        assert_eq!(owner(&linear(Place::cuda(0), 4096)), Some(cache));
        assert_eq!(owner(&linear(Place::cuda(0), 5119)), Some(cache));
        assert_eq!(owner(&linear(Place::cuda(0), 5120)), None, "just behind");
        assert_eq!(owner(&linear(Place::cuda(0), 4095)), None, "just before");
        assert_eq!(owner(&linear(Place::cuda(1), 4096)), None, "another device");
        let block = record(Kind::Block, cache, Place::cuda(0), 4096);
        assert_eq!(owner(&block), None);
        let stream = record(Kind::Stream, Layer::DRIVER, Place::cuda(0), 4096);
        assert_eq!(owner(&stream), None, "a handle is not an address");
    }

    #[test]
    fn nested_allocators_each_claim_their_segments_of_the_one_below() {
        let (outer, inner) = (
            Layer::allocator("claims-outer"),
            Layer::allocator("claims-inner"),
        );
        let place = Place::cuda(0);
        let segment = |address, bytes| [Segment { address, bytes }];
        for inner_begins in [4096, 5120, 7168] {
            for outer_is_last in [false, true] {
                let mut all = vec![
                    (outer, segment(4096, 4096)),
                    (inner, segment(inner_begins, 1024)),
                ];
                if outer_is_last {
                    all.reverse();
                }
                let mut claims = SegmentMap::default();
                for (layer, segments) in all {
                    claims.add(layer, place, &segments);
                }
                let text = serde_json::to_string(&claims).unwrap();
                let claims: SegmentMap = serde_json::from_str(&text).unwrap();
                let owner = |layer, address| {
                    let kind = match layer {
                        Layer::DRIVER => Kind::Linear,
                        _ => Kind::Block,
                    };
                    claims.owner(&record(kind, layer, place, address), &BTreeMap::default())
                };
                // A segment of the inner allocator is a block of the outer one, not a leak.
                assert_eq!(owner(outer, inner_begins), Some(inner));
                assert_eq!(owner(outer, 6500), None, "a block of another allocator");
                assert_eq!(owner(inner, inner_begins), None, "a block of its own");
                assert_eq!(owner(Layer::DRIVER, inner_begins), Some(inner));
                // This address is in the outer allocator's segment, after the inner one's segment.
                assert_eq!(owner(Layer::DRIVER, 6500), Some(outer));
                assert!(claims.has_any_of(outer, place) && claims.has_any_of(inner, place));
            }
        }
    }

    #[test]
    fn the_smallest_segment_decides_wherever_it_lies() {
        let (outer, inner) = (
            Layer::allocator("claims-outer"),
            Layer::allocator("claims-inner"),
        );
        let place = Place::cuda(0);
        let mut claims = SegmentMap::default();
        for (layer, address, bytes) in [(outer, 1 << 30, 4096), (inner, (1 << 30) + 1024, 1024)] {
            claims.add(layer, place, &[Segment { address, bytes }]);
        }
        let record = record(Kind::Linear, Layer::DRIVER, place, (1 << 30) + 1024);
        assert_eq!(claims.owner(&record, &BTreeMap::default()), Some(inner));
    }
}
