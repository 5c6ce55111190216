mod memory;

use super::super::tests::{FAILED, SCOPE, World, caller, creation};
use crate::ledger::Kind;
use crate::ledger::event::{Event, Key, Space, Ticket};

const GRAPH: Key = graph(0x6a);
const EXEC: Key = exec(0xe0);
const OBJECT: Key = handle(Kind::UserObject, 0x0b);

const fn handle(kind: Kind, value: u64) -> Key {
    let space = Space::Handle(kind);
    Key::new(space, value)
}

const fn graph(value: u64) -> Key {
    handle(Kind::GraphHandle, value)
}

const fn exec(value: u64) -> Key {
    handle(Kind::ExecGraph, value)
}

/// Steps for tests with graphs.
impl World {
    /// Returns a world with a graph, whose own record the tests below ignore.
    fn with_graph() -> Self {
        let world = Self::new();
        world.make(GRAPH);
        world
    }

    fn make(&self, key: Key) {
        let Space::Handle(kind) = key.space else {
            panic!("a handle")
        };
        self.0
            .apply(&Event::Created(creation(kind, key.value(), 0)));
    }

    fn object(&self, references: u64) {
        self.make(OBJECT);
        let (key, count) = (OBJECT, references - 1);
        self.0.apply(&Event::Retained { key, count });
    }

    fn graph_retains(&self, graph: Key, count: u64, moved: bool) {
        self.0.apply(&Event::GraphRetained {
            graph,
            key: OBJECT,
            count,
            moved,
        });
    }

    fn begin_graph_free(&self, graph: Key, count: u64) -> Ticket {
        self.begin(&Event::ReleaseBegan {
            key: OBJECT,
            count,
            graph: Some(graph),
            caller: caller(SCOPE),
        })
    }

    fn copy(&self, from: Key, to: Key, auto_free: bool) {
        self.make(to);
        self.0.apply(&Event::GraphCopied {
            from,
            to,
            auto_free,
        });
    }

    fn begin_destroy(&self, key: Key) -> Ticket {
        let caller = caller(SCOPE);
        self.begin(&Event::FreeBegan { key, caller })
    }

    fn destroy(&self, key: Key) {
        self.end_free(self.begin_destroy(key), 0);
    }

    fn has_object(&self) -> bool {
        self.0.get(&OBJECT).is_some()
    }
}

#[test]
fn a_user_object_ends_with_its_last_reference() {
    let world = World::new();
    world.object(3);
    world.release(OBJECT, 2);
    assert!(world.has_object());
    let key = OBJECT;
    world.0.apply(&Event::Retained { key, count: 1 });
    world.end_free(world.begin_release(OBJECT, 2), FAILED);
    world.release(OBJECT, 1);
    assert!(world.has_object());
    world.release(OBJECT, 1);
    assert!(world.is_empty());
}

#[test]
fn a_graph_whose_nodes_are_gone_refers_to_nothing() {
    let world = World::with_graph();
    world.object(2);
    world.graph_retains(GRAPH, 2, true);
    assert!(world.has_object());
    world.0.apply(&Event::NodesMoved {
        from: GRAPH,
        to: None,
    });
    assert!(!world.has_object());
    world.destroy(GRAPH);
    assert!(world.is_empty());
}

#[test]
fn a_recording_may_name_any_number_of_references() {
    let world = World::with_graph();
    world.object(2);
    let (key, count) = (OBJECT, u64::MAX);
    world.0.apply(&Event::Retained { key, count });
    for _ in 0..2 {
        world.graph_retains(GRAPH, u64::MAX, true);
        world.graph_retains(GRAPH, u64::MAX, false);
    }
    world.end_free(world.begin_destroy(GRAPH), FAILED);
    world.destroy(GRAPH);
    assert!(world.is_empty());
}

