use super::super::tests::{FAILED, SCOPE, World, caller, creation};
use crate::ledger::event::{
    Caller, ContextEnd, ContextUid, Creation, Event, Key, ScopeId, Space, StackId, Ticket,
};
use crate::ledger::{Kind, Place, Record};

const GRAPH: Key = graph(0x6a);
const EXEC: Key = exec(0xe0);
const OBJECT: Key = handle(Kind::UserObject, 0x0b);

const fn handle(kind: Kind, value: u64) -> Key {
    let space = Space::Handle(kind);
    Key { space, value }
}

const fn graph(value: u64) -> Key {
    handle(Kind::GraphHandle, value)
}

const fn exec(value: u64) -> Key {
    handle(Kind::ExecGraph, value)
}

/// The verbs of graphs.
impl World {
    /// A world with a graph, whose own record counts for nothing below.
    fn with_graph() -> Self {
        let world = Self::new();
        world.make(GRAPH);
        world
    }

    fn make(&self, key: Key) {
        let Space::Handle(kind) = key.space else {
            panic!("a handle")
        };
        self.0.apply(&Event::Created(creation(kind, key.value, 0)));
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

    fn begin_graph_release(&self, graph: Key, count: u64) -> Ticket {
        self.begin(&Event::GiveBackBegan {
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
        self.begin(&Event::ReleaseBegan { key, caller })
    }

    fn destroy(&self, key: Key) {
        self.end_free(self.begin_destroy(key), 0);
    }

    fn has_object(&self) -> bool {
        self.0.get(&OBJECT).is_some()
    }
}

#[test]
fn a_user_object_goes_with_the_last_of_its_references() {
    let world = World::new();
    world.object(3);
    world.give_back(OBJECT, 2);
    assert!(world.has_object());
    let key = OBJECT;
    world.0.apply(&Event::Retained { key, count: 1 });
    world.end_free(world.begin_give_back(OBJECT, 2), FAILED);
    world.give_back(OBJECT, 1);
    assert!(world.has_object());
    world.give_back(OBJECT, 1);
    assert!(world.is_empty());
}

#[test]
fn no_number_of_references_that_a_recording_may_name_is_too_great() {
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
            world.give_back(OBJECT, 1);
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
fn an_updated_executable_graph_refers_to_what_its_new_graph_does() {
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
fn a_graph_gives_back_no_more_than_it_has() {
    let world = World::with_graph();
    world.object(2);
    world.graph_retains(GRAPH, 1, true);
    world.end_free(world.begin_graph_release(GRAPH, 1), FAILED);
    world.end_free(world.begin_graph_release(GRAPH, 1), 0);
    world.end_free(world.begin_graph_release(GRAPH, 1), 0);
    world.destroy(GRAPH);
    assert!(world.has_object(), "the program's own reference");
    world.give_back(OBJECT, 1);
    assert!(world.is_empty());
}

#[test]
fn an_object_moved_into_a_graph_that_nobody_saw_made_is_out_of_sight() {
    let world = World::new();
    world.object(1);
    world.graph_retains(GRAPH, 1, false);
    assert!(world.has_object(), "the program's own reference");
    world.graph_retains(GRAPH, 1, true);
    assert!(world.is_empty());
    assert_eq!(world.anomalies(), []);
}

#[test]
fn a_handle_that_stands_for_another_graph_holds_nothing_of_the_old_one() {
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

const ADDRESS: u64 = 0x7f00_0000_0000;
const SIZE: u64 = 512;
/// The line that added the node.
const NODE: StackId = StackId(7);
const STREAM: Key = handle(Kind::Stream, 0x57);

const fn pointer(value: u64) -> Key {
    let space = Space::DevicePointer;
    Key { space, value }
}

impl World {
    fn allocates(&self, graph: Key, address: u64) {
        let made = Creation {
            key: pointer(address),
            caller: Caller {
                stack: NODE,
                ..Caller::default()
            },
            ..creation(Kind::StreamOrdered, address, SIZE)
        };
        self.0.apply(&Event::GraphAllocates { graph, made });
    }

    fn frees(&self, graph: Key, address: u64) {
        self.0.apply(&Event::GraphFrees { graph, address });
    }

    /// A graph with the memory of one node, and what is executable of it.
    fn with_memory(auto_free: bool) -> Self {
        let world = Self::with_graph();
        world.allocates(GRAPH, ADDRESS);
        world.copy(GRAPH, EXEC, auto_free);
        world
    }

    fn begin_launch(&self, exec: Key) -> Option<Ticket> {
        let caller = caller(SCOPE);
        self.0.apply(&Event::LaunchBegan { exec, caller })
    }

    fn end_launch(&self, ticket: Option<Ticket>, error: u32) {
        let ticket = ticket.expect("a launch that has to do with memory has a ticket");
        self.0.apply(&Event::LaunchEnded { ticket, error });
    }

    fn launch(&self, exec: Key) {
        self.end_launch(self.begin_launch(exec), 0);
    }

    fn free(&self, address: u64) {
        self.destroy(pointer(address));
    }

    fn memory(&self) -> Vec<Key> {
        let records = self.0.select(|record| record.made.kind == Kind::Graph);
        records.iter().map(Record::key).collect()
    }
}

#[test]
fn a_launch_takes_what_the_nodes_allocate_and_nothing_before_it_does() {
    let world = World::with_memory(false);
    assert_eq!(world.memory(), []);
    assert!(world.0.knows_graph_memory());
    let launch = world.begin_launch(EXEC);
    assert_eq!(world.memory(), [], "told when it has succeeded");
    world.end_launch(launch, FAILED);
    assert_eq!(world.memory(), [], "a launch that failed takes none");
    world.launch(EXEC);
    let [record] = world.0.select(|record| record.made.kind == Kind::Graph)[..] else {
        panic!("one record")
    };
    assert_eq!((record.key(), record.made.bytes), (pointer(ADDRESS), SIZE));
    let taker = (record.made.caller.scope, record.made.caller.stack);
    assert_eq!(taker, (SCOPE, NODE), "the node's line, for who launches");
    assert_eq!(world.bytes().live, SIZE);
}

#[test]
fn neither_the_graph_nor_the_executable_nor_a_context_takes_the_memory_along() {
    let world = World::with_memory(false);
    world.launch(EXEC);
    world.destroy(EXEC);
    world.destroy(GRAPH);
    world.0.apply(&Event::ContextDestroyed {
        context: ContextUid(1),
        cause: ContextEnd::Reset,
        caller: caller(SCOPE),
    });
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
    assert_eq!(world.anomalies(), []);
    world.free(ADDRESS);
    assert!(world.is_empty(), "freed as any memory is");
}

#[test]
fn memory_that_its_own_graph_frees_is_never_left() {
    let world = World::with_graph();
    // The driver may give one address to one node after another.
    for _ in 0..2 {
        world.allocates(GRAPH, ADDRESS);
        world.frees(GRAPH, ADDRESS);
    }
    world.copy(GRAPH, EXEC, false);
    assert_eq!(world.begin_launch(EXEC), None);
    assert_eq!(world.memory(), []);
}

#[test]
fn another_graph_may_free_the_memory() {
    let world = World::with_memory(false);
    world.make(graph(2));
    world.frees(graph(2), ADDRESS);
    world.copy(graph(2), exec(2), false);
    world.launch(EXEC);
    let failing = world.begin_launch(exec(2));
    assert_eq!(world.memory(), [], "freed from the beginning on");
    assert!(world.0.releases_in_flight());
    world.end_launch(failing, FAILED);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
    world.launch(exec(2));
    assert_eq!(world.memory(), []);
    assert_eq!(world.bytes().live, 0);
    assert_eq!(world.anomalies(), []);
}

#[test]
fn memory_launched_anew_before_the_launch_that_frees_it_returns_stays() {
    let world = World::with_memory(false);
    world.make(graph(2));
    world.frees(graph(2), ADDRESS);
    world.copy(graph(2), exec(2), false);
    world.launch(EXEC);
    let freeing = world.begin_launch(exec(2));
    world.launch(EXEC);
    world.end_launch(freeing, 0);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
    assert_eq!(world.bytes().live, SIZE);
}

#[test]
fn a_launch_that_frees_what_the_one_before_left_holds_no_more_than_before() {
    let world = World::with_memory(true);
    world.launch(EXEC);
    let first = world.0.get(&pointer(ADDRESS));
    let inner = ScopeId(2);
    world.0.open_scope(inner);
    let caller = caller(inner);
    let again = world.0.apply(&Event::LaunchBegan { exec: EXEC, caller });
    world.end_launch(again, 0);
    assert_eq!(
        world.0.get(&pointer(ADDRESS)),
        first,
        "it is its owner's still"
    );
    assert_eq!(world.0.live_in(inner), 0);
    assert_eq!(world.anomalies(), []);
    world.free(ADDRESS);
    world.launch(EXEC);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
}

#[test]
fn memory_freed_between_two_launches_is_new_with_the_second() {
    let world = World::with_memory(false);
    world.launch(EXEC);
    world.free(ADDRESS);
    world.launch(EXEC);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
    assert_eq!(world.anomalies(), []);
}

#[test]
fn memory_of_a_capture_without_a_name_is_its_graph_s_when_the_capture_ends() {
    let world = World::new();
    world.allocates(STREAM, ADDRESS);
    world.frees(STREAM, ADDRESS + SIZE);
    world.0.apply(&Event::CaptureEnded {
        stream: STREAM,
        graph: Some(GRAPH),
        is_last: true,
    });
    world.make(GRAPH);
    world.copy(GRAPH, EXEC, false);
    world.launch(EXEC);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
}

#[test]
fn nothing_of_a_capture_that_came_to_nothing_is_left_to_a_later_graph() {
    for captured in [GRAPH, STREAM] {
        let world = World::new();
        world.allocates(captured, ADDRESS);
        world.0.apply(&Event::CaptureEnded {
            stream: STREAM,
            graph: None,
            is_last: true,
        });
        world.0.apply(&Event::CaptureEnded {
            stream: STREAM,
            graph: Some(GRAPH),
            is_last: true,
        });
        world.make(GRAPH);
        world.copy(GRAPH, EXEC, false);
        assert_eq!(world.begin_launch(EXEC), None, "{captured:?}");
    }
}

#[test]
fn what_is_known_of_other_graphs_outlives_a_capture_that_came_to_nothing() {
    let world = World::with_memory(false);
    let in_progress = graph(2);
    world.allocates(in_progress, ADDRESS + SIZE);
    world.0.apply(&Event::CaptureEnded {
        stream: STREAM,
        graph: None,
        is_last: false,
    });
    world.make(in_progress);
    world.copy(in_progress, exec(2), false);
    world.launch(EXEC);
    world.launch(exec(2));
    assert_eq!(world.memory(), [ADDRESS, ADDRESS + SIZE].map(pointer));
}

#[test]
fn a_node_of_an_explicit_pool_is_where_the_pool_is() {
    let world = World::with_graph();
    let place = Place::cuda(1);
    let pool = Creation {
        place,
        ..creation(Kind::Pool, 0x70, 0)
    };
    world.0.apply(&Event::Created(pool));
    let made = Creation {
        key: pointer(ADDRESS),
        place: Place::UNKNOWN,
        pool: 0x70,
        ..creation(Kind::StreamOrdered, ADDRESS, SIZE)
    };
    let graph = GRAPH;
    world.0.apply(&Event::GraphAllocates { graph, made });
    world.copy(GRAPH, EXEC, false);
    world.launch(EXEC);
    let made = world.0.get(&pointer(ADDRESS)).unwrap().made;
    assert_eq!((made.kind, made.place, made.pool), (Kind::Graph, place, 0));
}
