//! The properties of an embedded device.

use crate::allocator::Policy;

/// An embedded device's ordinal, memory and allocator.
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// The device's ordinal: the `0` of `embedded:0`.
    pub ordinal: usize,
    /// The size of its memory in bytes.
    pub capacity: usize,
    /// The bytes of this memory that the device's context holds as long as it lives.
    pub context_bytes: usize,
    /// Whether its allocator caches freed memory.
    pub policy: Policy,
}

impl Default for EmbeddedConfig {
    /// Ordinal 0, a cache, and 16 GiB of memory, of which the context holds 512 MiB.
    fn default() -> Self {
        Self {
            ordinal: 0,
            capacity: 16 << 30,
            context_bytes: 512 << 20,
            policy: Policy::Caching,
        }
    }
}
