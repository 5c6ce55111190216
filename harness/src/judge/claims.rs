//! Which records belong to an allocator that is judged by itself.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::ledger::event::{Key, Space};
use crate::ledger::{Holding, Kind, Layer, Place, Record};
use crate::probe::Segment;

/// The ranges that probed allocators hold from the layer below.
///
/// A record inside one of them is never a finding: its blocks are judged in the allocator's own
/// layer, and the segment as its reserve.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Vec<Claim>", from = "Vec<Claim>")]
pub(crate) struct Claims {
    /// By place and first address: the end, and the layer that claims.
    ranges: BTreeMap<(Place, u64), (u64, Layer)>,
}

/// One such range, as data.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Claim {
    layer: Layer,
    place: Place,
    address: u64,
    end: u64,
}

impl From<Claims> for Vec<Claim> {
    fn from(claims: Claims) -> Self {
        let ranges = claims.ranges.into_iter();
        let claim = |((place, address), (end, layer))| Claim {
            layer,
            place,
            address,
            end,
        };
        ranges.map(claim).collect()
    }
}

impl From<Vec<Claim>> for Claims {
    fn from(claims: Vec<Claim>) -> Self {
        let range = |claim: Claim| ((claim.place, claim.address), (claim.end, claim.layer));
        Self {
            ranges: claims.into_iter().map(range).collect(),
        }
    }
}

impl Claims {
    /// Enters what `layer` holds at `place`.
    pub(crate) fn add(&mut self, layer: Layer, place: Place, segments: &[Segment]) {
        for Segment { address, bytes } in segments {
            self.ranges
                .insert((place, *address), (address.saturating_add(*bytes), layer));
        }
    }

    /// Whether `layer` holds anything at `place`.
    pub(crate) fn has_any_of(&self, layer: Layer, place: Place) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|((at, _), (_, holder))| (*at, *holder) == (place, layer))
    }

    /// The allocator whose segment `record` is, or lies in. Physical memory lies where
    /// `holdings` say that it is mapped.
    pub(crate) fn owner(
        &self,
        record: &Record,
        holdings: &FxHashMap<Key, Holding>,
    ) -> Option<Layer> {
        let made = &record.made;
        let address = match made.key.space {
            Space::PhysicalObject => holdings.get(&made.key)?.mapped_at?,
            _ => made.key.value,
        };
        let from = (made.place, 0);
        let to = (made.place, address);
        let (_, (end, layer)) = self.ranges.range(from..=to).next_back()?;
        // The only handle that is an address.
        let has_address = !made.kind.is_handle() || made.kind == Kind::AddressRange;
        let inside = address < *end && has_address && made.layer != *layer;
        inside.then_some(*layer)
    }
}

#[cfg(test)]
mod tests {
    use super::{Claims, FxHashMap, Holding, Key, Kind, Layer, Place, Record, Segment, Space};
    use crate::ledger::event::{Caller, ContextUid, Creation};

    fn record(kind: Kind, layer: Layer, place: Place, address: u64) -> Record {
        let key = Key {
            space: Space::DevicePointer,
            value: address,
        };
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
        let mut claims = Claims::default();
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
            claims.owner(
                &physical,
                &FxHashMap::from_iter([(physical.key(), holding)]),
            )
        };
        assert_eq!(owner(Some(5000)), Some(cache));
        assert_eq!(owner(Some(6000)), None);
        assert_eq!(owner(None), None, "its number is no address");
        let range = record(Kind::AddressRange, Layer::DRIVER, Place::cuda(0), 4096);
        assert_eq!(claims.owner(&range, &FxHashMap::default()), Some(cache));
    }

    #[test]
    fn a_segment_is_claimed_and_the_allocator_s_own_blocks_are_not() {
        let cache = Layer::allocator("claims-test");
        let mut claims = Claims::default();
        claims.add(
            cache,
            Place::cuda(0),
            &[Segment {
                address: 4096,
                bytes: 1024,
            }],
        );
        let linear = |place, address| record(Kind::Linear, Layer::DRIVER, place, address);
        let owner = |record: &Record| claims.owner(record, &FxHashMap::default());
        assert_eq!(owner(&linear(Place::cuda(0), 4096)), Some(cache));
        assert_eq!(owner(&linear(Place::cuda(0), 5119)), Some(cache));
        assert_eq!(owner(&linear(Place::cuda(0), 5120)), None, "just behind");
        assert_eq!(owner(&linear(Place::cuda(0), 4095)), None, "just before");
        assert_eq!(owner(&linear(Place::cuda(1), 4096)), None, "another device");
        let block = record(Kind::Block, cache, Place::cuda(0), 4096);
        assert_eq!(owner(&block), None);
        let stream = record(Kind::Stream, Layer::DRIVER, Place::cuda(0), 4096);
        assert_eq!(owner(&stream), None, "a handle is no address");
    }
}
