//! Scopes that another scope answers for.
//!
//! A check's runs are one family: a thread that the first run started and the second one puts to
//! work is the check's all the same. A nested scope that is never finished leaves its records to
//! the scope around it; one that is finished has told of them, and the outer one is silent.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_leak_check_threads as threads;
use serde::{Deserialize, Serialize};

use super::open;
use crate::ledger::{self, Ledger, Record, Returned, ScopeId};

/// What is known of a scope inside another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Member {
    outer: ScopeId,
    /// Why what is made in it may stay: it is a part of the outer one, and never judged by itself.
    reason: Option<Cow<'static, str>>,
    /// When it was judged; none while the outer one answers for it.
    judged: Option<u64>,
}

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
/// are have one. `open` opens a new one. None where `outer` has just closed.
pub(crate) fn part(
    outer: ScopeId,
    reason: &'static str,
    open: impl FnOnce() -> ScopeId,
) -> Option<ScopeId> {
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
    let scope = open();
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
        let returned = open::close(*scope);
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

impl Member {
    fn is_part_of(&self, scope: ScopeId, members: &BTreeMap<ScopeId, Self>) -> bool {
        let mut member = self;
        while member.reason.is_some() && member.outer != scope {
            match members.get(&member.outer) {
                Some(outer) => member = outer,
                None => return false,
            }
        }
        member.reason.is_some()
    }
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

/// The scopes that one scope answers for, as they are now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Family {
    scope: ScopeId,
    #[serde(with = "in_pairs")]
    members: BTreeMap<ScopeId, Member>,
}

/// A map whose keys are no texts.
mod in_pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Member, ScopeId};

    type Members = BTreeMap<ScopeId, Member>;

    pub(super) fn serialize<S: Serializer>(members: &Members, out: S) -> Result<S::Ok, S::Error> {
        Vec::from_iter(members).serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Members, D::Error> {
        Vec::deserialize(input).map(Members::from_iter)
    }
}

/// That of `scope`.
pub(crate) fn of(scope: ScopeId) -> Family {
    Family {
        scope,
        members: members().clone(),
    }
}

impl Family {
    /// Whether it is this scope alone.
    pub(crate) fn is_single(&self) -> bool {
        !self
            .members
            .values()
            .any(|member| member.outer == self.scope && member.judged.is_none())
    }

    /// Whether `scope` is one of the family.
    pub(crate) fn has(&self, mut scope: ScopeId) -> bool {
        // No way out is longer than there are members: a recording may go in circles.
        for _ in 0..=self.members.len() {
            match self.members.get(&scope) {
                _ if scope == self.scope => return true,
                Some(member) if member.judged.is_none() => scope = member.outer,
                _ => return false,
            }
        }
        false
    }

    /// Why what was made in `scope` may stay: for the reason of the innermost part that it lies in,
    /// inside this scope or around it.
    pub(crate) fn reason(&self, mut scope: ScopeId) -> Option<&str> {
        while let Some(member) = self.members.get(&scope) {
            if let Some(reason) = &member.reason {
                return Some(reason);
            }
            scope = member.outer;
        }
        None
    }

    /// Whether a thread lives that was started in a part of this scope.
    pub(crate) fn has_live_threads_in_parts(&self) -> bool {
        let mut parts = self
            .members
            .iter()
            .filter(|(scope, member)| member.reason.is_some() && self.has(**scope));
        parts.any(|(scope, _)| threads::live(u64::from(scope.0)) != 0)
    }

    /// Whether nobody answers for this record: neither an open scope nor one that has been judged
    /// since, and it was not handed over.
    pub(crate) fn is_a_stranger(&self, record: &Record, ledger: &Ledger) -> bool {
        let mut scope = record.made.caller.scope;
        if scope == ScopeId::NOBODY || self.has(scope) {
            return false;
        }
        loop {
            if ledger.is_open(scope) {
                return false;
            }
            match self.members.get(&scope) {
                None => return true,
                Some(Member {
                    judged: Some(at), ..
                }) => return record.sequence >= *at,
                // A part is never judged by itself, and for what was not finished the outer one
                // answers.
                Some(member) => scope = member.outer,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::token::Token;
    use super::{forget, members, of};
    use crate::check::open::Open;

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
        assert!(of(second.scope()).has(inside), "the second run's business");
        forget(second.scope());
        assert!(members().contains_key(&inside), "it is open still");
        let second_scope = second.scope();
        second.close();
        forget(second_scope);
        assert!(!members().contains_key(&inside));
        assert!(!members().contains_key(&first));
    }
}
