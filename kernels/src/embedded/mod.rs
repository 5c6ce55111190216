//! A simulated GPU in host memory.

use std::sync::Mutex;

use crate::error::Result;

/// What an embedded device is like.
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// Its number: the `0` of `embedded:0`.
    pub ordinal: usize,
    /// Its memory in bytes.
    pub capacity: usize,
    /// What its context holds of that for as long as it lives.
    pub context_bytes: usize,
}

impl Default for EmbeddedConfig {
    /// 16 GiB, of which the context holds 512 MiB.
    fn default() -> Self {
        Self {
            ordinal: 0,
            capacity: 16 << 30,
            context_bytes: 512 << 20,
        }
    }
}

/// The device itself.
#[derive(Debug)]
pub struct Embedded {
    config: EmbeddedConfig,
    /// Held by the operation that runs: they take turns, as on a stream.
    order: Mutex<()>,
}

impl Embedded {
    pub(crate) fn new(config: EmbeddedConfig) -> Result<Self> {
        Ok(Self {
            config,
            order: Mutex::new(()),
        })
    }

    /// The device's number.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.config.ordinal
    }

    /// Taken by each operation while it runs.
    pub(crate) fn order(&self) -> &Mutex<()> {
        &self.order
    }
}
