//! The tree of scopes in this process: their nesting, and the owner of each resource.
//!
//! A scope belongs to a run of a test, to a block or to an explicit `Scope`. A *part* is a scope in
//! which resources may stay for a given reason. Each scope has at most one parent. A resource that
//! is created in a closed scope belongs to the nearest open ancestor of that scope, because a
//! finished block is no longer responsible for anything, but the test around it is. The runs of one
//! check are linked as well. If the first run has started a thread that the second run uses, the
//! later work of that thread belongs to the second run.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use gpu_leak_interpose as threads;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::judge::{FailedSum, Subject};
use crate::ledger::{self, Amount, ScopeId};
use crate::report::check_report::AllowedBy;
use crate::sync::{Mutex, locked};

/// The ledger's locks may be taken while this lock is held, but not the other way round.
static TREE: LazyLock<Mutex<Scopes>> = LazyLock::new(Mutex::default);

/// The scopes that are open or that a check still needs.
#[derive(Debug, Default)]
struct Scopes {
    nodes: FxHashMap<ScopeId, ScopeNode>,
    /// The number of open scopes.
    open: usize,
    /// For each closed scope that its own check no longer needs, the number of the event at which
    /// it closed. Checks that ran at the same time still need this number. The map is cleared as
    /// soon as no scope is open.
    forgotten: FxHashMap<ScopeId, u64>,
}

/// The state of one scope.
#[derive(Debug, Default)]
struct ScopeNode {
    parent: Option<ScopeId>,
    children: Vec<ScopeId>,
    /// The reason why resources created in this scope may stay, if the scope is part of its
    /// parent.
    reason: Option<&'static str>,
    /// The number of the event at which the scope closed; `None` while it is open.
    closed: Option<u64>,
    /// The check of which the scope is a run, if it is one.
    subject: Option<Arc<Subject>>,
    /// Whether the scope is a run that only confirms the leaks of an earlier run.
    confirms: bool,
    /// Whether the scope's work is attributed to the next run of its check.
    is_earlier_run: bool,
    /// What the scope's check has decided about individual records, by sequence number.
    decisions: Vec<(u64, NestedDecision)>,
    /// The sums that made the scope's check fail, each with the failure, and the sums that only
    /// further runs of the check raised.
    failed_sums: Vec<(Option<FailureId>, FailedSum)>,
    /// The sequence numbers of the records that only further runs of the scope's check left.
    left_again: Vec<u64>,
    /// Whether the scope's check failed its test.
    has_failed: bool,
}

impl ScopeNode {
    fn is_open(&self) -> bool {
        self.closed.is_none()
    }
}

/// Identifies the failure of one nested check. The message would not suffice, because two failures
/// may have the same message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailureId(u64);

impl FailureId {
    /// Creates an ID that no other failure in this process has.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What a check has decided about one record, for the checks around it. Only leaks that made the
/// test fail are withheld from those checks. A test that catches the panic has not failed. An
/// object that the nested check allows to stay may stay in every check around it. Everything else
/// is judged again by the outer check.
#[derive(Clone, Debug)]
pub(crate) enum NestedDecision {
    /// The check has failed because of the record.
    Failed(FailureId),
    /// The record may stay.
    Allowed(AllowedBy),
}

impl Scopes {
    /// Adds a scope that has just opened.
    fn insert(&mut self, scope: ScopeId, node: ScopeNode) {
        self.open += 1;
        if let Some(parent) = node.parent
            && let Some(parent) = self.nodes.get_mut(&parent)
        {
            parent.children.push(scope);
        }
        self.nodes.insert(scope, node);
    }

    /// Returns `scope` and its ancestors, beginning with `scope`.
    fn around(&self, scope: ScopeId) -> impl Iterator<Item = (ScopeId, &ScopeNode)> {
        let mut next = Some(scope);
        std::iter::from_fn(move || {
            let scope = next?;
            let node = self.nodes.get(&scope)?;
            next = node.parent;
            Some((scope, node))
        })
    }

