//! Names that the hot path carries as small numbers: layers and places.

use std::cell::Cell;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::quiet::quiet;

/// As many names as any list has.
const MOST: usize = 32;

/// A growing list of names; a name's number never changes.
///
/// An allocator may ask for a name in the middle of an allocation: nothing is allocated while the
/// lock is held.
struct Names(Mutex<Known>);

#[derive(Clone, Copy)]
struct Known {
    names: [&'static str; MOST],
    count: usize,
}

impl Known {
    fn number(&self, name: &str) -> Option<usize> {
        let mut known = self.names[..self.count].iter();
        known.position(|known| *known == name)
    }
}

impl Names {
    const fn new() -> Self {
        Self(Mutex::new(Known {
            names: [""; MOST],
            count: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of `name`, new or known, or `None` when `limit` names are taken.
    fn number(&self, name: &str, limit: usize) -> Option<usize> {
        let known = self.lock().number(name);
        known.or_else(|| self.add(name, limit.min(MOST)))
    }

    #[cold]
    fn add(&self, name: &str, limit: usize) -> Option<usize> {
        thread_local! {
            static ADDING: Cell<bool> = const { Cell::new(false) };
        }

        if self.lock().count >= limit || ADDING.replace(true) {
            // Else the allocator that this name is to be kept by asks for it in turn.
            return None;
        }
        let _quiet = quiet();
        // Names come from a few statics (or one recording) and live as long as the process.
        let kept = Box::leak(name.to_owned().into_boxed_str());
        let mut known = self.lock();
        ADDING.set(false);
        // Another thread may have been quicker.
        if let Some(number) = known.number(kept) {
            return Some(number);
        }
        let number = known.count;
        *known.names[..limit].get_mut(number)? = kept;
        known.count += 1;
        Some(number)
    }

    fn name(&self, number: usize) -> Option<&'static str> {
        let known = self.lock();
        known.names[..known.count].get(number).copied()
    }
}

static LAYERS: Names = Names::new();
static PLACES: Names = Names::new();

/// One allocator seen by itself: the CUDA driver, or one that reports through
/// [`observe`](crate::observe).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layer(u8);

impl Layer {
    /// Every allocation call of the CUDA driver.
    pub const DRIVER: Self = Self(0);
    /// How many layers one process can have.
    pub const LIMIT: usize = 16;

    /// The layer of the allocator called `name`; the same name gives the same layer.
    ///
    /// # Panics
    ///
    /// When the process has more than 15 named allocators.
    #[must_use]
    pub fn allocator(name: &str) -> Self {
        Self::try_allocator(name).unwrap_or_else(|| {
            panic!(
                "gpu-leak-check: {name:?} is one allocator more than the {} that can be told apart \
                 in one process; call those that belong together by one name",
                Self::LIMIT - 1
            )
        })
    }

    /// As [`Self::allocator`]; none when there are too many.
    pub(crate) fn try_allocator(name: &str) -> Option<Self> {
        let number = LAYERS.number(name, Self::LIMIT - 1)?;
        u8::try_from(number + 1).ok().map(Self)
    }

    /// The allocator with this number; none for 0.
    pub(crate) fn numbered(number: u32) -> Option<Self> {
        let number = u8::try_from(number).ok().filter(|number| *number != 0)?;
        Some(Self(number))
    }

    /// Its number, never 0 for an allocator.
    pub(crate) const fn number(self) -> u32 {
        self.0 as u32
    }

    /// The layer at this index of a table of [`Self::LIMIT`] layers, where it has a name.
    #[must_use]
    pub fn known(index: usize) -> Option<Self> {
        let layer = Self(u8::try_from(index).ok()?);
        (layer == Self::DRIVER || layer.allocator_name().is_some()).then_some(layer)
    }

    /// Its place in a table of [`Self::LIMIT`] layers.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The allocator's own name; none for the driver.
    #[must_use]
    pub fn allocator_name(self) -> Option<&'static str> {
        LAYERS.name(self.index().checked_sub(1)?)
    }
}

/// `driver`, or `allocator:NAME`.
impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.allocator_name() {
            Some(name) => write!(out, "allocator:{name}"),
            None => out.write_str("driver"),
        }
    }
}

/// Where bytes live: the host, a CUDA device, or a device with a name of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(u8);

impl Place {
    /// Not known (yet): a context that was there before the harness.
    pub const UNKNOWN: Self = Self(0);
    /// The host's memory.
    pub const HOST: Self = Self(1);
    /// How many places one process can have.
    pub const LIMIT: usize = 64;
    const FIRST_CUDA: usize = 2;
    const FIRST_NAMED: usize = 34;

