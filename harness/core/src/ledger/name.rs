//! The names of layers and places, which records store as small numbers, and the names of the
//! driver's pools.

use std::cell::Cell;
use std::sync::OnceLock;
use std::{fmt, iter};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::recursion_guard::quiet;

/// A growing list of names, or the rest of it after one position. The index of a name never
/// changes.
///
/// The code under test may ask for a name inside an allocator, so the list has no lock that could
/// be held while something is allocated.
struct NameList(OnceLock<&'static ListedName>);

struct ListedName {
    name: Box<str>,
    next: NameList,
}

impl NameList {
    const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        let first = self.0.get().copied();
        let listed = iter::successors(first, |listed| listed.next.0.get().copied());
        listed.map(|listed| &*listed.name)
    }

    /// Returns the index of `name`, which is added if necessary. Returns `None` if the list is
    /// full, or if this thread is already adding a name.
    fn number(&self, name: &str) -> Option<u16> {
        let known = self.names().position(|known| known == name);
        let number = known.or_else(|| self.add(name))?;
        u16::try_from(number).ok()
    }

    #[cold]
    fn add(&self, name: &str) -> Option<usize> {
        thread_local! {
            static ADDING: Cell<bool> = const { Cell::new(false) };
        }

        if ADDING.replace(true) {
            // Storing a name allocates memory, and the program's global allocator may ask for a
            // name in turn.
            return None;
        }
        let _quiet = quiet();
        // Names come from a few statics (or one recording) and live as long as the process.
        let new: &'static ListedName = Box::leak(Box::new(ListedName {
            name: name.into(),
            next: Self::new(),
        }));
        ADDING.set(false);
        let (mut list, mut number) = (self, 0);
        while number < usize::from(MAX_NAMES) {
            let listed = *list.0.get_or_init(|| new);
            // Another thread may have added the same name in the meantime.
            if listed.name == new.name {
                return Some(number);
            }
            (list, number) = (&listed.next, number + 1);
        }
        None
    }

    fn name(&self, number: u16) -> Option<&'static str> {
        self.names().nth(number.into())
    }
}

/// The largest number of names. A look-up compares the names one after another, and no program has
/// this many allocators or devices.
const MAX_NAMES: u16 = 1 << 12;

static LAYERS: NameList = NameList::new();
static PLACES: NameList = NameList::new();

/// An allocator that is judged separately: a driver (CUDA or Vulkan), or an allocator that reports
/// through `observe` or has a probe.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layer(u16);

impl Layer {
    /// The layer of all resources that are created through the CUDA or Vulkan driver.
    pub const DRIVER: Self = Self(0);

    /// Returns the layer of the allocator `name`. The same name always gives the same layer.
    ///
    /// # Panics
    ///
    /// Panics if there are more than 4,096 names, or if the global allocator calls this function
    /// while a name is being stored.
    #[must_use]
    pub fn allocator(name: &str) -> Self {
        Self::try_allocator(name)
            .unwrap_or_else(|| panic!("gpu-leak-check: cannot add the allocator {name:?}"))
    }

    /// Returns the layer of the allocator `name`, or `None` under the conditions under which
    /// [`Self::allocator`] panics.
    pub fn try_allocator(name: &str) -> Option<Self> {
        Some(Self(LAYERS.number(name)? + 1))
    }

    /// Returns the allocator with this ID, or `None` for 0.
    pub fn numbered(number: u32) -> Option<Self> {
        let number = u16::try_from(number).ok().filter(|number| *number != 0)?;
        Some(Self(number))
    }

    /// Returns its ID, which is 0 only for the driver.
    pub const fn number(self) -> u32 {
        self.0 as u32
    }

    /// Returns the allocator's own name, or `None` for the driver.
    #[must_use]
    pub fn allocator_name(self) -> Option<&'static str> {
        LAYERS.name(self.0.checked_sub(1)?)
    }
}

/// Formats as `Layer(allocator:NAME)`, because the ID alone means nothing to a reader.
impl fmt::Debug for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Layer({self})")
    }
}

/// Formats as `driver` or `allocator:NAME`.
impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.allocator_name() {
            Some(name) => write!(out, "allocator:{name}"),
            None => out.write_str("driver"),
        }
    }
}

/// Where bytes are: the host, a CUDA device, or a device with its own name.
///
/// ```
/// # use gpu_leak_core as gpu_leak_check;
/// use gpu_leak_check::ledger::Place;
///
/// assert_eq!(Place::cuda(1).to_string(), "cuda:1");
/// assert_eq!(Place::named("wgpu:0").to_string(), "wgpu:0");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(u16);

impl Place {
    /// A place that is unknown, or not known yet, such as the place of a context that existed
    /// before the harness began to listen.
    pub const UNKNOWN: Self = Self(0);
    /// The host's memory.
    pub const HOST: Self = Self(1);
    const FIRST_CUDA: u16 = 2;
    const FIRST_NAMED: u16 = 1024;

    /// Returns the CUDA device with this ordinal, or [`Self::UNKNOWN`] if no device can have it.
    #[must_use]
    pub fn cuda(ordinal: usize) -> Self {
        let number = u16::try_from(ordinal.saturating_add(Self::FIRST_CUDA.into()));
        let number = number.ok().filter(|number| *number < Self::FIRST_NAMED);
        number.map_or(Self::UNKNOWN, Self)
    }

