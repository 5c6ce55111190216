//! A family with the members that matter says of every record what one with all members would say.

use std::borrow::Cow;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::ScopeTree;
use crate::check::family::{Family, Member};
use crate::ledger::event::{Caller, Creation, Event, Key, Space};
use crate::ledger::{Kind, Layer, Ledger, Place, ScopeId, StackId};

const REASONS: [&str; 2] = ["a table", "a cache"];

/// What a program may do; each names a scope by its place in the list of all there have been.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open,
    OpenInside(usize),
    Part(usize, usize),
    Make(usize),
    Free(usize),
    Judge(usize),
    Abandon(usize),
    Forget(usize),
    /// A closed scope's next run.
    Join(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let any = || 0..12_usize;
    prop_oneof![
        2 => Just(Step::Open),
        4 => any().prop_map(Step::OpenInside),
        3 => (any(), 0..2_usize).prop_map(|(scope, reason)| Step::Part(scope, reason)),
        6 => any().prop_map(Step::Make),
        3 => any().prop_map(Step::Free),
        4 => any().prop_map(Step::Judge),
        2 => any().prop_map(Step::Abandon),
        2 => any().prop_map(Step::Forget),
        2 => any().prop_map(Step::Join),
    ]
}

/// The same with every member ever, each step a search of all.
#[derive(Default)]
struct All(BTreeMap<ScopeId, Member>);

impl All {
    fn outermost(&self, mut scope: ScopeId) -> ScopeId {
        while let Some(member) = self.0.get(&scope) {
            scope = member.outer;
        }
        scope
    }

    fn forget_inside(&mut self, root: ScopeId) {
        let inside: Vec<_> = self.0.keys().copied().collect();
        let inside: Vec<_> = inside
            .into_iter()
            .filter(|it| self.outermost(*it) == root)
            .collect();
        self.0
            .retain(|scope, member| member.reason.is_some() || !inside.contains(scope));
    }

    fn parts_of(&self, whole: ScopeId) -> Vec<ScopeId> {
        let is_part = |scope: &ScopeId| {
            let mut scope = *scope;
            while let Some(member) = self.0.get(&scope).filter(|it| it.reason.is_some()) {
                if member.outer == whole {
                    return true;
                }
                scope = member.outer;
            }
            false
        };
        self.0.keys().copied().filter(is_part).collect()
    }

    /// No thread of any part lives.
    fn sweep(&mut self, ledger: &Ledger) {
        loop {
            let before = self.0.len();
            let known = self.0.clone();
            let is_inside = |scope| known.values().any(|member| member.outer == scope);
            let has_whole = |mut scope: ScopeId| {
                while let Some(member) = known.get(&scope).filter(|it| it.reason.is_some()) {
                    scope = member.outer;
                }
                known.contains_key(&scope)
            };
            self.0.retain(|scope, member| {
                member.reason.is_none()
                    || ledger.is_open(*scope)
                    || has_whole(*scope)
                    || is_inside(*scope)
            });
            if self.0.len() == before {
                return;
            }
        }
    }
}

#[derive(Default)]
struct Program {
    ledger: Ledger,
    tree: ScopeTree,
    all: All,
    scopes: Vec<ScopeId>,
    addresses: u64,
}

impl Program {
    fn open(&mut self) -> ScopeId {
        let scope = ScopeId(u32::try_from(self.scopes.len()).unwrap() + 1);
        assert!(self.ledger.open_scope(scope));
        self.scopes.push(scope);
        scope
    }

    fn join(&mut self, scope: ScopeId, outer: ScopeId) {
        let ledger = &self.ledger;
        self.tree.join(scope, outer, |scope| ledger.is_open(scope));
        let (reason, judged) = (None, None);
        self.all.0.insert(
            scope,
            Member {
                outer,
                reason,
                judged,
            },
        );
    }

    fn is_part(&self, scope: ScopeId) -> bool {
        let member = self.all.0.get(&scope);
        member.is_some_and(|member| member.reason.is_some())
    }

    fn close(&mut self, scope: ScopeId) {
        self.ledger.close_scope(scope);
        let parts = self.tree.parts_of(scope);
        let mut sorted = parts.clone();
        sorted.sort();
        assert_eq!(sorted, self.all.parts_of(scope));
        for part in parts {
            let leaves = self.ledger.live_in(part) != 0;
            self.ledger.close_scope(part);
            self.tree.closed_part(part, leaves);
        }
        self.tree.sweep(|_| false);
        self.all.sweep(&self.ledger);
    }

