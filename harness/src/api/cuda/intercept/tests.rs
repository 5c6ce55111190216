use std::cell::Cell;
use std::thread::LocalKey;

use super::super::call::{
    AddedNode, At, Bytes, Call, Creates, Frees, Share, array, captured, context, copied, creates,
    destroys, device, frees, handle, named, ordered, physical, pinned, pitched, registered,
    releases, updated,
};
use super::super::contexts::{Contexts, forget};
use super::super::foreign::{ArrayDescriptor3D, In, Node, Out, Properties};
use super::{Intercepted, Listener};
use crate::api::pointer::Pointer;
use crate::device::captures;
use crate::device::driver::Driver;
use crate::ledger::event::{ContextEnd, Creation, Event, Space};
use crate::ledger::{Anomaly, FailedCall, Kind, Ledger, Mark, Place};

const PAGE: u64 = 0x20_0000;

thread_local! {
    /// The handle of the current context.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
    /// The graph into which a stream is being captured.
    static CAPTURED: Cell<Option<u64>> = const { Cell::new(None) };
    static PRIMARY_IS_ACTIVE: Cell<bool> = const { Cell::new(true) };
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// A ledger and contexts for one thread, and a driver that answers as the test specifies.
struct Scene {
    ledger: Ledger,
    contexts: Contexts,
    driver: Driver,
    current: &'static LocalKey<Cell<u64>>,
    captured: &'static LocalKey<Cell<Option<u64>>>,
    primary_is_active: &'static LocalKey<Cell<bool>>,
    asked: &'static LocalKey<Cell<u32>>,
}

unsafe extern "C" fn current_context(context: *mut u64) -> u32 {
    ASKED.set(ASKED.get() + 1);
    // SAFETY: the harness passes a writable place for the answer.
    unsafe { context.write(CURRENT.get()) };
    0
}

unsafe extern "C" fn current_device(device: *mut i32) -> u32 {
    // SAFETY: the harness passes a writable place for the answer.
    unsafe { device.write(4) };
    0
}

unsafe extern "C" fn primary_state(_device: i32, _flags: *mut u32, active: *mut i32) -> u32 {
    // SAFETY: the harness passes a writable place for the answer.
    unsafe { active.write(PRIMARY_IS_ACTIVE.get().into()) };
    0
}

unsafe extern "C" fn capture(
    _stream: u64,
    status: *mut i32,
    _id: *mut u64,
    graph: *mut u64,
    _nodes: *mut u64,
    _count: *mut usize,
) -> u32 {
    let captured = CAPTURED.get();
    // SAFETY: the harness passes writable places for the answers.
    unsafe {
        status.write(captured.is_some().into());
        graph.write(captured.unwrap_or(0));
    }
    0
}

unsafe extern "C" fn address_range(base: *mut u64, bytes: *mut usize, address: u64) -> u32 {
    // SAFETY: the harness passes writable places for the answers.
    unsafe {
        base.write(address);
        bytes.write((address & 0xffff) as usize);
    }
    0
}

impl Scene {
    fn new() -> Self {
        forget();
        CURRENT.set(0);
        CAPTURED.set(None);
        PRIMARY_IS_ACTIVE.set(true);
        ASKED.set(0);
        Self {
            ledger: Ledger::new(),
            contexts: Contexts::new(),
            driver: Driver {
                current_context: Some(current_context),
                current_device: Some(current_device),
                primary_state: Some(primary_state),
                capture: Some(capture),
                address_range: Some(address_range),
                ..Driver::default()
            },
            current: &CURRENT,
            captured: &CAPTURED,
            primary_is_active: &PRIMARY_IS_ACTIVE,
            asked: &ASKED,
        }
    }

    /// Makes a complete call that returns `error`. `inside` runs during the call.
    fn call_with<B: Default>(&self, call: impl Intercepted<B>, error: u32, inside: impl FnOnce()) {
        let listener = Listener {
            ledger: &self.ledger,
            contexts: &self.contexts,
            driver: Some(&self.driver),
            per_thread: false,
        };
        let mut begun = B::default();
        // SAFETY: everything to which a test's call points exists, and has been written if `error`
        // is 0.
        unsafe { call.began(&listener, &mut begun) };
        inside();
        // SAFETY: the condition above also holds for `ended`.
        unsafe { call.ended(&listener, &begun, error) };
    }

    fn fails<B: Default>(&self, call: impl Intercepted<B>, error: u32) {
        self.call_with(call, error, || ());
    }

    fn call<B: Default>(&self, call: impl Intercepted<B>) {
        self.fails(call, 0);
    }

    fn made(&self) -> Vec<Creation> {
        let records = self.ledger.select(|_| true);
        records.into_iter().map(|record| record.made).collect()
    }

    fn kinds(&self) -> Vec<Kind> {
        self.made().iter().map(|made| made.kind).collect()
    }

    fn anomalies(&self) -> Vec<Anomaly> {
        self.ledger.anomalies.since(Mark::default())
    }

    /// Returns the addresses and sizes of the memory that launches have left allocated.
    fn graph_memory(&self) -> Vec<(u64, u64)> {
        let made = self
            .made()
            .into_iter()
            .filter(|made| made.kind == Kind::Graph);
        made.map(|made| (made.key.value(), made.bytes)).collect()
    }
}

fn free(pointer: u64) -> Frees {
    frees(Space::DevicePointer, pointer)
}

/// Returns the effect of `cuMemAllocAsync` on `stream`, which returns `pointer`.
fn in_order(pointer: &u64, stream: u64) -> Creates {
    ordered(Out::at(pointer), 64, stream, 0)
}

fn free_in_order(pointer: u64, stream: u64) -> Frees {
    let free = frees(Space::DevicePointer, pointer);
    free.on_stream(stream)
}

#[test]
fn memory_is_where_the_current_context_is_and_belongs_to_it() {
    let scene = Scene::new();
    scene.current.set(0xc0);
    let pointer = 0x1000_u64;
    scene.call(device(Kind::Linear, Out::at(&pointer), 64));
    let [made] = scene.made()[..] else {
        panic!("there must be exactly one allocation");
    };
    assert_eq!(
        (made.key.space, made.key.value()),
        (Space::DevicePointer, pointer)
    );
    assert_eq!((made.place, made.bytes), (Place::cuda(4), 64));
    assert_eq!(made.context, scene.ledger.contexts.all()[0].uid);
    assert_eq!(scene.asked.get(), 1, "one query per call");
    scene.call(free(pointer));
    assert_eq!(scene.kinds(), []);
    assert_eq!(scene.asked.get(), 1, "a free needs no query");
}

#[test]
fn answers_of_32_bits_are_read_no_further() {
    let scene = Scene::new();
    let (answers, pitch) = ([0x1000_u32, u32::MAX], [512_u32, u32::MAX]);
    let (pointer, pitch) = (Out::at(&answers[0]), Out::at(&pitch[0]));
    scene.call(pitched(pointer, pitch, 100, 7));
    let made = scene.made()[0];
    assert_eq!((made.key.value(), made.bytes), (0x1000, 512 * 7));
}

#[test]
fn an_unwanted_or_null_answer_makes_nothing_and_freeing_null_frees_nothing() {
    let scene = Scene::new();
    scene.call(device(Kind::Linear, Out::<u64>::null(), 64));
    scene.call(device(Kind::Linear, Out::at(&0_u64), 64));
    scene.call(free(0));
    assert_eq!(scene.kinds(), []);
    assert_eq!(scene.ledger.unknown_frees(), 0);
}

#[test]
fn a_failed_call_is_reported_with_its_request_and_no_answer_is_read() {
    let garbage = Out::<u64>::dangling();
    let descriptor = ArrayDescriptor3D {
        width: 8_u64,
        height: 4,
        depth: 2,
        format: 0x20,
        channels: 1,
        flags: 0,
    };
    let rows = pitched(garbage, garbage, 100, 7);
    let deep = array(Kind::Array, garbage, In::at(&descriptor));
    let wrong = array(Kind::Array, garbage, In::<ArrayDescriptor3D>::dangling());
    for (call, error, expected) in [(rows, 2, 700), (deep, 2, 256), (wrong, 1, 0)] {
        let scene = Scene::new();
        scene.fails(call, error);
        assert_eq!(scene.kinds(), []);
        let [Anomaly::FailedCreation { bytes, .. }] = scene.anomalies()[..] else {
            panic!("{:?}", scene.anomalies());
        };
        assert_eq!(bytes, expected);
    }
}

#[test]
fn a_free_takes_its_record_out_before_the_call_and_puts_it_back_if_that_fails() {
    let scene = Scene::new();
    let pointer = 0x1000_u64;
    let allocation = device(Kind::Linear, Out::at(&pointer), 64);
    scene.call(allocation);
    let gone = || assert_eq!(scene.kinds(), []);
    scene.call_with(free(pointer), 999, gone);
    assert_eq!(scene.kinds(), [Kind::Linear]);
    assert!(matches!(
        scene.anomalies()[..],
        [Anomaly::FailedFree(FailedCall { error: 999, .. })]
    ));
    // Another thread gets the address before the call returns.
    scene.call_with(free(pointer), 0, || scene.call(allocation));
    assert_eq!(scene.kinds(), [Kind::Linear]);
}

#[test]
fn host_memory_is_at_the_host() {
    let scene = Scene::new();
    scene.call(pinned(Out::at(&0x5000), 8192));
    scene.call(registered(0x7fff_1000, 12_288));
    for made in scene.made() {
        assert_eq!(made.place, Place::HOST);
    }
    scene.call(frees(Space::RegisteredPointer, 0x7fff_1000));
    assert_eq!(scene.kinds(), [Kind::Pinned]);
}

#[test]
fn memory_from_a_pool_is_where_the_pool_is() {
    let place = |location_type, location_id| {
        let scene = Scene::new();
        scene.current.set(0xc0);
        let properties = Properties {
            allocation_type: 1,
            handle_types: 0,
            location_type,
            location_id,
        };
        let pool = handle(Kind::Pool, Out::at(&0x900));
        scene.call(pool.at(At::Properties(In::at(&properties))));
        scene.call(ordered(Out::at(&0x4000_u64), 400, 0, 0x900));
        let made = scene.made();
        assert_eq!(made[0].place, made[1].place);
        made[1].place
    };
    assert_eq!(place(1, 2), Place::cuda(2));
    assert_eq!(place(2, 7), Place::HOST);
    assert_eq!(place(3, 1), Place::HOST);
    assert_eq!(place(6, 0x0100_0003_u32.to_le()), Place::cuda(3));
    assert_eq!(
        place(0, 0),
        Place::cuda(4),
        "a managed pool specifies no device"
    );
}

#[test]
fn a_pool_that_is_imported_again_is_the_same_pool() {
    let scene = Scene::new();
    let import = Creates {
        may_answer_again: true,
        ..handle(Kind::Pool, Out::at(&0x5000))
    };
    scene.call(import);
    let first = scene.made();
    scene.call(import);
    assert_eq!(scene.made(), first);
    scene.call(destroys(Kind::Pool, 0x5000));
    assert_eq!(scene.kinds(), []);
    assert_eq!(scene.anomalies(), []);
}

#[test]
fn memory_of_another_process_is_closed_as_often_as_it_was_opened() {
    let scene = Scene::new();
    let open = Creates {
        bytes: Bytes::Asked,
        ..creates(Kind::Imported, Space::IpcPointer, Out::at(&0x7000_1234_u64))
    };
    scene.call(open);
    scene.call(open);
    assert_eq!(scene.made()[0].bytes, 0x1234);
    let close = releases(Space::IpcPointer, 0x7000_1234, 1, None);
    scene.call(close);
    assert!(!scene.kinds().is_empty());
    scene.call(close);
    assert_eq!(scene.kinds(), []);
    assert_eq!(scene.anomalies(), []);
}

#[test]
fn physical_memory_is_followed_through_handles_and_maps() {
    let scene = Scene::new();
    let properties = Properties {
        allocation_type: 1,
        handle_types: 0,
        location_type: 1,
        location_id: 3,
    };
    let memory = physical(Kind::Physical, Out::at(&0x11), PAGE as usize);
    scene.call(memory.at(At::Properties(In::at(&properties))));
    let made = scene.made()[0];
    assert_eq!((made.key.space, made.bytes), (Space::PhysicalObject, PAGE));
    assert_eq!(made.place, Place::cuda(3));
    let address = 0x7000_0000;
    let map = Call::Causes(Event::Mapped {
        address,
        bytes: PAGE,
        handle: 0x11,
    });
    let holds = || {
        let holdings = scene.ledger.holdings();
        let record = scene.ledger.select(|_| true)[0];
        (
            holdings[&record.key()].references,
            holdings[&record.key()].maps,
        )
    };
    scene.fails(map, 1);
    assert_eq!(holds(), (1, 0), "a failed map does not count");
    scene.call(map);
    scene.call(Call::RetainsMapped(Out::at(&0x12_u64), address));
    assert_eq!(holds(), (2, 1));
    let release = |handle| releases(Space::PhysicalHandle, handle, 1, None);
    scene.call(release(0x11));
    let unmap = Frees {
        share: Share::Maps(PAGE),
        ..frees(Space::Mapping, address)
    };
    scene.call_with(unmap, 1, || assert_eq!(holds(), (1, 0)));
    assert_eq!(holds(), (1, 1));
    scene.call(unmap);
    scene.call(release(0x12));
    assert_eq!(scene.kinds(), []);
    assert_eq!(scene.ledger.unknown_frees(), 0);
}

#[test]
fn a_context_is_on_its_device_and_takes_its_objects_with_it() {
    let scene = Scene::new();
    let handle_of_it = 0xc5;
    scene.call_with(context(Out::at(&handle_of_it), 5), 0, || {
        scene.current.set(0xc5)
    });
    let [made] = scene.made()[..] else {
        panic!("there must be exactly one context");
    };
    assert_eq!(made.place, Place::cuda(5));
    assert_eq!(made.context, scene.ledger.contexts.all()[0].uid);
    scene.call(handle(Kind::Stream, Out::at(&0x51)));
    assert_eq!(scene.made()[1].place, Place::cuda(5));
    let destroy = destroys(Kind::Context, 0xc5);
    scene.fails(destroy, 201);
    assert_eq!(
        scene.kinds(),
        [Kind::Context, Kind::Stream],
        "the context has not ended"
    );
    scene.call(destroy);
    assert_eq!(scene.kinds(), []);
    assert_eq!(scene.ledger.contexts.all(), []);
}

#[test]
fn a_context_ends_with_its_last_use() {
    let scene = Scene::new();
    let made = 0xc5;
    scene.call_with(context(Out::at(&made), 0), 0, || scene.current.set(0xc5));
    scene.call(Call::Attaches(Out::at(&made)));
    let detach = releases(Space::Handle(Kind::Context), 0xc5, 1, None);
    scene.call(detach);
    assert_eq!(scene.ledger.contexts.all().len(), 1);
    scene.fails(detach, 201);
    assert_eq!(scene.ledger.contexts.all().len(), 1, "it is still live");
    scene.call(detach);
    assert_eq!(scene.ledger.contexts.all(), []);
}

#[test]
fn a_context_ends_with_its_last_use_even_if_another_one_gets_its_handle_during_the_call() {
    let scene = Scene::new();
    let made = 0xc5;
    let create = || scene.call(context(Out::at(&made), 0));
    create();
    scene.current.set(0xc5);
    scene.call(handle(Kind::Stream, Out::at(&0x51)));
    let detach = releases(Space::Handle(Kind::Context), 0xc5, 1, None);
    scene.call_with(detach, 0, create);
    assert_eq!(scene.kinds(), [Kind::Context], "the stream has ended");
    scene.call(handle(Kind::Stream, Out::at(&0x52)));
    assert_eq!(scene.kinds(), [Kind::Context, Kind::Stream]);
}

#[test]
fn a_primary_context_ends_with_its_last_release_or_a_reset() {
    for cause in [ContextEnd::LastRelease, ContextEnd::Reset] {
        let scene = Scene::new();
        let release = Call::ReleasesPrimary(0, cause);
        scene.call(Call::RetainsPrimary(Out::at(&0xc0_u64), 0));
        scene.current.set(0xc0);
        scene.call(device(Kind::Linear, Out::at(&0x1000_u64), 64));
        assert_eq!(
            scene.made()[0].place,
            Place::cuda(0),
            "the place given by the call that retained it"
        );
        scene.fails(release, 3);
        if cause == ContextEnd::LastRelease {
            scene.call(release);
        }
        assert_eq!(
            scene.kinds(),
            [Kind::Linear],
            "another holder keeps it alive"
        );
        scene.primary_is_active.set(false);
        scene.call(release);
        assert_eq!(scene.kinds(), []);
        assert_eq!(scene.ledger.contexts.all(), []);
    }
}

#[test]
fn what_is_created_in_a_green_context_ends_with_the_primary_one() {
    let scene = Scene::new();
    scene.call(Call::RetainsPrimary(Out::at(&0xc0_u64), 0));
    let (green, converted) = (0x96ee, 0xc07e);
    scene.call(handle(Kind::GreenContext, Out::at(&green)).at(At::Device(0)));
    scene.call(Call::ConvertsGreen(Out::at(&converted), green));
    scene.current.set(converted);
    scene.call(device(Kind::Linear, Out::at(&0x3000_u64), 64));
    scene.call(handle(Kind::Stream, Out::at(&0x4000)));
    assert_eq!(scene.ledger.contexts.all().len(), 2);
    scene.primary_is_active.set(true);
    scene.call(destroys(Kind::GreenContext, green));
    assert_eq!(scene.kinds(), [Kind::Linear, Kind::Stream]);
    assert_eq!(scene.anomalies(), []);
    scene.primary_is_active.set(false);
    scene.call(Call::ReleasesPrimary(0, ContextEnd::LastRelease));
    assert_eq!(scene.kinds(), [Kind::Stream]);
    assert_eq!(scene.ledger.contexts.all(), []);
}

#[test]
fn two_contexts_may_give_the_same_number_to_two_textures() {
    let scene = Scene::new();
    let create = handle(Kind::Texture, Out::at(&1));
    let destroy = destroys(Kind::Texture, 1);
    for context in [0xc1, 0xc2] {
        scene.current.set(context);
        scene.call(create);
    }
    let contexts: Vec<_> = scene.made().iter().map(|made| made.context).collect();
    scene.current.set(0xc1);
    scene.call(destroy);
    assert_eq!(scene.made()[0].context, contexts[1]);
    // Some drivers may accept an object of the other context here.
    scene.call(destroy);
    assert_eq!(scene.kinds(), []);
    assert_eq!(scene.ledger.unknown_frees(), 0);
    scene.call(destroy);
    assert_eq!(scene.ledger.unknown_frees(), 1);
}

/// Begins a capture. Only the calling test may use the stream, because the whole process shares the
/// list of captures in progress.
fn begin_capture(scene: &Scene, stream: u64, into: u64) {
    scene.call(Call::BeginsCapture(stream, into));
}

fn instantiate(scene: &Scene, graph: u64, exec: u64, flags: u64) {
    let flags = In::at(&flags);
    scene.call(copied(Kind::ExecGraph, Out::at(&exec), graph, flags));
}

fn launch(scene: &Scene, exec: u64) {
    scene.call(Call::Launches(exec));
}

#[test]
fn captured_memory_belongs_to_the_graph_on_every_stream() {
    for named in [true, false] {
        let scene = Scene::new();
        let (graph, exec) = (0x51, 0x52);
        let (stream, forked) = (0xca97_0003, 0xca97_0004);
        begin_capture(&scene, stream, 0);
        // A driver might not return the graph's handle while the graph is being captured. The
        // memory is then recorded under the stream.
        scene.captured.set(Some(if named { graph } else { 0 }));
        scene.call(in_order(&0x2000, stream));
        scene.call(in_order(&0x3000, if named { forked } else { stream }));
        scene.call(free_in_order(0x3000, stream));
        scene.captured.set(None);
        scene.call(captured(stream, Out::at(&graph)));
        assert_eq!(scene.kinds(), [Kind::GraphHandle]);
        instantiate(&scene, graph, exec, 0);
        launch(&scene, exec);
        assert_eq!(scene.graph_memory(), [(0x2000, 64)]);
        scene.call(free_in_order(0x2000, stream));
        assert_eq!(scene.graph_memory(), []);
        assert_eq!(scene.anomalies(), []);
        assert_eq!(scene.ledger.unknown_frees(), 0);
    }
}

#[test]
fn the_driver_is_not_asked_about_captures_if_none_is_active() {
    let scene = Scene::new();
    if captures::active() {
        // Another test is capturing at the moment.
        return;
    }
    scene.captured.set(Some(0x51));
    scene.call(in_order(&0x2000, 0));
    assert_eq!(scene.kinds(), [Kind::StreamOrdered]);
}

#[test]
fn a_captured_free_of_plain_memory_frees_nothing() {
    let scene = Scene::new();
    scene.call(in_order(&0x2000, 0));
    let stream = 0xca97_0006;
    begin_capture(&scene, stream, 0);
    scene.captured.set(Some(0x51));
    scene.call(free_in_order(0x2000, stream));
    assert_eq!(scene.kinds(), [Kind::StreamOrdered]);
    assert_eq!(scene.anomalies(), []);
    scene.fails(free_in_order(0x2000, stream), 900);
    assert_eq!(scene.kinds(), [Kind::StreamOrdered]);
    assert_eq!(scene.anomalies().len(), 1);
    scene.call(captured(stream, Out::at(&0x51)));
}

#[test]
fn a_capture_into_an_existing_graph_creates_no_second_one() {
    let scene = Scene::new();
    let (stream, graph) = (0xca97_0001, 0x9ab);
    begin_capture(&scene, stream, graph);
    scene.call(captured(stream, Out::at(&graph)));
    assert_eq!(scene.kinds(), []);
    begin_capture(&scene, stream, 0);
    scene.call(captured(stream, Out::at(&graph)));
    assert_eq!(scene.kinds(), [Kind::GraphHandle]);
    // One capture failed, and another returned no graph.
    scene.fails(captured(stream, Out::dangling()), 901);
    scene.call(captured(stream, Out::at(&0)));
    assert_eq!(scene.kinds(), [Kind::GraphHandle]);
}

/// The driver returns the same address for a node that is captured again.
#[test]
fn a_graph_that_is_captured_again_allocates_once() {
    let scene = Scene::new();
    let (stream, graph, exec) = (0xca97_0011, 0x61, 0x62);
    for begin in [
        Call::BeginsCapture(stream, 0),
        Call::BeginsRecapture(stream, graph),
    ] {
        scene.call(begin);
        scene.captured.set(Some(graph));
        scene.call(in_order(&0x2000, stream));
        scene.captured.set(None);
        scene.call(captured(stream, Out::at(&graph)));
    }
    instantiate(&scene, graph, exec, 0);
    launch(&scene, exec);
    assert_eq!(scene.graph_memory(), [(0x2000, 64)]);
    assert_eq!(scene.anomalies(), []);
}

/// The driver accepts null, and keeps a graph that nothing can destroy.
#[test]
fn a_captured_graph_that_the_program_does_not_get_is_left() {
    let scene = Scene::new();
    let (stream, graph) = (0xca97_0012, 0x71);
    begin_capture(&scene, stream, 0);
    scene.captured.set(Some(graph));
    scene.call(captured(stream, Pointer(std::ptr::null())));
    assert_eq!(scene.kinds(), [Kind::GraphHandle]);
}

#[test]
fn nodes_that_allocate_and_free_come_and_go_with_launches() {
    let (graph, exec, at) = (0x81, 0x82, 0x2000);
    // `CUgraphNodeParams` for 512 bytes on the third device as 64-bit words, written from the
    // header and independently of the code under test.
    let node = |node_type: u64| {
        let mut words = [0_u64; 32];
        (words[0], words[3], words[15], words[16]) = (node_type, 1 | 2 << 32, 512, at);
        words
    };
    let (allocation, kernel) = (node(10), node(0));
    let mut freeing = [0_u64; 32];
    (freeing[0], freeing[2]) = (11, at);
    let any = |words: &[u64; 32]| AddedNode::Any(In::<Node>::at_words(words));
    for (allocates, frees) in [
        (any(&allocation), any(&freeing)),
        (
            AddedNode::Allocates(In::at_words(&allocation[2..])),
            AddedNode::Frees(at),
        ),
    ] {
        let scene = Scene::new();
        let adds = |node| scene.call(Call::AddsNode(graph, node));
        adds(any(&kernel));
        assert!(!scene.ledger.knows_graph_memory(), "another type of node");
        adds(allocates);
        instantiate(&scene, graph, exec, 0);
        launch(&scene, exec);
        assert_eq!(scene.graph_memory(), [(at, 512)]);
        let record = scene
            .ledger
            .select(|record| record.made.kind == Kind::Graph)[0];
        assert_eq!(record.made.place, Place::cuda(2));
        scene.call(free(at));
        adds(frees);
        instantiate(&scene, graph, exec, 0);
        launch(&scene, exec);
        assert_eq!(scene.graph_memory(), []);
    }
}

#[test]
fn a_failed_launch_leaves_nothing_and_one_that_frees_first_leaves_one() {
    let scene = Scene::new();
    let (graph, exec) = (0x91, 0x92);
    let stream = 0xca97_0007;
    begin_capture(&scene, stream, 0);
    scene.captured.set(Some(graph));
    scene.call(in_order(&0x2000, stream));
    scene.captured.set(None);
    scene.call(captured(stream, Out::at(&graph)));
    instantiate(&scene, graph, exec, 1);
    scene.fails(Call::Launches(exec), 1);
    assert_eq!(scene.graph_memory(), []);
    launch(&scene, exec);
    launch(&scene, exec);
    assert_eq!(scene.graph_memory(), [(0x2000, 64)]);
}

#[test]
fn a_user_object_is_kept_by_the_graphs_it_was_given_to() {
    let scene = Scene::new();
    let (object, graph, exec) = (0x41, 0x42, 0x43);
    let space = Space::Handle(Kind::UserObject);
    let release = |count| releases(space, object, count, None);
    scene.call(handle(Kind::GraphHandle, Out::at(&graph)));
    scene.call(Creates {
        references: 3,
        ..handle(Kind::UserObject, Out::at(&object))
    });
    let key = named(Kind::UserObject, object);
    scene.call(Call::Causes(Event::Retained { key, count: 1 }));
    scene.call(Call::Causes(Event::GraphRetained {
        graph: named(Kind::GraphHandle, graph),
        key,
        count: 2,
        moved: true,
    }));
    scene.call(releases(
        space,
        object,
        1,
        Some(named(Kind::GraphHandle, graph)),
    ));
    instantiate(&scene, graph, exec, 0);
    scene.call(release(2));
    let handles = [Kind::GraphHandle, Kind::UserObject, Kind::ExecGraph];
    assert_eq!(scene.kinds(), handles);
    scene.call(destroys(Kind::GraphHandle, graph));
    assert_eq!(scene.kinds(), handles[1..]);
    let update = updated(exec, 0x99);
    scene.fails(update, 1);
    assert_eq!(
        scene.kinds(),
        handles[1..],
        "a failed update changes nothing"
    );
    scene.call(destroys(Kind::ExecGraph, exec));
    assert_eq!(scene.kinds(), []);
    assert_eq!(scene.ledger.unknown_frees(), 0);
}
