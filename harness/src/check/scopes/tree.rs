//! Scopes inside scopes, indexed so that nothing about one of them costs a search of all.
//!
//! Thousands of scopes may be open at once, and a test may have run thousands of checks inside. So
//! a look at one scope gets those members that can make a difference to it, and no others.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::check::family::Member;
use crate::ledger::ScopeId;

/// The members of all families: every scope for which another one answers.
#[derive(Debug, Default)]
pub(super) struct ScopeTree {
    members: FxHashMap<ScopeId, Member>,
    /// Those that are a part, or inside one.
    in_parts: FxHashSet<ScopeId>,
    /// Those right inside a scope, which need not be a member itself.
    inside: FxHashMap<ScopeId, BTreeSet<ScopeId>>,
    parts: FxHashMap<(ScopeId, Cow<'static, str>), ScopeId>,
    /// Those that are closed, and of which a record need not be a stranger's: see [`Self::close`].
    closed: BTreeSet<ScopeId>,
    /// Closed parts of scopes that are no members: kept for their threads alone.
    orphans: BTreeSet<ScopeId>,
}

impl ScopeTree {
    pub(super) fn get(&self, scope: ScopeId) -> Option<&Member> {
        self.members.get(&scope)
    }

    /// From now on `outer` answers for `scope`, and for what is inside it.
    pub(super) fn join(
        &mut self,
        scope: ScopeId,
        outer: ScopeId,
        is_open: impl Fn(ScopeId) -> bool,
    ) {
        self.add(scope, outer, None);
        if self.in_parts.contains(&scope) {
            let inside = self.all_inside(scope);
            self.in_parts.extend(inside);
        }
        let parts = self.parts_of(scope);
        for closed in parts.into_iter().chain([scope]).filter(|it| !is_open(*it)) {
            self.orphans.remove(&closed);
            self.closed.insert(closed);
        }
    }

    /// The part of `outer` in which things may stay for `reason`.
    pub(super) fn part(&self, outer: ScopeId, reason: &'static str) -> Option<ScopeId> {
        self.parts.get(&(outer, Cow::Borrowed(reason))).copied()
    }

    /// `scope` is that part.
    pub(super) fn add_part(&mut self, scope: ScopeId, outer: ScopeId, reason: &'static str) {
        self.add(scope, outer, Some(Cow::Borrowed(reason)));
    }

    fn add(&mut self, scope: ScopeId, outer: ScopeId, reason: Option<Cow<'static, str>>) {
        self.remove(scope);
        if let Some(reason) = &reason {
            self.parts.insert((outer, reason.clone()), scope);
        }
        self.inside.entry(outer).or_default().insert(scope);
        if reason.is_some() || self.in_parts.contains(&outer) {
            self.in_parts.insert(scope);
        }
        let judged = None;
        self.members.insert(
            scope,
            Member {
                outer,
                reason,
                judged,
            },
        );
    }

    fn remove(&mut self, scope: ScopeId) {
        let Some(Member { outer, reason, .. }) = self.members.remove(&scope) else {
            return;
        };
        if let Some(siblings) = self.inside.get_mut(&outer) {
            siblings.remove(&scope);
            if siblings.is_empty() {
                self.inside.remove(&outer);
            }
        }
        if let Some(reason) = reason {
            self.parts.remove(&(outer, reason));
        }
        self.in_parts.remove(&scope);
        self.closed.remove(&scope);
        self.orphans.remove(&scope);
    }

    fn inside(&self, scope: ScopeId) -> impl Iterator<Item = ScopeId> {
        self.inside.get(&scope).into_iter().flatten().copied()
    }

    /// All that is inside `scope`, at any depth.
    fn all_inside(&self, scope: ScopeId) -> Vec<ScopeId> {
        let mut inside: Vec<ScopeId> = self.inside(scope).collect();
        let mut next = 0;
        while let Some(&scope) = inside.get(next) {
            inside.extend(self.inside(scope));
            next += 1;
        }
        inside
    }

    /// The parts of `outer`, and of such parts.
    pub(super) fn parts_of(&self, outer: ScopeId) -> Vec<ScopeId> {
        let is_part = |scope: &ScopeId| self.members[scope].reason.is_some();
        let mut parts: Vec<ScopeId> = self.inside(outer).filter(is_part).collect();
        let mut next = 0;
        while let Some(&part) = parts.get(next) {
            parts.extend(self.inside(part).filter(is_part));
            next += 1;
        }
        parts
    }

