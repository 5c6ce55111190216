//! The schemas of names and kinds in the published schema of the run file.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::ledger::{Amount, Kind, Layer, Place, PoolName};

/// Implements the schemas of types that are written as text in the file.
macro_rules! texts {
    ($($type:ident: $schema:tt)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

texts! {
    Kind: {
        "description": "The kind of a resource: a kind of memory, or a kind of handle.",
        "type": "string",
        "enum": (Kind::ALL.as_slice()),
    }
    Layer: {
        "description": "The allocator: `driver` for the CUDA or Vulkan driver, or \
         `allocator:NAME` for an allocator that reports its blocks or has a probe.",
        "type": "string",
        "pattern": "^(driver|allocator:.*)$",
    }
    Place: {
        "description": "`host`, `cuda:0`, or the name of another device.",
        "type": "string",
    }
    PoolName: {
        "description": "A pool of the driver: the graph pool, a device's default pool (`pool 0`), or another pool by its handle.",
        "type": "string",
        "pattern": "^(graph pool|pool 0|pool 0x[0-9a-f]+)$",
    }
}

/// A number of resources and their total size.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "declares the fields of an amount for the schema")]
struct Left {
    /// The number of resources.
    count: u64,
    /// The total size of the resources in bytes.
    bytes: u64,
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        Left::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Left::json_schema(generator)
    }
}