    /// The CUDA device with this ordinal.
    #[must_use]
    pub fn cuda(ordinal: usize) -> Self {
        match u8::try_from(Self::FIRST_CUDA.saturating_add(ordinal)) {
            Ok(number) if usize::from(number) < Self::FIRST_NAMED => Self(number),
            _ => Self::UNKNOWN,
        }
    }

    /// A device that is no CUDA device, such as `embedded:0`. [`Self::UNKNOWN`] beyond 30 of them
    /// in one process.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::try_named(name).unwrap_or(Self::UNKNOWN)
    }

    fn try_named(name: &str) -> Option<Self> {
        let number = PLACES.number(name, Self::LIMIT - Self::FIRST_NAMED)?;
        u8::try_from(Self::FIRST_NAMED + number).ok().map(Self)
    }

    /// Its place in a table of [`Self::LIMIT`] places.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The place at this index of such a table.
    #[must_use]
    pub fn at(index: usize) -> Self {
        u8::try_from(index).map_or(Self::UNKNOWN, Self)
    }

    /// The CUDA ordinal, of a CUDA device.
    #[must_use]
    pub fn cuda_ordinal(self) -> Option<usize> {
        (Self::FIRST_CUDA..Self::FIRST_NAMED)
            .contains(&self.index())
            .then(|| self.index() - Self::FIRST_CUDA)
    }
}

/// `host`, `cuda:0`, or the device's own name.
impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.cuda_ordinal()) {
            (Self::HOST, _) => out.write_str("host"),
            (_, Some(ordinal)) => write!(out, "cuda:{ordinal}"),
            (place, None) => {
                let name = place.index().checked_sub(Self::FIRST_NAMED);
                out.write_str(
                    name.and_then(|n| PLACES.name(n))
                        .unwrap_or("unknown device"),
                )
            }
        }
    }
}

impl From<Layer> for String {
    fn from(layer: Layer) -> Self {
        layer.to_string()
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}

impl Serialize for Layer {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl Serialize for Place {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Layer {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        match text.strip_prefix("allocator:") {
            Some(name) => Self::try_allocator(name)
                .ok_or_else(|| serde::de::Error::custom("more than 15 allocators in one process")),
            None if text == "driver" => Ok(Self::DRIVER),
            None => Err(serde::de::Error::custom(format!(
                "no layer is called {text:?}"
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        if let Some(ordinal) = text.strip_prefix("cuda:").and_then(|n| n.parse().ok()) {
            return Ok(Self::cuda(ordinal));
        }
        match text.as_str() {
            "host" => Ok(Self::HOST),
            "unknown device" => Ok(Self::UNKNOWN),
            name => Self::try_named(name).ok_or_else(|| {
                serde::de::Error::custom("more than 30 named devices in one process")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Layer, Place};

    #[test]
    fn a_name_keeps_its_number() {
        let layer = Layer::allocator("name-test");
        assert_eq!(layer, Layer::allocator("name-test"));
        assert_eq!(layer.to_string(), "allocator:name-test");
        assert_eq!(Layer::DRIVER.to_string(), "driver");
    }

    #[test]
    fn places_have_the_names_users_know() {
        assert_eq!(Place::HOST.to_string(), "host");
        assert_eq!(Place::cuda(3).to_string(), "cuda:3");
        assert_eq!(Place::cuda(31).cuda_ordinal(), Some(31));
        assert_eq!(Place::cuda(32), Place::UNKNOWN);
        assert_eq!(Place::cuda(usize::MAX), Place::UNKNOWN);
        assert_eq!(Place::named("name-test:0").to_string(), "name-test:0");
        assert_eq!(Place::named("name-test:0").cuda_ordinal(), None);
    }

    #[test]
    fn a_full_list_knows_its_names_and_takes_no_more() {
        let names = super::Names::new();
        assert_eq!(
            [names.number("a", 2), names.number("b", 2)],
            [Some(0), Some(1)]
        );
        assert_eq!(names.number("c", 2), None);
        assert_eq!(names.number("a", 2), Some(0));
    }

    #[test]
    fn places_survive_json() {
        for place in [
            Place::HOST,
            Place::UNKNOWN,
            Place::cuda(1),
            Place::named("json:7"),
        ] {
            let text = serde_json::to_string(&place).unwrap();
            assert_eq!(serde_json::from_str::<Place>(&text).unwrap(), place);
        }
    }
}
