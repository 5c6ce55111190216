//! Generates random programs, which are sequences of steps.

use proptest::prelude::*;

use crate::ledger::event::Space;
use crate::ledger::{Kind, Layer};

/// There are few addresses, so that they are reused and several calls use one object at once.
const ADDRESSES: u64 = 5;
pub(super) const CONTEXTS: u32 = 3;
/// The number of scopes that a program can open. Their IDs are never reused.
pub(super) const SCOPES: u32 = 4;
/// More bytes than any machine has, but small enough that the sum can be counted if all allocations
/// of a program are this large. While threads are running, a figure of 2⁶³ or more is taken for a
/// negative one.
const HUGE: u64 = 1 << 56;

/// The resources that programs create. Some end with their context, some have bytes, and some are
/// shared.
pub(super) const KINDS: [(Kind, Space); 7] = [
    (Kind::Linear, Space::DevicePointer),
    (Kind::StreamOrdered, Space::DevicePointer),
    (Kind::Pinned, Space::HostPointer),
    (Kind::Stream, Space::Handle(Kind::Stream)),
    (Kind::Pool, Space::Handle(Kind::Pool)),
    (Kind::UserObject, Space::Handle(Kind::UserObject)),
    (Kind::Block, Space::Observed(Layer::DRIVER)),
];

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Creates a resource. The parameters are the address, the kind, the number of bytes, the
    /// context and the caller.
    Create(u64, usize, u64, u32, Who),
    CreationFails(usize, u64, Who),
    Retain(u64, u64),
    /// Begins a release of the resource at the address, if there is one. The parameters are the
    /// address, the kind, the fate of the release, the number of references, and the caller.
    Begin(u64, usize, Fate, u64, Who),
    /// Ends a release that is in flight.
    End(usize),
    EndContext(u32),
    Open(u32),
    Close(u32),
    RestartPeaks,
}

/// The caller of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    pub(super) thread: u32,
    pub(super) scope: u32,
}

/// How a release ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Succeeds,
    ShutsDown,
    Fails,
    IsCaptured,
}

/// Generates any step.
pub(super) fn step() -> impl Strategy<Value = Step> {
    let address = 0..ADDRESSES;
    let kind = 0..KINDS.len();
    let bytes = prop_oneof![8 => 1..5000_u64, 1 => Just(0), 1 => Just(HUGE)];
    let context = 0..CONTEXTS;
    let who = (0..20_u32, 0..=SCOPES).prop_map(|(thread, scope)| Who { thread, scope });
    let fate = prop_oneof![
        5 => Just(Fate::Succeeds),
        1 => Just(Fate::ShutsDown),
        3 => Just(Fate::Fails),
        1 => Just(Fate::IsCaptured),
    ];
    prop_oneof![
        8 => (address.clone(), kind.clone(), bytes.clone(), context.clone(), who.clone())
            .prop_map(|(at, kind, bytes, context, who)| Step::Create(at, kind, bytes, context, who)),
        1 => (kind.clone(), bytes, who.clone())
            .prop_map(|(kind, bytes, who)| Step::CreationFails(kind, bytes, who)),
        2 => (address.clone(), 1..4_u64).prop_map(|(at, count)| Step::Retain(at, count)),
        8 => (address, kind, fate, 1..4_u64, who)
            .prop_map(|(at, kind, fate, count, who)| Step::Begin(at, kind, fate, count, who)),
        7 => any::<usize>().prop_map(Step::End),
        1 => context.prop_map(Step::EndContext),
        2 => (1..=SCOPES).prop_map(Step::Open),
        1 => (1..=SCOPES).prop_map(Step::Close),
        1 => Just(Step::RestartPeaks),
    ]
}
