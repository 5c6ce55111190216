use std::collections::HashSet;

use super::{KNOWN_UP_TO, VARIANTS, Variant, calls, is_per_thread};
use crate::api::cuda::call::{At, Bytes, Call, Creates, Frees};
use crate::api::cuda::foreign::Argument;
use crate::ledger::Kind;
use crate::ledger::event::{Event, Space};

/// The effect that a row of the table describes.
#[derive(Clone, Copy)]
pub(super) enum Row {
    Creates(Creates),
    Frees(Frees),
    Other(Call),
}

impl From<Creates> for Row {
    fn from(create: Creates) -> Self {
        Self::Creates(create)
    }
}

impl From<Frees> for Row {
    fn from(release: Frees) -> Self {
        Self::Frees(release)
    }
}

impl From<Call> for Row {
    fn from(call: Call) -> Self {
        Self::Other(call)
    }
}

#[test]
fn each_name_occurs_once() {
    let names: HashSet<_> = VARIANTS.iter().map(|variant| variant.name).collect();
    assert_eq!(names.len(), VARIANTS.len());
}

#[test]
fn no_function_is_newer_than_the_releases_that_the_table_knows() {
    for Variant { name, since } in &VARIANTS {
        assert!(*since <= KNOWN_UP_TO, "{name:?}: increase `KNOWN_UP_TO`");
    }
}

#[test]
fn everything_that_can_be_created_can_be_released_and_vice_versa() {
    let (mut made, mut released) = (HashSet::new(), HashSet::new());
    for (_, call) in calls() {
        match call {
            Row::Creates(create) => made.insert(create.space),
            Row::Other(Call::Causes(Event::Mapped { .. })) => made.insert(Space::Mapping),
            Row::Frees(release) => released.insert(release.space),
            _ => false,
        };
    }
    assert_eq!(made, released);
}

#[test]
fn handles_have_no_bytes_and_memory_has() {
    for (name, call) in calls() {
        let Row::Creates(create) = call else {
            continue;
        };
        // The driver must not be asked for the size of a resource that only has a handle.
        let is_asked = !matches!(create.bytes, Bytes::Stated(Argument::Given(_)));
        assert!(!(is_asked && create.kind.is_handle()), "{name}");
        // A multicast object is released like physical memory.
        if create.kind.is_handle() && create.kind != Kind::Multicast {
            assert_eq!(create.space, Space::Handle(create.kind), "{name}");
        }
    }
}

#[test]
fn only_host_memory_is_at_the_host() {
    for (name, call) in calls() {
        let Row::Creates(create) = call else {
            continue;
        };
        let is_at_host = matches!(create.place, At::Host);
        let is_of_host = matches!(create.kind, Kind::Pinned | Kind::Registered);
        let kind = create.kind;
        assert_eq!(
            is_at_host, is_of_host,
            "{name}: whether the place is `At::Host`, and whether {kind:?} is host memory"
        );
    }
}

#[test]
fn a_call_with_a_stream_has_a_form_for_each_meaning_of_stream_0() {
    let names: Vec<_> = calls().into_iter().map(|(name, _)| name).collect();
    for (name, call) in calls() {
        let has_stream = match call {
            Row::Creates(create) => create.stream.or(create.ends_capture).is_some(),
            Row::Frees(release) => release.stream.is_some(),
            Row::Other(Call::BeginsCapture(..) | Call::BeginsRecapture(..) | Call::Launches(_)) => {
                true
            }
            _ => false,
        };
        if has_stream && !is_per_thread(name) {
            assert!(names.contains(&&*format!("{name}_ptsz")), "{name}");
        }
    }
    assert!(is_per_thread("cuMemcpy_ptds"));
    assert!(!is_per_thread("cuMemAllocAsync"));
}
