//! The description of a planted leak.

use crate::device::Device;
use crate::error::Result;

/// A planted leak and the expected report.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// The name of the leak, for example `forgotten_handle`.
    pub name: &'static str,
    /// The mistake, in one sentence.
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

/// The layer of a leaked resource: an allocator, or the driver itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// This library's caching allocator, on any device.
    Caching,
    /// The CUDA driver, on a CUDA device only.
    Driver,
}

/// A line and what it leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The word after `// leak:` at the end of the line.
    pub mark: &'static str,
    /// The number of leaked blocks or handles.
    pub count: u64,
    /// Their total size in bytes, as the layer counts them: blocks in multiples of 512.
    pub bytes: u64,
}

impl Planted {
    /// Causes the leak. Each call leaks again.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory or fails.
    pub fn run(&self, device: &Device) -> Result<()> {
        (self.run)(device)
    }

    /// The number of blocks or handles that a call leaves behind.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sites.iter().map(|site| site.count).sum()
    }

    /// The number of bytes that a call leaves behind.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sites.iter().map(|site| site.bytes).sum()
    }

    /// The number, counted from 1, of a site's line in [`Self::file`].
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

/// Describes the leak in the source file that invokes this macro.
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

/// The size of the segment for requests above 1 MiB and below 10 MiB.
pub(super) const LARGE_SEGMENT: u64 = 20 << 20;
