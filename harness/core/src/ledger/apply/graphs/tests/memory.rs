//! Tests of the memory that graphs allocate and free.

use super::super::super::tests::{FAILED, SCOPE, World, caller, creation};
use super::{EXEC, GRAPH, exec, graph, handle};
use crate::ledger::event::{
    Caller, ContextEnd, ContextUid, Creation, Event, Key, ScopeId, Space, StackId, Ticket,
};
use crate::ledger::{Kind, Place, Record};

const ADDRESS: u64 = 0x7f00_0000_0000;
const SIZE: u64 = 512;
/// The call site that added the node.
const NODE: StackId = StackId(7);
const STREAM: Key = handle(Kind::Stream, 0x57);

const fn pointer(value: u64) -> Key {
    let space = Space::DevicePointer;
    Key::new(space, value)
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

    /// Returns a graph with the memory of one node, and an executable graph created from it.
    fn with_memory(auto_free: bool) -> Self {
        let world = Self::with_graph();
        world.allocates(GRAPH, ADDRESS);
        world.copy(GRAPH, EXEC, auto_free);
        world
    }

    /// Returns the world of [`with_memory`](Self::with_memory) with a second graph that frees the
    /// memory.
    fn with_another_that_frees() -> Self {
        let world = Self::with_memory(false);
        world.make(graph(2));
        world.frees(graph(2), ADDRESS);
        world.copy(graph(2), exec(2), false);
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

/// There are so many nodes that a linear search for each would take too long.
#[test]
fn a_graph_may_allocate_and_free_any_number_of_times() {
    const PAIRS: u64 = 200_000;

    let world = World::with_graph();
    for address in 0..PAIRS {
        world.allocates(GRAPH, ADDRESS + address);
    }
    for address in 0..PAIRS - 1 {
        world.frees(GRAPH, ADDRESS + address);
    }
    world.copy(GRAPH, EXEC, false);
    world.launch(EXEC);
    assert_eq!(world.memory(), [pointer(ADDRESS + PAIRS - 1)]);
}

#[test]
fn a_launch_allocates_the_memory_of_its_nodes_and_nothing_earlier() {
    let world = World::with_memory(false);
    assert_eq!(world.memory(), []);
    assert!(world.0.knows_graph_memory());
    let launch = world.begin_launch(EXEC);
    assert_eq!(world.memory(), [], "reported when it has succeeded");
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
fn graph_memory_outlives_the_graph_the_executable_and_the_context() {
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
    // The driver may give the same address to several nodes in turn.
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
    let world = World::with_another_that_frees();
    world.launch(EXEC);
    let failing = world.begin_launch(exec(2));
    assert_eq!(world.memory(), [], "freed from the beginning on");
    assert!(world.0.frees_in_flight());
    world.end_launch(failing, FAILED);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
    world.launch(exec(2));
    assert_eq!(world.memory(), []);
    assert_eq!(world.bytes().live, 0);
    assert_eq!(world.anomalies(), []);
}

#[test]
fn memory_launched_anew_before_the_launch_that_frees_it_returns_stays() {
    let world = World::with_another_that_frees();
    world.launch(EXEC);
    let freeing = world.begin_launch(exec(2));
    world.launch(EXEC);
    world.end_launch(freeing, 0);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
    assert_eq!(world.bytes().live, SIZE);
}

#[test]
fn a_launch_that_frees_memory_of_the_one_before_holds_no_more() {
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
    assert_eq!(world.0.snapshot(inner).live, 0);
    assert_eq!(world.anomalies(), []);
    world.free(ADDRESS);
    world.launch(EXEC);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
}

#[test]
fn an_update_replaces_the_memory_of_an_executable_graph_but_frees_none() {
    let world = World::with_memory(true);
    world.launch(EXEC);
    world.make(graph(2));
    world.allocates(graph(2), ADDRESS + SIZE);
    let graph = graph(2);
    world.0.apply(&Event::GraphUpdated { exec: EXEC, graph });
    world.destroy(graph);
    for _ in 0..2 {
        world.launch(EXEC);
        assert_eq!(world.memory(), [ADDRESS, ADDRESS + SIZE].map(pointer));
    }
    assert_eq!(world.anomalies(), []);
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
fn memory_of_a_capture_belongs_to_its_graph_once_the_capture_ends() {
    let world = World::new();
    world.allocates(STREAM, ADDRESS);
    world.frees(STREAM, ADDRESS + SIZE);
    world.0.apply(&Event::NodesMoved {
        from: STREAM,
        to: Some(GRAPH),
    });
    world.make(GRAPH);
    world.copy(GRAPH, EXEC, false);
    world.launch(EXEC);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
}

#[test]
fn a_child_graph_frees_the_memory_of_the_graph_that_it_was_moved_into() {
    let world = World::with_graph();
    world.allocates(GRAPH, ADDRESS);
    let child = graph(2);
    world.frees(child, ADDRESS);
    world.allocates(child, ADDRESS + SIZE);
    world.0.apply(&Event::NodesMoved {
        from: child,
        to: Some(GRAPH),
    });
    world.copy(GRAPH, EXEC, false);
    world.launch(EXEC);
    assert_eq!(world.memory(), [pointer(ADDRESS + SIZE)]);
}

#[test]
fn a_failed_capture_leaves_nothing_to_a_later_graph() {
    let world = World::new();
    world.allocates(STREAM, ADDRESS);
    for to in [None, Some(GRAPH)] {
        world.0.apply(&Event::NodesMoved { from: STREAM, to });
    }
    world.make(GRAPH);
    world.copy(GRAPH, EXEC, false);
    assert_eq!(world.begin_launch(EXEC), None);
}

#[test]
fn a_failed_capture_keeps_what_is_known_of_other_graphs() {
    let world = World::with_memory(false);
    let in_progress = graph(2);
    world.allocates(in_progress, ADDRESS + SIZE);
    world.0.apply(&Event::NodesMoved {
        from: STREAM,
        to: None,
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

/// Returns two numbers for each graph that a log has kept: the bytes that the graph holds, and the
/// bytes that would be enough if its nodes ran in order.
fn logged(world: &World) -> Vec<(u64, u64)> {
    let (_, graphs) = world.0.meters().log(SCOPE);
    graphs.iter().map(|it| (it.bytes, it.in_order)).collect()
}

#[test]
fn a_graph_that_holds_more_than_its_order_needs_is_logged_when_it_is_instantiated() {
    let world = World::with_graph();
    assert!(!world.0.knows_graph_memory());
    world.allocates(GRAPH, ADDRESS);
    world.0.begin_log(SCOPE);
    // Nodes that were added before the log began are not known.
    world.copy(GRAPH, exec(1), false);
    assert_eq!(logged(&world), []);
    let add = |number: u64, apart: u64| {
        world.make(graph(number));
        for node in 0..2 {
            world.allocates(graph(number), ADDRESS + node * apart);
            world.frees(graph(number), ADDRESS + node * apart);
        }
    };
    add(2, SIZE);
    world.copy(graph(2), graph(3), false);
    assert_eq!(logged(&world), [], "a copy is not complete");
    world.copy(graph(2), exec(2), false);
    world.copy(graph(2), exec(4), false);
    assert_eq!(logged(&world), [(2 * SIZE, SIZE)], "once");
    // These are graphs whose two nodes have the same address, or addresses that overlap.
    add(5, 0);
    world.copy(graph(5), exec(5), false);
    assert_eq!(logged(&world).len(), 1);
    add(6, SIZE / 2);
    world.copy(graph(6), exec(6), false);
    assert_eq!(logged(&world)[1..], [(SIZE + SIZE / 2, SIZE)]);
    for number in 10..40 {
        add(number, number);
        world.copy(graph(number), exec(number), false);
    }
    assert_eq!(logged(&world).len(), 16, "no more are kept");
}

#[test]
fn memory_of_a_launch_has_no_stream_and_the_launching_scope() {
    let world = World::with_another_that_frees();
    let in_a_stream = Creation {
        key: pointer(ADDRESS + SIZE),
        stream: 5,
        ..creation(Kind::StreamOrdered, ADDRESS + SIZE, SIZE)
    };
    let (graph, made) = (GRAPH, in_a_stream);
    world.0.apply(&Event::GraphAllocates { graph, made });
    world.copy(GRAPH, exec(3), false);
    world.launch(exec(3));
    let of_graphs = world.0.select(|record| record.made.kind == Kind::Graph);
    assert_eq!(of_graphs.iter().map(|it| it.made.stream).max(), Some(0));
    // If a later scope launches a graph that frees memory, the free is counted in that scope,
    // unless the launch failed.
    for (error, count) in [(FAILED, 0), (0, 1)] {
        let later = ScopeId(7);
        world.0.open_scope(later);
        let (exec, caller) = (exec(2), caller(later));
        let ticket = world.0.apply(&Event::LaunchBegan { exec, caller });
        world.end_launch(ticket, error);
        assert_eq!(world.0.close_scope(later).count, count, "{error}");
    }
    assert_eq!(world.memory(), [pointer(ADDRESS + SIZE)]);
}

#[test]
fn a_launch_replaces_another_record_at_its_address() {
    let world = World::with_memory(true);
    let other = creation(Kind::Linear, ADDRESS, SIZE);
    world.0.apply(&Event::Created(other));
    world.launch(EXEC);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
}

#[test]
fn a_graph_with_a_record_outlives_a_failed_last_capture() {
    let world = World::with_memory(false);
    world.0.apply(&Event::NodesMoved {
        from: STREAM,
        to: None,
    });
    world.launch(EXEC);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
}

#[test]
fn a_launch_does_not_end_the_free_of_another_call() {
    let world = World::with_another_that_frees();
    world.launch(EXEC);
    let free = world.begin_destroy(pointer(ADDRESS));
    // The free node of the graph has nothing to free.
    world.launch(exec(2));
    world.end_free(free, FAILED);
    assert_eq!(world.memory(), [pointer(ADDRESS)]);
}
