//! Which scope answers for another one, in this process and now.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_leak_interpose as threads;

use super::numbers;
use crate::check::family::{Family, Member};
use crate::ledger::{self, Returned, ScopeId};

static MEMBERS: Mutex<BTreeMap<ScopeId, Member>> = Mutex::new(BTreeMap::new());

fn members() -> MutexGuard<'static, BTreeMap<ScopeId, Member>> {
    MEMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on `outer` answers for `scope`.
pub(crate) fn join(scope: ScopeId, outer: ScopeId) {
    let member = Member {
        outer,
        reason: None,
        judged: None,
    };
    members().insert(scope, member);
}

/// The part of the open scope `outer` in which things may stay for `reason`: as many calls as there
/// are have one. None where `outer` has just closed.
pub(crate) fn part(outer: ScopeId, reason: &'static str) -> Option<ScopeId> {
    let mut members = members();
    // Closed after this, it closes its parts once it gets the lock.
    if !ledger::live().is_open(outer) {
        return None;
    }
    let is_it = |member: &Member| member.outer == outer && member.reason.as_deref() == Some(reason);
    let known = members.iter().find(|(_, member)| is_it(member));
    if let Some((scope, _)) = known {
        return Some(*scope);
    }
    let scope = numbers::open_part(outer);
    let member = Member {
        outer,
        reason: Some(Cow::Borrowed(reason)),
        judged: None,
    };
    members.insert(scope, member);
    Some(scope)
}

/// Closes the parts of `outer`, which is closed; what they freed that was there before it. Their
/// threads go on to work for whoever answers for `outer`.
pub(crate) fn close_parts(outer: ScopeId) -> Returned {
    let ledger = ledger::live();
    let mut members = members();
    let mut sum = Returned::default();
    for (scope, _) in members
        .iter()
        .filter(|(_, it)| it.is_part_of(outer, &members))
    {
        let returned = numbers::close(*scope);
        sum.count += returned.count;
        sum.bytes += returned.bytes;
    }
    let outer_ones: BTreeSet<ScopeId> = members.keys().copied().collect();
    members.retain(|scope, member| {
        member.reason.is_none()
            || ledger.is_open(*scope)
            || outer_ones.contains(&member.outer)
            || threads::live(u64::from(scope.0)) != 0
    });
    sum
}

/// `scope` has told of everything it had. What was inside it stays known, for a run that is joined
/// to the next one hands that on: until [`forget`].
pub(crate) fn judged(scope: ScopeId) {
    let now = ledger::live().now();
    if let Some(member) = members().get_mut(&scope) {
        member.judged = Some(now);
    }
}

/// `scope` is over and has told of nothing.
pub(crate) fn abandoned(scope: ScopeId) {
    let mut members = members();
    if !members.contains_key(&scope) {
        forget_inside(scope, &mut members);
    }
}

/// Nothing more is asked about the check that `scope` was the last run of. One inside another check
/// is forgotten with that.
pub(crate) fn forget(mut scope: ScopeId) {
    let mut members = members();
    while let Some(member) = members.get(&scope) {
        scope = member.outer;
    }
    if !ledger::live().is_open(scope) {
        forget_inside(scope, &mut members);
    }
}

fn forget_inside(root: ScopeId, members: &mut BTreeMap<ScopeId, Member>) {
    let is_inside = |mut scope: ScopeId| {
        while let Some(member) = members.get(&scope) {
            scope = member.outer;
        }
        scope == root
    };
    let inside: BTreeSet<ScopeId> = members
        .keys()
        .copied()
        .filter(|it| is_inside(*it))
        .collect();
    // A part goes when its threads have gone: see `close_parts`.
    members.retain(|scope, member| member.reason.is_some() || !inside.contains(scope));
}

/// The open scope that answers for what a thread with this scope does now.
pub(crate) fn open_scope(mut scope: ScopeId) -> Option<ScopeId> {
    let members = members();
    loop {
        if ledger::live().is_open(scope) {
            return Some(scope);
        }
        let member = members.get(&scope)?;
        if member.judged.is_some() {
            return None;
        }
        scope = member.outer;
    }
}

/// The family of `scope`, as it is now.
pub(crate) fn family(scope: ScopeId) -> Family {
    Family::of(scope, members().clone())
}

#[cfg(test)]
mod tests {
    use super::super::open::Open;
    use super::super::token::Token;
    use super::{family, forget, members};

    #[test]
    fn what_was_inside_a_run_is_known_until_the_check_is_over() {
        let first = Open::new();
        let inside = {
            let _token = Token::set(first.scope());
            // Never finished.
            Open::new()
        };
        let (first, inside) = {
            let scopes = (first.scope(), inside.scope());
            drop(inside);
            first.close();
            scopes
        };
        let second = Open::new();
        super::join(first, second.scope());
        assert!(
            family(second.scope()).has(inside),
            "the second run's business"
        );
        forget(second.scope());
        assert!(members().contains_key(&inside), "it is open still");
        let second_scope = second.scope();
        second.close();
        forget(second_scope);
        assert!(!members().contains_key(&inside));
        assert!(!members().contains_key(&first));
    }
}
