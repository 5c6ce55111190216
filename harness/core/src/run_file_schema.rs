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
        "description": "An allocator: the CUDA driver, or another allocator, identified by its \
         name.",
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

/// The resources that a call site had left after a round.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "declares the fields of an amount for the schema")]
struct Left {
    /// How many.
    count: u64,
    /// How many bytes.
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
