//! The properties of an embedded device.

use crate::allocator::Policy;

/// An embedded device's number, memory and allocator.
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// Its number: the `0` of `embedded:0`.
    pub ordinal: usize,
    /// Its memory in bytes.
    pub capacity: usize,
    /// How much of that the device's context holds as long as it lives.
    pub context_bytes: usize,
    /// Whether its allocator caches freed memory.
    pub policy: Policy,
}

impl Default for EmbeddedConfig {
    /// Number 0; 16 GiB, of which the context holds 512 MiB; with a cache.
    fn default() -> Self {
        Self {
            ordinal: 0,
            capacity: 16 << 30,
            context_bytes: 512 << 20,
            policy: Policy::Caching,
        }
    }
}
