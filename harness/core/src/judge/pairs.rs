//! Serialises maps whose keys are not strings.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
    map: &BTreeMap<K, V>,
    out: S,
) -> Result<S::Ok, S::Error> {
    out.collect_seq(map)
}

pub(crate) fn deserialize<'de, K, V, D>(input: D) -> Result<BTreeMap<K, V>, D::Error>
where
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Vec::deserialize(input).map(BTreeMap::from_iter)
}
