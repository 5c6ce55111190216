//! The names of the driver's pools.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A pool that the driver keeps on a device. In a file it is the name that people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PoolName {
    /// The memory of graphs' allocation nodes.
    Graph,
    /// The device's default stream-ordered pool, which always exists.
    Default,
    /// Another stream-ordered pool, by its handle.
    Other(u64),
}

/// `graph pool`, `pool 0`, `pool 0x7f…`.
impl fmt::Display for PoolName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graph => out.write_str("graph pool"),
            Self::Default => out.write_str("pool 0"),
            Self::Other(handle) => write!(out, "pool {handle:#x}"),
        }
    }
}

impl Serialize for PoolName {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PoolName {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        let handle = |text: &str| u64::from_str_radix(text.strip_prefix("pool 0x")?, 16).ok();
        match text.as_str() {
            "graph pool" => Ok(Self::Graph),
            "pool 0" => Ok(Self::Default),
            name => handle(name)
                .map(Self::Other)
                .ok_or_else(|| serde::de::Error::custom(format!("no pool is called {name:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PoolName;

    #[test]
    fn a_pool_is_its_name_in_a_file() {
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
}
