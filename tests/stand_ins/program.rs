//! Programs written with cudarc run on the stand-in for libcuda.

#![expect(
    unsafe_code,
    reason = "uses uninitialised buffers and launches kernels"
)]

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError, LaunchConfig, PushKernelArg as _, sys};
use cudarc::nvrtc::Ptx;
use gpu_leak_tests::fake::{Control, Fake};

const KINDS: [&str; 10] = [
    "context",
    "stream",
    "event",
    "module",
    "graph",
    "exec",
    "stream-ordered",
    "linear",
    "pinned",
    "graph-memory",
];

fn assert_nothing_lives(control: &Control) {
    for kind in KINDS {
        assert_eq!(control.live(kind), (0, 0), "{kind}");
    }
}

fn assert_round_trip(stream: &Arc<CudaStream>) -> Result<(), DriverError> {
    let source: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let there = stream.clone_htod(&source)?;
    let copy = there.try_clone()?;
    assert_eq!(stream.clone_dtoh(&copy)?, source);
    let zeros = stream.alloc_zeros::<u8>(77)?;
    assert_eq!(stream.clone_dtoh(&zeros)?, [0; 77]);
    Ok(())
}

#[test]
fn data_comes_back_and_nothing_stays_allocated() {
    Fake::new().here(|control| {
        let run = || {
            let context = CudaContext::new(0)?;
            assert_eq!(context.name()?, "Fake H200");
            assert_eq!(context.compute_capability()?, (9, 0));
            let stream = context.new_stream()?;
            assert_round_trip(&stream)?;
            assert_round_trip(&context.default_stream())?;
            let held = stream.alloc_zeros::<f64>(100)?;
            assert_eq!(control.live("stream-ordered"), (1, 800));
            drop(held);
            let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
            let (start, end) = (stream.record_event(timed)?, stream.record_event(timed)?);
            assert!(start.elapsed_ms(&end)? >= 0.0);
            drop((start, end));
            // SAFETY: nothing reads the uninitialised bytes.
            let pinned = unsafe { context.alloc_pinned::<u8>(4096) }?;
            assert_eq!(control.live("pinned"), (1, 4096));
            drop(pinned);
            context.synchronize()?;
            assert_eq!(control.live("stream"), (1, 0));
            assert_eq!(control.contexts_made(), 1);
            Ok::<_, DriverError>(())
        };
        run().expect("every call succeeds");
        assert_nothing_lives(control);
    });
}

#[test]
fn without_memory_pools_allocations_are_linear() {
    Fake::new().fault("no_pools").here(|control| {
        let context = CudaContext::new(0).expect("a context");
        assert!(!context.has_async_alloc());
        let stream = context.default_stream();
        let held = stream.alloc_zeros::<u32>(3).expect("memory");
        assert_eq!(control.live("linear"), (1, 12));
        assert_round_trip(&stream).expect("every call succeeds");
        drop((held, stream, context));
        assert_nothing_lives(control);
    });
}

#[test]
fn a_module_loads_and_its_kernel_does_nothing() {
    Fake::new().here(|control| {
        let context = CudaContext::new(0).expect("a context");
        let stream = context.default_stream();
        let module = context
            .load_module(Ptx::from_src("any text"))
            .expect("a module");
        let function = module.load_function("any_name").expect("a function");
        let data = stream.clone_htod(&[1_u8, 2, 3]).expect("memory");
        // SAFETY: the kernel does nothing.
        unsafe {
            stream
                .launch_builder(&function)
                .arg(&data)
                .launch(LaunchConfig::for_num_elems(3))
        }
        .expect("a launch");
        assert_eq!(stream.clone_dtoh(&data).expect("a copy"), [1, 2, 3]);
        assert_eq!(control.live("module"), (1, 0));
        drop((function, module));
        assert_eq!(control.live("module"), (0, 0));
    });
}

#[test]
fn each_device_has_memory_of_its_own() {
    Fake::new().devices(2).here(|control| {
        assert_eq!(CudaContext::device_count(), Ok(2));
        let contexts = [0, 1].map(|ordinal| CudaContext::new(ordinal).expect("a context"));
        assert_ne!(
            contexts[0].uuid().expect("an id").bytes,
            contexts[1].uuid().expect("an id").bytes
        );
        let free = |context: &Arc<CudaContext>| context.mem_get_info().expect("figures").0;
        let before = contexts.each_ref().map(free);
        let held = contexts[1]
            .default_stream()
            .alloc_zeros::<u8>(1)
            .expect("memory");
        assert_eq!(free(&contexts[0]), before[0]);
        // A pool allocates a block of 32 MiB, even for one byte.
        assert_eq!(before[1] - free(&contexts[1]), 32 << 20);
        drop((held, contexts));
        assert_nothing_lives(control);
    });
}

#[test]
fn a_captured_graph_owns_its_memory() {
    Fake::new().here(|control| {
        let run = || {
            let context = CudaContext::new(0)?;
            let stream = context.new_stream()?;
            // cudarc records its events outside the capture, and the capture must not wait for
            // them. SAFETY: there is only one stream, so nothing needs to be ordered.
            unsafe { context.disable_event_tracking() };
            let source = stream.clone_htod(&[7_u8; 64])?;
            let mut target = stream.alloc_zeros::<u8>(64)?;
            stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
            let inside = stream.alloc_zeros::<u8>(100)?;
            drop(inside);
            stream.memcpy_dtod(&source, &mut target)?;
            let flags =
                sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
            let graph = stream.end_capture(flags)?.expect("a graph with nodes");
            assert_eq!(control.live("graph-memory"), (0, 0));
            assert_eq!(stream.clone_dtoh(&target)?, [0; 64]);
            graph.launch()?;
            assert_eq!(stream.clone_dtoh(&target)?, [7; 64]);
            assert_eq!((control.live("graph").0, control.live("exec").0), (1, 1));
            Ok::<_, DriverError>(())
        };
        run().expect("every call succeeds");
        assert_nothing_lives(control);
    });
}

#[test]
fn a_machine_without_a_device_says_so() {
    Fake::new().devices(0).here(|_| {
        let error = CudaContext::new(0).expect_err("no device");
        assert_eq!(error.0, sys::CUresult::CUDA_ERROR_NO_DEVICE);
    });
}