    /// Returns the place that is displayed as `name`, usually a device that is not a CUDA device,
    /// such as `embedded:0`.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::try_named(name).unwrap_or(Self::UNKNOWN)
    }

    fn try_named(name: &str) -> Option<Self> {
        let ordinal = name.strip_prefix("cuda:").and_then(|it| it.parse().ok());
        match (ordinal, name) {
            (Some(ordinal), _) => Some(Self::cuda(ordinal)),
            (None, "host") => Some(Self::HOST),
            (None, "unknown device") => Some(Self::UNKNOWN),
            (None, name) => Some(Self(Self::FIRST_NAMED + PLACES.number(name)?)),
        }
    }

    /// Returns the CUDA ordinal, if this is a CUDA device.
    #[must_use]
    pub fn cuda_ordinal(self) -> Option<usize> {
        let is_cuda = (Self::FIRST_CUDA..Self::FIRST_NAMED).contains(&self.0);
        is_cuda.then(|| usize::from(self.0 - Self::FIRST_CUDA))
    }
}

/// Formats as `Place(cuda:0)`, because the ID alone means nothing to a reader.
impl fmt::Debug for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Place({self})")
    }
}

/// Formats as `host`, `cuda:0`, or the device's own name.
impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.cuda_ordinal()) {
            (Self::HOST, _) => out.write_str("host"),
            (_, Some(ordinal)) => write!(out, "cuda:{ordinal}"),
            (place, None) => {
                let name = place.0.checked_sub(Self::FIRST_NAMED);
                out.write_str(
                    name.and_then(|n| PLACES.name(n))
                        .unwrap_or("unknown device"),
                )
            }
        }
    }
}

/// A pool that the driver keeps on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PoolName {
    /// The pool for the memory that alloc nodes of graphs allocate.
    Graph,
    /// The device's default stream-ordered pool, which always exists.
    Default,
    /// Another stream-ordered pool, by its handle.
    Other(u64),
}

/// Formats as `graph pool`, `pool 0` or `pool 0x7f…`.
impl fmt::Display for PoolName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graph => out.write_str("graph pool"),
            Self::Default => out.write_str("pool 0"),
            Self::Other(handle) => write!(out, "pool {handle:#x}"),
        }
    }
}

/// Files contain the displayed names, not the IDs.
macro_rules! named_in_files {
    ($($name:ty: $read:expr, $what:literal;)*) => {
        $(
            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                    out.collect_str(self)
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                    let text = String::deserialize(input)?;
                    let read: fn(&str) -> Option<Self> = $read;
                    read(&text).ok_or_else(|| Error::custom(format!("there is no {} named {text:?}", $what)))
                }
            }
        )*
    };
}

named_in_files! {
    Layer: |text| match text.strip_prefix("allocator:") {
        Some(name) => Self::try_allocator(name),
        None => (text == "driver").then_some(Self::DRIVER),
    }, "layer";
    Place: Self::try_named, "place";
    PoolName: |text| match text {
        "graph pool" => Some(Self::Graph),
        "pool 0" => Some(Self::Default),
        text => {
            let handle = u64::from_str_radix(text.strip_prefix("pool 0x")?, 16);
            handle.ok().map(Self::Other)
        }
    }, "pool";
}

#[cfg(test)]
mod tests {
    use super::{Layer, NameList, Place, PoolName};

    #[test]
    fn a_name_keeps_its_number() {
        let layer = Layer::allocator("name-test");
        assert_eq!(layer, Layer::allocator("name-test"));
        assert_eq!(layer.to_string(), "allocator:name-test");
        assert_eq!(Layer::DRIVER.to_string(), "driver");
        assert_eq!(format!("{layer:?}"), "Layer(allocator:name-test)");
        for layer in [layer, Layer::allocator("name-test-2")] {
            assert_eq!(Layer::numbered(layer.number()), Some(layer));
        }
        assert_eq!(Layer::numbered(0), None, "the driver's");
        assert_eq!(format!("{:?}", Place::cuda(0)), "Place(cuda:0)");
    }

    #[test]
    fn places_are_displayed_by_their_usual_names() {
        assert_eq!(Place::HOST.to_string(), "host");
        assert_eq!(Place::cuda(3).to_string(), "cuda:3");
        assert_eq!(Place::cuda(31).cuda_ordinal(), Some(31));
        assert_eq!(Place::cuda(1021).cuda_ordinal(), Some(1021));
        assert_eq!(Place::cuda(1022), Place::UNKNOWN);
        assert_eq!(Place::cuda(usize::MAX), Place::UNKNOWN);
        assert_eq!(Place::named("name-test:0").to_string(), "name-test:0");
        assert_eq!(Place::named("name-test:0").cuda_ordinal(), None);
    }

    /// Otherwise, one device would be two places, and a probe of one place would not claim the
    /// segments at the other.
    #[test]
    fn a_place_has_one_name() {
        for place in [Place::HOST, Place::UNKNOWN, Place::cuda(0), Place::cuda(3)] {
            assert_eq!(Place::named(&place.to_string()), place);
        }
    }

    #[test]
    fn names_keep_their_numbers_as_the_list_grows() {
        let names = NameList::new();
        let all: Vec<String> = (0..500).map(|number| format!("name {number}")).collect();
        for (name, number) in all.iter().zip(0..) {
            assert_eq!(names.number(name), Some(number));
        }
        for (name, number) in all.iter().zip(0..) {
            assert_eq!(
                (names.number(name), names.name(number)),
                (Some(number), Some(&**name))
            );
        }
    }

    #[test]
    fn a_pool_is_written_to_a_file_by_name() {
        for (pool, name) in [
            (PoolName::Graph, "graph pool"),
            (PoolName::Default, "pool 0"),
            (PoolName::Other(0x7f00), "pool 0x7f00"),
        ] {
            let text = serde_json::to_string(&pool).unwrap();
            assert_eq!(text, format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<PoolName>(&text).unwrap(), pool);
        }
        assert!(serde_json::from_str::<PoolName>("\"pool 0xyz\"").is_err());
        assert!(serde_json::from_str::<PoolName>("\"allocator:pool\"").is_err());
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