#[test]
fn a_graph_keeps_an_object_until_it_is_destroyed() {
    for moved in [true, false] {
        let world = World::with_graph();
        world.object(1);
        world.graph_retains(GRAPH, 1, moved);
        if !moved {
            world.release(OBJECT, 1);
        }
        assert!(world.has_object());
        let destroy = world.begin_destroy(GRAPH);
        assert!(!world.has_object());
        world.end_free(destroy, FAILED);
        assert!(world.has_object(), "the graph is there, and what it holds");
        world.destroy(GRAPH);
        assert!(world.is_empty(), "moved: {moved}");
    }
}

#[test]
fn clones_and_executable_graphs_have_references_of_their_own() {
    let world = World::with_graph();
    world.object(1);
    world.graph_retains(GRAPH, 1, true);
    world.copy(GRAPH, graph(2), false);
    world.copy(graph(2), EXEC, false);
    for (holder, is_left) in [(GRAPH, true), (EXEC, true), (graph(2), false)] {
        world.destroy(holder);
        assert_eq!(world.has_object(), is_left);
    }
    assert!(world.is_empty());
}

#[test]
fn an_updated_executable_graph_has_its_new_graph_s_references() {
    let world = World::with_graph();
    world.object(1);
    world.graph_retains(GRAPH, 1, true);
    world.copy(GRAPH, EXEC, false);
    world.destroy(GRAPH);
    world.make(graph(2));
    let update = |graph| world.0.apply(&Event::GraphUpdated { exec: EXEC, graph });
    update(graph(2));
    assert!(!world.has_object());
    world.object(1);
    world.graph_retains(graph(2), 1, true);
    update(graph(2));
    update(graph(2));
    world.destroy(graph(2));
    assert!(world.has_object());
    world.destroy(EXEC);
    assert!(world.is_empty());
}

#[test]
fn a_graph_does_not_release_the_program_s_own_reference() {
    let world = World::with_graph();
    world.object(2);
    world.graph_retains(GRAPH, 1, true);
    world.end_free(world.begin_graph_free(GRAPH, 1), FAILED);
    world.end_free(world.begin_graph_free(GRAPH, 1), 0);
    world.end_free(world.begin_graph_free(GRAPH, 1), 0);
    world.destroy(GRAPH);
    assert!(world.has_object(), "the program's own reference");
    world.release(OBJECT, 1);
    assert!(world.is_empty());
}

#[test]
fn an_object_moved_into_an_unknown_graph_is_no_longer_tracked() {
    let world = World::new();
    world.object(1);
    world.graph_retains(GRAPH, 1, false);
    assert!(world.has_object(), "the program's own reference");
    world.graph_retains(GRAPH, 1, true);
    assert!(world.is_empty());
    assert_eq!(world.anomalies(), []);
}

#[test]
fn a_reused_graph_handle_holds_nothing_of_the_old_graph() {
    let world = World::with_graph();
    world.object(1);
    world.graph_retains(GRAPH, 1, true);
    let destroy = world.begin_destroy(GRAPH);
    world.make(GRAPH);
    world.end_free(destroy, 0);
    assert!(!world.has_object());
    world.object(1);
    world.destroy(GRAPH);
    assert!(world.has_object());
}

#[test]
fn a_graph_releases_no_more_references_than_it_has() {
    let world = World::with_graph();
    world.object(3);
    world.graph_retains(GRAPH, 2, false);
    world.end_free(world.begin_graph_free(GRAPH, 9), 0);
    world.release(OBJECT, 2);
    assert!(world.has_object(), "the program has one reference left");
    world.release(OBJECT, 1);
    assert!(!world.has_object());
}

#[test]
fn a_graph_has_its_references_again_if_their_release_failed() {
    let world = World::with_graph();
    world.object(2);
    world.graph_retains(GRAPH, 2, true);
    world.end_free(world.begin_graph_free(GRAPH, 2), FAILED);
    assert!(world.has_object());
    world.end_free(world.begin_graph_free(GRAPH, 2), 0);
    assert!(!world.has_object());
}
