//! The usage of layers, handles and devices at one moment.

use serde::{Deserialize, Serialize};

use crate::ledger::event::ContextUid;
use crate::ledger::{Amount, Counted, Layer, Place, PoolName};
use crate::units::total;

/// All figures at one moment: those of each layer, of the handles and of the whole devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The usage of each layer at each place.
    pub layers: Vec<LayerUsage>,
    /// The handles at each place.
    pub handles: Vec<(Place, Counted)>,
    /// The usage of whole devices, where it could be read.
    pub whole_devices: Vec<DeviceUsage>,
}

/// Sizes that a context has reserved on its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextLimits {
    /// `CU_LIMIT_STACK_SIZE`: the local memory of one thread. The driver raises it on its own when
    /// a kernel needs more, and never lowers it.
    pub stack: u64,
    /// `CU_LIMIT_PRINTF_FIFO_SIZE`: the buffer of `printf`.
    pub printf: u64,
    /// `CU_LIMIT_MALLOC_HEAP_SIZE`: the heap from which kernels allocate.
    pub heap: u64,
}

/// The usage of a whole device: the memory in use by all processes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUsage {
    /// The device.
    pub place: Place,
    /// The context in which it was read.
    pub context: ContextUid,
    /// Bytes in use.
    pub used: u64,
    /// The sizes that this context has reserved.
    pub limits: ContextLimits,
    /// Bytes in the driver's layer that may be located outside this device's own memory.
    pub elsewhere: u64,
    /// How many live contexts the device has.
    pub contexts: u64,
    /// How many modules and libraries are loaded on all devices together.
    pub code: u64,
}

/// The name of a row of figures.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerName {
    /// The ledger's figures of one layer.
    Layer(Layer),
    /// A stream-ordered pool or the graph pool, as its attributes report it.
    Pool(PoolName),
    /// A probed allocator.
    Probe(Layer),
}

impl LayerName {
    /// Returns the layer that these figures belong to, or that contains the pool.
    pub(crate) const fn layer(&self) -> Layer {
        match self {
            Self::Layer(layer) | Self::Probe(layer) => *layer,
            Self::Pool(_) => Layer::DRIVER,
        }
    }

    /// Returns the pool, if these are the figures of a pool.
    pub(crate) const fn pool(&self) -> Option<PoolName> {
        match self {
            Self::Pool(pool) => Some(*pool),
            Self::Layer(_) | Self::Probe(_) => None,
        }
    }
}

/// Formats as `driver`, `pool 0` or `allocator:cubecl`.
impl std::fmt::Display for LayerName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Layer(layer) | Self::Probe(layer) => layer.fmt(out),
            Self::Pool(name) => name.fmt(out),
        }
    }
}

/// The usage of one layer at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerUsage {
    /// The layer.
    pub name: LayerName,
    /// The place.
    pub place: Place,
    /// Bytes handed out.
    pub allocated: u64,
    /// The peak since the check began, if it is tracked.
    pub peak: Option<u64>,
    /// Bytes reserved from the layer below, if the layer reserves any.
    pub reserved: Option<u64>,
    /// The bytes of the live blocks of a probed allocator that reports its blocks.
    pub reported: Option<u64>,
    /// How far `reported` may be from the memory that was handed out when both were read. These are
    /// bytes that threads had allocated but not reported yet, or had reported as freed but not
    /// freed yet.
    pub in_motion: u64,
    /// The most bytes that the allocator may have added to reported blocks by rounding up their
    /// sizes. This counts the live blocks that were created since the baseline, no matter who owns
    /// them, and is read only if more is unreported than at the baseline.
    #[serde(default)]
    pub rounding: u64,
}

/// The largest number of bytes that an allocator may add to a small block by rounding up its size.
/// The size of a larger block may be doubled.
const ROUNDING: u64 = 512;

/// Returns the most bytes that an allocator may have added to blocks of these sizes.
pub fn rounding(sizes: impl Iterator<Item = u64>) -> u64 {
    total(sizes.map(|bytes| bytes.max(ROUNDING)))
}

impl LayerUsage {
    /// Returns empty usage for this layer and place.
    pub const fn new(name: LayerName, place: Place) -> Self {
        Self {
            name,
            place,
            allocated: 0,
            peak: None,
            reserved: None,
            reported: None,
            in_motion: 0,
            rounding: 0,
        }
    }

    /// Returns the number of reserved bytes.
    pub fn reserve(&self) -> u64 {
        self.reserved.unwrap_or(0)
    }

    /// Returns the number of bytes that the allocator has handed out but not reported.
    pub fn unreported(&self) -> u64 {
        self.allocated.saturating_sub(self.reported.unwrap_or(0))
    }

    /// Returns the number of unreported bytes that rounding does not explain.
    pub fn unexplained(&self) -> u64 {
        self.unreported().saturating_sub(self.rounding)
    }
}

impl Usage {
    /// Returns the usage of `name` at `place`, if there is any.
    pub fn layer(&self, name: &LayerName, place: Place) -> Option<&LayerUsage> {
        self.layers
            .iter()
            .find(|layer| layer.name == *name && layer.place == place)
    }

    /// Returns by how much a figure of `now` exceeds that of the same layer and place in this usage.
    pub fn rise_to(&self, now: &LayerUsage, figure: fn(&LayerUsage) -> u64) -> u64 {
        let was = self.layer(&now.name, now.place).map_or(0, figure);
        figure(now).saturating_sub(was)
    }

    /// Returns the usage of the whole device at `place`.
    pub fn whole(&self, place: Place) -> Option<&DeviceUsage> {
        self.whole_devices.iter().find(|whole| whole.place == place)
    }

    /// Returns the handles at `place`.
    pub fn handles_at(&self, place: Place) -> Counted {
        let found = self.handles.iter().find(|(at, _)| *at == place);
        found.map_or(Counted::default(), |(_, counted)| *counted)
    }
}

/// Returns every place that holds or held something, in order.
pub fn places(before: &Usage, after: &Usage) -> Vec<Place> {
    let mut places = Vec::new();
    for usage in [before, after] {
        let is_used = |it: &&LayerUsage| it.allocated != 0 || it.peak.max(it.reserved) > Some(0);
        let layers = usage.layers.iter().filter(is_used).map(|it| it.place);
        let handles = usage.handles.iter().filter(|it| it.1.peak != 0);
        places.extend(layers.chain(handles.map(|(place, _)| *place)));
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// Whether each of these levels is higher than the previous one, in number or in bytes.
pub(crate) fn gains_always(levels: &[Amount]) -> bool {
    let mut before = Amount::default();
    let mut gains = |level: &Amount| level.exceeds(std::mem::replace(&mut before, *level));
    levels.iter().all(&mut gains)
}
