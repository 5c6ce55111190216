//! Every figure at one moment.

use serde::{Deserialize, Serialize};

use crate::ledger::event::ContextUid;
use crate::ledger::{Counted, Layer, Place, PoolName};
use crate::order;

/// What each layer holds at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reading {
    /// One for each layer at each place.
    pub(crate) levels: Vec<Level>,
    /// Handles by place.
    pub(crate) handles: Vec<(Place, Counted)>,
    /// Whole devices, where they could be read.
    #[serde(default)]
    pub(crate) wholes: Vec<Whole>,
}

/// A whole device: what all that use it hold of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Whole {
    /// The device.
    pub(crate) place: Place,
    /// The context in which it was asked for.
    pub(crate) context: ContextUid,
    /// Bytes in use.
    pub(crate) used: u64,
    /// What that context has set apart.
    pub(crate) limits: Limits,
    /// Bytes in the driver's layer that need not lie in this device's own memory.
    pub(crate) elsewhere: u64,
    /// How many contexts live on it.
    pub(crate) contexts: u64,
    /// How many modules and libraries are loaded, on whatever device.
    pub(crate) code: u64,
}

/// Sizes that a context has set apart on its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Local memory of one thread.
    pub(crate) stack: u64,
    /// The buffer of `printf`.
    pub(crate) printf: u64,
    /// What kernels allocate from.
    pub(crate) heap: u64,
}

/// Which figures a level shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LevelName {
    /// The ledger's figures of one layer.
    Layer(Layer),
    /// A stream-ordered pool or the graph pool, by its attributes.
    Pool(PoolName),
    /// A probed allocator.
    Probe(Layer),
}

impl LevelName {
    /// The pool, where it is one of the driver's.
    pub(crate) const fn pool(self) -> Option<PoolName> {
        match self {
            Self::Pool(pool) => Some(pool),
            Self::Layer(_) | Self::Probe(_) => None,
        }
    }
}

/// `driver`, `pool 0`, `allocator:cubecl`.
impl std::fmt::Display for LevelName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Layer(layer) | Self::Probe(layer) => layer.fmt(out),
            Self::Pool(pool) => pool.fmt(out),
        }
    }
}

/// What one layer holds at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Level {
    /// The layer.
    pub(crate) name: LevelName,
    /// The place.
    pub(crate) place: Place,
    /// Bytes handed out.
    pub(crate) allocated: u64,
    /// The most since the check began, where somebody keeps it.
    pub(crate) peak: Option<u64>,
    /// Bytes held from the layer below, where the layer holds any.
    pub(crate) reserved: Option<u64>,
}

impl Reading {
    /// What `name` held at `place`; nothing, where it was not there.
    pub(crate) fn level(&self, name: &LevelName, place: Place) -> Option<&Level> {
        self.levels
            .iter()
            .find(|level| level.name == *name && level.place == place)
    }

    /// The whole device at `place`.
    pub(crate) fn whole(&self, place: Place) -> Option<&Whole> {
        self.wholes.iter().find(|whole| whole.place == place)
    }

    /// The handles at `place`.
    pub(crate) fn handles_at(&self, place: Place) -> Counted {
        let found = self.handles.iter().find(|(at, _)| *at == place);
        found.map_or(Counted::default(), |(_, counted)| *counted)
    }

    /// Every place that holds or held something, host last.
    pub(crate) fn places(&self) -> Vec<Place> {
        let levels = self.levels.iter().filter(|level| {
            level.allocated != 0 || level.peak.unwrap_or(0) != 0 || level.reserved.unwrap_or(0) != 0
        });
        let handles = self.handles.iter().filter(|(_, counted)| counted.peak != 0);
        let mut places: Vec<_> = levels
            .map(|level| level.place)
            .chain(handles.map(|(place, _)| *place))
            .collect();
        order::by_key(&mut places, |place| (*place == Place::HOST, *place));
        places.dedup();
        places
    }
}
