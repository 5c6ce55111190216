//! Scopes that another scope answers for.
//!
//! A check's runs are one family: a thread that the first run started and the second one puts to
//! work is the check's all the same. A nested scope that is never finished leaves its records to
//! the scope around it; one that is finished has told of them, and the outer one is silent.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::ledger::{self, Ledger, Record, ScopeId};

/// What is known of a scope inside another one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Member {
    outer: ScopeId,
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
        judged: None,
    };
    members().insert(scope, member);
}

/// `scope` has told of everything it had.
pub(crate) fn judged(scope: ScopeId) {
    let now = ledger::live().now();
    let mut members = members();
    let outer = members.get_mut(&scope).map(|member| {
        member.judged = Some(now);
        member.outer
    });
    match outer {
        Some(outer) => {
            for member in members.values_mut().filter(|member| member.outer == scope) {
                member.outer = outer;
                member.judged.get_or_insert(now);
            }
        }
        None => members.retain(|_, member| member.outer != scope),
    }
}

/// `scope` is over and has told of nothing.
pub(crate) fn abandoned(scope: ScopeId) {
    let mut members = members();
    if !members.contains_key(&scope) {
        members.retain(|_, member| member.outer != scope);
    }
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

    /// Whether nobody answers for this record: neither an open scope nor one that has been judged
    /// since.
    pub(crate) fn is_a_stranger(&self, record: &Record, ledger: &Ledger) -> bool {
        let scope = record.made.caller.scope;
        if ledger.is_open(scope) || self.has(scope) {
            return false;
        }
        match self.members.get(&scope) {
            Some(member) => member.judged.is_some_and(|at| record.sequence >= at),
            None => true,
        }
    }
}
