//! A planted leak, as data.

use crate::device::Device;
use crate::error::Result;

/// A leak, as data.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// Its name: `forgotten_handle`.
    pub name: &'static str,
    /// The mistake, in a sentence.
    pub mistake: &'static str,
    /// The layer of the leaked resource.
    pub layer: Layer,
    /// The kind of the leaked resource, as named in reports.
    pub kind: &'static str,
    /// The lines that allocated it.
    pub sites: &'static [Site],
    /// The bytes that the caching allocator still holds after its cache has been emptied: the
    /// segments that the leaked blocks pin.
    pub reserved: u64,
    /// The source file, relative to the workspace.
    pub file: &'static str,
    pub(super) source: &'static str,
    pub(super) run: fn(&Device) -> Result<()>,
}

/// Which allocator, or the driver itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// This library's caching allocator, on any device.
    Caching,
    /// The CUDA driver: only a CUDA device can leak it.
    Driver,
}

/// One line and its leak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The word after `// leak:` at the end of the line.
    pub mark: &'static str,
    /// How many blocks or handles.
    pub count: u64,
    /// Their total size in bytes, as the layer counts them: blocks in multiples of 512.
    pub bytes: u64,
}

impl Planted {
    /// Leaks; each call leaks again.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory or fails.
    pub fn run(&self, device: &Device) -> Result<()> {
        (self.run)(device)
    }

    /// How many blocks or handles a call leaves behind.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sites.iter().map(|site| site.count).sum()
    }

    /// How many bytes a call leaves behind.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sites.iter().map(|site| site.bytes).sum()
    }

    /// The line of a site in [`Self::file`], from 1.
    ///
    /// # Panics
    ///
    /// Panics if the site does not belong to this leak.
    #[must_use]
    pub fn line(&self, site: &Site) -> u32 {
        let end = format!("// leak: {}", site.mark);
        let mut lines = (1..).zip(self.source.lines());
        let marked = lines.find(|(_, line)| line.ends_with(&end));
        marked.expect("every site is marked in its source").0
    }
}

/// Describes the leak of the file that it is used in.
macro_rules! planted {
    (
        $name:literal, $mistake:literal, $layer:ident, $kind:literal,
        [$($mark:literal: $count:literal of $bytes:literal),+], $reserved:expr
    ) => {
        pub(super) const PLANTED: super::leak::Planted = super::leak::Planted {
            name: $name,
            mistake: $mistake,
            layer: super::leak::Layer::$layer,
            kind: $kind,
            sites: &[$(super::leak::Site { mark: $mark, count: $count, bytes: $count * $bytes }),+],
            reserved: $reserved,
            file: file!(),
            source: include_str!(concat!($name, ".rs")),
            run,
        };
    };
}
pub(super) use planted;

/// The size of a segment of the caching allocator's small pool.
pub(super) const SMALL_SEGMENT: u64 = 2 << 20;

/// The same for requests from 1 MiB to 10 MiB.
pub(super) const LARGE_SEGMENT: u64 = 20 << 20;