    /// `scope` is judged and about to be closed, at this moment. What it `leaves` was told.
    pub(super) fn judged(&mut self, scope: ScopeId, at: u64, leaves: bool) {
        if let Some(member) = self.members.get_mut(&scope) {
            member.judged = Some(at);
            self.close(scope, leaves);
        }
    }

    /// `scope` is about to be closed and has told of nothing: the one around it answers for it.
    /// Where there is none, nobody does.
    pub(super) fn abandoned(&mut self, scope: ScopeId) {
        if self.members.contains_key(&scope) {
            self.closed.insert(scope);
        } else {
            self.forget_inside(scope);
        }
    }

    /// A part is closed, and `leaves` something live.
    pub(super) fn closed_part(&mut self, part: ScopeId, leaves: bool) {
        match self.members.get(&self.whose_part(part)) {
            Some(whole) => {
                let leaves = leaves || whole.judged.is_none();
                self.close(part, leaves);
            }
            None => {
                self.closed.remove(&part);
                self.orphans.insert(part);
            }
        }
    }

    /// The scope that is no part, and that `part` is a part of.
    fn whose_part(&self, part: ScopeId) -> ScopeId {
        let mut scope = part;
        while let Some(member) = self.members.get(&scope)
            && member.reason.is_some()
        {
            scope = member.outer;
        }
        scope
    }

    /// `scope` was judged, or is a part of one that was: what is made in it afterwards is a
    /// stranger's, as if nobody knew the scope. So if it `leaves` nothing that is older, it makes no
    /// difference any more.
    fn close(&mut self, scope: ScopeId, leaves: bool) {
        if leaves {
            self.closed.insert(scope);
        } else {
            self.closed.remove(&scope);
        }
    }

    /// Nothing more is asked about `root`, nor about what was inside it. Parts stay as long as
    /// their threads do.
    pub(super) fn forget_inside(&mut self, root: ScopeId) {
        let inside = self.all_inside(root);
        for scope in &inside {
            if self.members[scope].reason.is_none() {
                self.remove(*scope);
            }
        }
        for part in inside {
            if self.closed.contains(&part) {
                self.closed_part(part, true);
            }
        }
    }

    /// Forgets the closed parts of scopes that are over, unless they are `wanted` or something is
    /// inside them.
    pub(super) fn sweep(&mut self, wanted: impl Fn(ScopeId) -> bool) {
        loop {
            let parts = self.orphans.iter().copied();
            let is_over = |part: &ScopeId| !wanted(*part) && !self.inside.contains_key(part);
            let over: Vec<ScopeId> = parts.filter(is_over).collect();
            if over.is_empty() {
                return;
            }
            for part in over {
                self.remove(part);
            }
        }
    }

    /// The members that can make a difference to a look at `scope`: what is inside it and not
    /// judged, what says why something around it may stay, and all that is closed and has left
    /// something to somebody, with the way to whom.
    pub(super) fn family(
        &self,
        scope: ScopeId,
        is_open: impl Fn(ScopeId) -> bool,
    ) -> BTreeMap<ScopeId, Member> {
        let mut family = BTreeMap::new();
        let mut inside = vec![scope];
        while let Some(outer) = inside.pop() {
            for inner in self.inside(outer) {
                let member = &self.members[&inner];
                if member.judged.is_none() {
                    family.insert(inner, member.clone());
                    inside.push(inner);
                }
            }
        }
        if self.in_parts.contains(&scope) {
            let around = self.way_out(scope, |_, _| true);
            let last = around.iter().rposition(|(_, it)| it.reason.is_some());
            family.extend(around.into_iter().take(last.map_or(0, |last| last + 1)));
        }
        for closed in &self.closed {
            family.extend(self.way_out(*closed, |scope, member| {
                member.judged.is_none() && !is_open(scope)
            }));
        }
        family
    }

    /// `scope` and those around it, up to the first that does not lead on.
    fn way_out(
        &self,
        mut scope: ScopeId,
        leads_on: impl Fn(ScopeId, &Member) -> bool,
    ) -> Vec<(ScopeId, Member)> {
        let mut way = Vec::new();
        while let Some(member) = self.members.get(&scope) {
            way.push((scope, member.clone()));
            if !leads_on(scope, member) {
                break;
            }
            scope = member.outer;
        }
        way
    }
}

#[cfg(test)]
mod tests;
