mod complete;

use std::collections::HashSet;

use super::{At, Bytes, Call, TABLE, Watched, call};
use crate::ledger::Kind;
use crate::ledger::event::Space;

fn created() -> HashSet<Space> {
    let space = |call| match call {
        Call::Creates(create) => Some(create.space),
        Call::Maps { .. } => Some(Space::Mapping),
        _ => None,
    };
    TABLE.iter().filter_map(|row| space(row.call)).collect()
}

fn released() -> HashSet<Space> {
    let space = |call| match call {
        Call::Releases(release) => Some(release.space),
        _ => None,
    };
    TABLE.iter().filter_map(|row| space(row.call)).collect()
}

#[test]
fn whatever_can_be_made_can_be_released_and_the_other_way_round() {
    assert_eq!(created(), released());
}

#[test]
fn each_name_stands_once() {
    let names: HashSet<_> = TABLE.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), TABLE.len());
}

#[test]
fn every_row_is_found_by_its_id_and_nothing_else_is() {
    for row in TABLE {
        assert!(call(row.id).is_some(), "{}", row.name);
    }
    let ids: HashSet<_> = TABLE.iter().map(|row| row.id).collect();
    for id in (0..2000).chain([u32::MAX]).filter(|id| !ids.contains(id)) {
        assert!(call(id).is_none(), "{id}");
    }
}

#[test]
fn handles_have_no_bytes_and_memory_has() {
    for row in TABLE {
        if let Call::Creates(create) = row.call {
            // What another process shares comes without its size.
            let has_bytes = !matches!(create.bytes, Bytes::None) || create.kind == Kind::Imported;
            assert_eq!(has_bytes, !create.kind.is_handle(), "{}", row.name);
            // A multicast object is released as physical memory is.
            if create.kind.is_handle() && create.kind != Kind::Multicast {
                assert_eq!(create.space, Space::Handle(create.kind), "{}", row.name);
            }
        }
    }
}

#[test]
fn both_forms_of_a_stream_call_are_watched() {
    for row in TABLE {
        if let Some(plain) = row.name.strip_suffix("_ptsz") {
            assert!(TABLE.iter().any(|other| other.name == plain), "{plain}");
        }
    }
    let capturable = |row: &Watched| match row.call {
        Call::Creates(create) => create.capturable,
        Call::Releases(release) => release.capturable,
        _ => false,
    };
    assert_eq!(TABLE.iter().filter(|row| capturable(row)).count(), 6);
}

#[test]
fn memory_of_the_host_is_at_the_host() {
    for row in TABLE {
        if let Call::Creates(create) = row.call {
            let host = matches!(create.place, At::Host);
            let expected = matches!(create.kind, Kind::Pinned | Kind::Registered);
            assert_eq!(host, expected, "{}", row.name);
        }
    }
}