    fn does(&mut self, step: Step) {
        let scopes = self.scopes.clone();
        let named = |number: usize| scopes.get(number).copied();
        let ledger = &self.ledger;
        let open = |number| named(number).filter(|scope| ledger.is_open(*scope));
        let whole = |number| open(number).filter(|scope| !self.is_part(*scope));
        match step {
            Step::Open => {
                self.open();
            }
            Step::OpenInside(outer) => {
                if let Some(outer) = open(outer) {
                    let scope = self.open();
                    self.join(scope, outer);
                }
            }
            Step::Part(outer, reason) => {
                let reason = REASONS[reason];
                if let Some(outer) = open(outer)
                    && self.tree.part(outer, reason).is_none()
                {
                    let scope = self.open();
                    self.tree.add_part(scope, outer, reason);
                    let member = Member {
                        outer,
                        reason: Some(Cow::Borrowed(reason)),
                        judged: None,
                    };
                    self.all.0.insert(scope, member);
                }
            }
            Step::Make(scope) => {
                if let Some(scope) = named(scope) {
                    self.addresses += 1;
                    self.ledger
                        .apply(&Event::Created(creation(scope, self.addresses)));
                }
            }
            Step::Free(number) => {
                let live = self.ledger.select(|_| true);
                if let Some(record) = live.get(number) {
                    let began = Event::ReleaseBegan {
                        key: record.key(),
                        caller: Caller::default(),
                    };
                    let ticket = self.ledger.apply(&began).expect("a release");
                    self.ledger.apply(&Event::ReleaseEnded {
                        ticket,
                        error: 0,
                        stack: StackId::default(),
                    });
                }
            }
            Step::Judge(scope) => {
                if let Some(scope) = whole(scope) {
                    let at = self.ledger.now();
                    let leaves = self.ledger.live_in(scope) != 0;
                    self.tree.judged(scope, at, leaves);
                    if let Some(member) = self.all.0.get_mut(&scope) {
                        member.judged = Some(at);
                    }
                    self.close(scope);
                }
            }
            Step::Abandon(scope) => {
                if let Some(scope) = whole(scope) {
                    self.tree.abandoned(scope);
                    if !self.all.0.contains_key(&scope) {
                        self.all.forget_inside(scope);
                    }
                    self.close(scope);
                }
            }
            Step::Forget(scope) => {
                if let Some(scope) = named(scope) {
                    let root = self.all.outermost(scope);
                    if !self.ledger.is_open(root) {
                        self.tree.forget_inside(root);
                        self.all.forget_inside(root);
                    }
                }
            }
            Step::Join(first) => {
                let is_over =
                    |scope: &ScopeId| !self.ledger.is_open(*scope) && !self.is_part(*scope);
                if let Some(first) = named(first).filter(is_over) {
                    let outer = self.all.0.get(&first).map(|member| member.outer);
                    let second = self.open();
                    if let Some(outer) = outer.filter(|outer| self.ledger.is_open(*outer)) {
                        self.join(second, outer);
                    }
                    self.join(first, second);
                }
            }
        }
    }

    fn agrees(&self) {
        for scope in self.scopes.iter().filter(|it| self.ledger.is_open(**it)) {
            let is_open = |scope| self.ledger.is_open(scope);
            let some = Family::of(*scope, self.tree.family(*scope, is_open));
            let all = Family::of(*scope, self.all.0.clone());
            assert_eq!(some.is_single(), all.is_single());
            for other in &self.scopes {
                assert_eq!(some.has(*other), all.has(*other), "{scope:?} {other:?}");
                if all.has(*other) {
                    assert_eq!(some.reason(*other), all.reason(*other));
                }
            }
            for record in self.ledger.select(|_| true) {
                let says = |family: &Family| family.is_a_stranger(&record, &self.ledger);
                assert_eq!(says(&some), says(&all), "{scope:?} {record:?}");
            }
        }
    }
}

fn creation(scope: ScopeId, address: u64) -> Creation {
    Creation {
        key: Key {
            space: Space::DevicePointer,
            value: address,
        },
        kind: Kind::Linear,
        layer: Layer::DRIVER,
        place: Place::HOST,
        bytes: 1,
        context: Default::default(),
        stream: 0,
        pool: 0,
        caller: Caller {
            scope,
            ..Caller::default()
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn what_matters_to_a_look_is_in_its_family(steps in prop::collection::vec(step(), 1..60)) {
        let mut program = Program::default();
        for step in steps {
            program.does(step);
            program.agrees();
        }
    }
}

#[test]
fn nothing_is_kept_of_checks_that_are_over() {
    let mut program = Program::default();
    for _ in 0..3 {
        let root = program.open();
        program.tree.add_part(ScopeId(1000), root, "a table");
        program.join(ScopeId(1001), ScopeId(1000));
        program.tree.abandoned(root);
        program.tree.closed_part(ScopeId(1000), true);
        program.tree.sweep(|_| false);
        let ScopeTree {
            members,
            in_parts,
            inside,
            parts,
            closed,
            orphans,
        } = &program.tree;
        assert_eq!((members.len(), in_parts.len(), inside.len()), (0, 0, 0));
        assert_eq!((parts.len(), closed.len(), orphans.len()), (0, 0, 0));
    }
}
