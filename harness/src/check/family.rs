//! The scopes that one scope answers for.
//!
//! A check's runs are one family: a thread that the first run started and the second one puts to
//! work is the check's all the same. A nested scope that is never finished leaves its records to
//! the scope around it; one that is finished has told of them, and the outer one is silent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gpu_leak_check_threads as threads;
use serde::{Deserialize, Serialize};

use crate::ledger::{Ledger, Record, ScopeId};

/// What is known of a scope inside another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Member {
    pub(super) outer: ScopeId,
    /// Why what is made in it may stay: it is a part of the outer one, and never judged by itself.
    pub(super) reason: Option<Cow<'static, str>>,
    /// When it was judged; none while the outer one answers for it.
    pub(super) judged: Option<u64>,
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

impl Family {
    /// That of `scope` among `members`.
    pub(super) fn of(scope: ScopeId, members: BTreeMap<ScopeId, Member>) -> Self {
        Self { scope, members }
    }

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
