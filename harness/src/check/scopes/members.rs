//! Which scope answers for another one, in this process and now.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use gpu_leak_check_threads as threads;

use super::numbers;
use super::tree::ScopeTree;
use crate::check::family::Family;
use crate::ledger::{self, Ledger, Returned, ScopeId};

fn members() -> MutexGuard<'static, ScopeTree> {
    static MEMBERS: LazyLock<Mutex<ScopeTree>> = LazyLock::new(Mutex::default);
    MEMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on `outer` answers for `scope`.
pub(crate) fn join(scope: ScopeId, outer: ScopeId) {
    members().join(scope, outer, |scope| ledger::live().is_open(scope));
}

/// The part of the open scope `outer` in which things may stay for `reason`: as many calls as there
/// are have one. None where `outer` has just closed.
pub(crate) fn part(outer: ScopeId, reason: &'static str) -> Option<ScopeId> {
    let mut members = members();
    // Closed after this, it closes its parts once it gets the lock.
    if !ledger::live().is_open(outer) {
        return None;
    }
    let known = members.part(outer, reason);
    Some(known.unwrap_or_else(|| {
        let scope = numbers::open_part(outer);
        members.add_part(scope, outer, reason);
        scope
    }))
}

/// Closes the parts of `outer`, which is closed; what they freed that was there before it. Their
/// threads go on to work for whoever answers for `outer`.
pub(crate) fn close_parts(outer: ScopeId) -> Returned {
    let ledger = ledger::live();
    let mut members = members();
    let mut sum = Returned::default();
    for part in members.parts_of(outer) {
        let leaves = leaves(ledger, part);
        let returned = numbers::close(part);
        sum.count += returned.count;
        sum.bytes += returned.bytes;
        members.closed_part(part, leaves);
    }
    members.sweep(|part| threads::live(u64::from(part.0)) != 0);
    sum
}

/// Whether something that was made in the open `scope` is live, or may be put back.
fn leaves(ledger: &Ledger, scope: ScopeId) -> bool {
    ledger.live_in(scope) != 0 || ledger.releases_in_flight()
}

/// `scope`, which is open still, has told of everything it had. What was inside it stays known, for
/// a run that is joined to the next one hands that on: until [`forget`].
pub(crate) fn judged(scope: ScopeId) {
    let ledger = ledger::live();
    members().judged(scope, ledger.now(), leaves(ledger, scope));
}

/// `scope` is over and has told of nothing.
pub(crate) fn abandoned(scope: ScopeId) {
    members().abandoned(scope);
}

/// Nothing more is asked about the check that `scope` was the last run of. One inside a scope that
/// is open is forgotten with that.
pub(crate) fn forget(mut scope: ScopeId) {
    let mut members = members();
    while !ledger::live().is_open(scope) {
        match members.get(scope) {
            Some(member) => scope = member.outer,
            None => return members.forget_inside(scope),
        }
    }
}

/// The open scope that answers for what a thread with this scope does now.
pub(crate) fn open_scope(mut scope: ScopeId) -> Option<ScopeId> {
    let members = members();
    loop {
        if ledger::live().is_open(scope) {
            return Some(scope);
        }
        let member = members.get(scope)?;
        if member.judged.is_some() {
            return None;
        }
        scope = member.outer;
    }
}

/// The family of `scope`, as it is now.
pub(crate) fn family(scope: ScopeId) -> Family {
    let is_open = |scope| ledger::live().is_open(scope);
    Family::of(scope, members().family(scope, is_open))
}

#[cfg(test)]
mod tests {
    use super::super::open::Open;
    use super::super::token::Token;
    use super::{ScopeId, family, forget, members, part};

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
        assert!(members().get(inside).is_some(), "it is open still");
        let second_scope = second.scope();
        second.close();
        forget(second_scope);
        assert!(members().get(inside).is_none());
        assert!(members().get(first).is_none());
    }

    /// As many as no test has, for what must not be searched through for each of them.
    const MANY: usize = 20_000;

    fn inside(outer: ScopeId) -> Open {
        let _token = Token::set(outer);
        Open::new()
    }

    #[test]
    fn any_number_of_scopes_is_open_beside_each_other() {
        let outer = Open::new();
        let all: Vec<Open> = (0..MANY).map(|_| inside(outer.scope())).collect();
        for open in all {
            let family = family(open.scope());
            assert!(family.is_single());
            open.close();
        }
        assert!(family(outer.scope()).is_single());
        let scope = outer.scope();
        outer.close();
        forget(scope);
    }

    #[test]
    fn any_number_of_scopes_is_open_inside_each_other() {
        let outer = Open::new();
        let mut all: Vec<Open> = Vec::new();
        for _ in 0..MANY {
            let around = all.last().map_or(outer.scope(), Open::scope);
            all.push(inside(around));
        }
        while let Some(open) = all.pop() {
            assert!(family(open.scope()).is_single());
            open.close();
        }
        let scope = outer.scope();
        outer.close();
        forget(scope);
    }

    #[test]
    fn any_number_of_checks_with_parts_comes_one_after_the_other() {
        let outer = Open::new();
        for _ in 0..MANY {
            let open = inside(outer.scope());
            let part = part(open.scope(), "a table").expect("it is open");
            let family = family(open.scope());
            assert_eq!(family.reason(part), Some("a table"));
            open.close();
        }
        let scope = outer.scope();
        outer.close();
        forget(scope);
    }
}