    /// Returns `scope` and its descendants.
    fn inside(&self, scope: ScopeId) -> Vec<ScopeId> {
        let mut found = vec![scope];
        let mut at = 0;
        while at < found.len() {
            if let Some(node) = self.nodes.get(&found[at]) {
                found.extend(&node.children);
            }
            at += 1;
        }
        found
    }
}

/// Opens a scope with this parent. `confirms` says whether the scope is a run that only confirms
/// the leaks of an earlier run.
pub(super) fn open(parent: Option<ScopeId>, confirms: bool) -> ScopeId {
    let scope = new_number();
    let mut tree = locked(&TREE);
    ledger::live().open_scope(scope);
    let node = ScopeNode {
        parent,
        confirms,
        ..ScopeNode::default()
    };
    tree.insert(scope, node);
    scope
}

/// Records that `scope` is a run of the check `subject`.
pub(crate) fn name(scope: ScopeId, subject: &Arc<Subject>) {
    if let Some(node) = locked(&TREE).nodes.get_mut(&scope) {
        node.subject = Some(Arc::clone(subject));
    }
}

/// Returns the innermost check that contains `scope`.
pub(crate) fn check_around(scope: ScopeId) -> Option<Arc<Subject>> {
    let tree = locked(&TREE);
    tree.around(scope)
        .find_map(|(_, node)| node.subject.clone())
}

/// Returns the part of the open scope `outer` in which resources may stay for `reason`. All calls
/// with the same reason share one part. Returns `None` if `outer` has just closed.
pub(crate) fn part(outer: ScopeId, reason: &'static str) -> Option<ScopeId> {
    let mut tree = locked(&TREE);
    let node = tree.nodes.get(&outer).filter(|node| node.is_open())?;
    let is_it = |child: &&ScopeId| {
        tree.nodes
            .get(*child)
            .is_some_and(|it| it.reason == Some(reason))
    };
    if let Some(known) = node.children.iter().find(is_it) {
        return Some(*known);
    }
    let scope = new_number();
    ledger::live().open_part(scope, outer);
    let node = ScopeNode {
        parent: Some(outer),
        reason: Some(reason),
        ..ScopeNode::default()
    };
    tree.insert(scope, node);
    Some(scope)
}

/// Returns an ID that no scope of this process has had.
fn new_number() -> ScopeId {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    ScopeId(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Closes `scope` and its parts, and returns the amount of the earlier records that were freed in
/// them.
pub(super) fn close(scope: ScopeId) -> Amount {
    let mut tree = locked(&TREE);
    let mut sum = Amount::default();
    let mut closing = vec![scope];
    while let Some(scope) = closing.pop() {
        let Some(node) = tree.nodes.get_mut(&scope) else {
            continue;
        };
        let was_open = node.is_open();
        node.closed.get_or_insert_with(|| ledger::live().now());
        let children = node.children.clone();
        if was_open {
            tree.open -= 1;
        }
        sum = sum.plus(ledger::live().close_scope(scope));
        // A part ends with its parent, whereas an explicit scope is finished separately.
        let is_part = |child: &ScopeId| tree.nodes.get(child).is_some_and(|it| it.reason.is_some());
        closing.extend(children.into_iter().filter(is_part));
    }
    if tree.open == 0 {
        tree.forgotten.clear();
    }
    sum
}

/// From now on, attributes work in the closed `scope` to `next`, the next run of the same check.
pub(crate) fn hand_on(scope: ScopeId, next: ScopeId) {
    let mut tree = locked(&TREE);
    let Some(node) = tree.nodes.get_mut(&scope) else {
        return;
    };
    node.is_earlier_run = true;
    let parent = node.parent.replace(next);
    if let Some(parent) = parent.and_then(|parent| tree.nodes.get_mut(&parent)) {
        parent.children.retain(|child| *child != scope);
    }
    if let Some(next) = tree.nodes.get_mut(&next) {
        next.children.push(scope);
    }
}

/// Records what the check of `scope` has decided, and whether it has failed its test.
pub(crate) fn decide(
    scope: ScopeId,
    records: Vec<(u64, NestedDecision)>,
    sums: Vec<(Option<FailureId>, FailedSum)>,
    has_failed: bool,
) {
    if let Some(node) = locked(&TREE).nodes.get_mut(&scope) {
        node.decisions.extend(records);
        node.failed_sums.extend(sums);
        node.has_failed = has_failed;
    }
}

/// Records what only further runs of the check of `scope` have left.
pub(crate) fn left_again(scope: ScopeId, records: Vec<u64>, sums: Vec<FailedSum>) {
    if let Some(node) = locked(&TREE).nodes.get_mut(&scope) {
        node.left_again.extend(records);
        node.failed_sums
            .extend(sums.into_iter().map(|sum| (None, sum)));
    }
}

/// Whether the check `subject` failed in a run that the confirming run around `scope` repeats.
pub(crate) fn has_failed_before(scope: ScopeId, subject: &Subject) -> bool {
    let tree = locked(&TREE);
    let mut confirming = tree.around(scope).filter(|(_, node)| node.confirms);
    confirming.any(|(confirming, _)| {
        let inside = tree.inside(confirming);
        let mut inside = inside.iter().filter_map(|scope| tree.nodes.get(scope));
        inside.any(|node| node.has_failed && node.subject.as_deref() == Some(subject))
    })
}

/// Removes the check whose last run was `scope`, because it is no longer needed. A nested check is
/// removed together with its outer check.
pub(crate) fn forget(scope: ScopeId) {
    let mut tree = locked(&TREE);
    let root = tree.nodes.get(&scope).filter(|node| node.parent.is_none());
    let Some(closed) = root.and_then(|root| root.closed) else {
        return;
    };
    for scope in tree.inside(scope) {
        match tree.nodes.get_mut(&scope) {
            // An explicit scope that outlives its test becomes a root.
            Some(node) if node.is_open() => node.parent = None,
            Some(_) => {
                tree.nodes.remove(&scope);
                // As long as the outer check was open, it was responsible for this scope.
                if tree.open != 0 {
                    tree.forgotten.insert(scope, closed);
                }
            }
            None => {}
        }
    }
}

/// Returns the open scope to which the current work of a thread with this scope belongs.
pub(crate) fn open_scope(scope: ScopeId) -> Option<ScopeId> {
    let tree = locked(&TREE);
    let open = tree.around(scope).find(|(_, node)| node.is_open());
    open.map(|(scope, _)| scope)
}

/// Whether `scope` is one of `scopes`, or inside one of them.
pub(crate) fn is_inside(scope: ScopeId, scopes: &[ScopeId]) -> bool {
    let tree = locked(&TREE);
    let mut around = tree.around(scope);
    around.any(|(scope, _)| scopes.contains(&scope))
}

/// Whether the work of a thread with this scope belongs to no open scope and to none of `earlier`,
/// the scopes of a check's earlier runs.
pub(crate) fn is_of_an_ended_check(scope: ScopeId, earlier: &[ScopeId]) -> bool {
    let tree = locked(&TREE);
    let mut around = tree.around(scope);
    !around.any(|(scope, node)| node.is_open() || earlier.contains(&scope))
}

/// Whether `scope` is inside a run that only confirms the leaks of an earlier run.
pub(crate) fn is_confirming(scope: ScopeId) -> bool {
    locked(&TREE).around(scope).any(|(_, node)| node.confirms)
}

/// Everything for which one scope is responsible at the moment.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    /// The scope, its descendants, and the earlier runs of its check. Each has the reason why
    /// resources created in it may stay, if there is one.
    scopes: FxHashMap<ScopeId, Option<&'static str>>,
    /// How many of these scopes do not belong to earlier runs.
    of_this_run: usize,
    /// What nested checks have decided, by sequence number.
    decisions: FxHashMap<u64, NestedDecision>,
    /// The sums that made checks inside this run fail, and those that only further runs of such
    /// checks raised.
    failed_sums: Vec<(Option<FailureId>, FailedSum)>,
    /// The scopes of further runs of nested checks, with everything inside them.
    further_runs: FxHashSet<ScopeId>,
    /// The records that only further runs of nested checks left.
    left_again: FxHashSet<u64>,
}

impl Lineage {
    pub(crate) fn of(scope: ScopeId) -> Self {
        let tree = locked(&TREE);
        let mut lineage = Self::default();
        let mut next = vec![(scope, true, [false; 2])];
        while let Some((at, in_this_run, [around, is_further])) = next.pop() {
            // This is the innermost reason, seen from this scope outwards.
            let reason = tree.around(at).find_map(|(_, node)| node.reason);
            lineage.scopes.insert(at, reason);
            if is_further {
                lineage.further_runs.insert(at);
            }
            let Some(node) = tree.nodes.get(&at) else {
                continue;
            };
            lineage.decisions.extend(node.decisions.iter().cloned());
            lineage.left_again.extend(&node.left_again);
            if in_this_run {
                lineage.of_this_run += 1;
                lineage.failed_sums.extend(node.failed_sums.iter().cloned());
            }
            next.extend(node.children.iter().map(|child| {
                let inner = tree.nodes.get(child);
                let confirms = inner.is_some_and(|it| it.confirms);
                match inner.is_some_and(|it| it.is_earlier_run) {
                    // The check of `scope` compares its own runs itself.
                    true if at == scope => (*child, false, [false; 2]),
                    true => (*child, in_this_run, [around, around || confirms]),
                    false => (*child, in_this_run, [is_further, is_further || confirms]),
                }
            }));
        }
        lineage
    }

    /// Whether the lineage contains only one scope.
    pub(crate) fn is_single(&self) -> bool {
        self.scopes.len() <= 1
    }

    /// Whether the run contains no other scopes.
    pub(crate) fn has_no_children(&self) -> bool {
        self.of_this_run <= 1
    }

    pub(crate) fn scopes(&self) -> impl Iterator<Item = ScopeId> {
        self.scopes.keys().copied()
    }

    pub(crate) fn has(&self, scope: ScopeId) -> bool {
        self.scopes.contains_key(&scope)
    }

    /// Returns the reason why resources created in `scope` may stay, if there is one.
    pub(crate) fn reason(&self, scope: ScopeId) -> Option<&'static str> {
        self.scopes.get(&scope).copied().flatten()
    }

    /// Whether `scope` is that of a further run of a nested check, or inside such a scope.
    pub(crate) fn is_in_further_run(&self, scope: ScopeId) -> bool {
        self.further_runs.contains(&scope)
    }

    /// Whether only a further run of a nested check left the record with this sequence number.
    pub(crate) fn was_left_again(&self, record: u64) -> bool {
        self.left_again.contains(&record)
    }

    /// Returns what a nested check has decided about the record with this sequence number.
    pub(crate) fn decision(&self, record: u64) -> Option<&NestedDecision> {
        self.decisions.get(&record)
    }

    /// Returns the sums that made a check inside this run fail with `failure`, and those that only
    /// further runs of nested checks raised.
    pub(crate) fn failed_sums(&self, failure: Option<FailureId>) -> Vec<FailedSum> {
        let failed = self.failed_sums.iter();
        let failed = failed.filter(|(by, _)| by.is_none() || failure == *by);
        failed.map(|(_, sum)| sum.clone()).collect()
    }

    /// Returns how many live threads work in the scopes of the lineage.
    pub(crate) fn live_threads(&self) -> usize {
        let scopes = self.scopes.keys();
        scopes.map(|scope| threads::live(u64::from(scope.0))).sum()
    }
}

/// Returns the records, given by scope and sequence number, for which no check is responsible: when
/// such a record was created, neither its scope nor any ancestor of the scope was open.
pub(crate) fn unanswered(records: impl Iterator<Item = (ScopeId, u64)>) -> FxHashSet<u64> {
    let tree = locked(&TREE);
    let is_answered = |scope: ScopeId, sequence: u64| {
        let was_open = |closed: Option<u64>| closed.is_none_or(|closed| sequence < closed);
        let forgotten = tree.forgotten.get(&scope);
        forgotten.is_some_and(|closed| was_open(Some(*closed)))
            || tree.around(scope).any(|(_, node)| was_open(node.closed))
    };
    records
        .filter(|(scope, sequence)| !is_answered(*scope, *sequence))
        .map(|(_, sequence)| sequence)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::open::{Open, Token};
    use super::{Lineage, TREE, forget, hand_on, locked, open_scope};

    #[test]
    fn scopes_inside_a_run_are_known_until_the_check_is_over() {
        let first = Open::new(false);
        let inside = {
            let _token = Token::set(first.scope());
            // This scope is never finished.
            Open::new(false)
        };
        let (first_scope, inside_scope) = (first.scope(), inside.scope());
        drop(inside);
        first.close();
        let second = Open::new(true);
        hand_on(first_scope, second.scope());
        let lineage = Lineage::of(second.scope());
        assert!(lineage.has(inside_scope), "it belongs to the second run");
        assert_eq!(open_scope(inside_scope), Some(second.scope()));
        let scope = second.scope();
        second.close();
        forget(scope);
        assert_eq!(open_scope(inside_scope), None);
        let tree = locked(&TREE);
        assert!(!tree.nodes.contains_key(&first_scope) && !tree.nodes.contains_key(&inside_scope));
    }

    #[test]
    fn later_work_of_a_closed_block_belongs_to_its_test() {
        let test = Open::new(false);
        let _token = Token::set(test.scope());
        let block = Open::new(false);
        let scope = block.scope();
        block.close();
        assert_eq!(open_scope(scope), Some(test.scope()));
        assert!(Lineage::of(test.scope()).has(scope));
    }
}
