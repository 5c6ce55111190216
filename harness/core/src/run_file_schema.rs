//! The schemas of names and kinds in the published schema of the run file.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::ledger::{Amount, Kind, Layer, Place, PoolName};

impl JsonSchema for Kind {
    fn schema_name() -> Cow<'static, str> {
        "Kind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let kinds = Self::ALL.as_slice();
        json_schema!({
            "description": "The kind of a resource: a kind of memory, or a kind of handle.",
            "type": "string",
            "enum": kinds,
        })
    }
}

impl JsonSchema for Layer {
    fn schema_name() -> Cow<'static, str> {
        "Layer".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An allocator: the CUDA driver, or another one with its own name.",
            "type": "string",
            "pattern": "^(driver|allocator:.*)$",
        })
    }
}

impl JsonSchema for Place {
    fn schema_name() -> Cow<'static, str> {
        "Place".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`host`, `cuda:0`, or the name of another device.",
            "type": "string",
        })
    }
}

impl JsonSchema for PoolName {
    fn schema_name() -> Cow<'static, str> {
        "PoolName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A pool of the driver: the graph pool, a device's default pool, or another pool with its handle.",
            "type": "string",
            "pattern": "^(graph pool|pool 0|pool 0x[0-9a-f]+)$",
        })
    }
}

/// What a call site had left after a round.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the fields of an amount, for the schema")]
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
