//! cudarc, unchanged, on the stand-in for libcuda.

#![expect(
    unsafe_code,
    reason = "cudarc's uninitialised buffers and raw calls are unsafe"
)]

use cudarc::driver::{CudaContext, CudaStream, DriverError, sys};
use gpu_leak_tests::fake::{Control, Fake};

fn passes(fake: &Fake, test: &str) {
    let child = fake.run(&format!("fake_driver::cudarc::{test}")).run();
    assert!(child.status.success(), "{}\n{}", child.stdout, child.stderr);
}

fn control() -> Control {
    Control::of_this_process().expect("a child on the stand-in")
}

fn round_trip(stream: &std::sync::Arc<CudaStream>) -> Result<(), DriverError> {
    let source: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let there = stream.clone_htod(&source)?;
    let copy = there.try_clone()?;
    assert_eq!(stream.clone_dtoh(&copy)?, source);
    let zeros = stream.alloc_zeros::<u8>(77)?;
    assert_eq!(stream.clone_dtoh(&zeros)?, [0; 77]);
    Ok(())
}

#[test]
fn data_come_back_and_nothing_stays() {
    passes(&Fake::new(), "data_come_back_and_nothing_stays_here");
}

#[test]
#[ignore = "run on the stand-in by the test of the same name"]
fn data_come_back_and_nothing_stays_here() -> Result<(), DriverError> {
    let control = control();
    let context = CudaContext::new(0)?;
    assert_eq!(context.name()?, "Fake H200");
    assert_eq!(context.compute_capability()?, (9, 0));
    assert!(context.has_async_alloc());
    let stream = context.new_stream()?;
    round_trip(&stream)?;
    round_trip(&context.default_stream())?;
    let held = stream.alloc_zeros::<f64>(100)?;
    assert_eq!(control.live("stream-ordered"), (1, 800));
    drop(held);
    let event = stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))?;
    let later = stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))?;
    assert!(event.elapsed_ms(&later)? >= 0.0);
    drop((event, later));
    // SAFETY: nobody reads the uninitialised bytes.
    let pinned = unsafe { context.alloc_pinned::<u8>(4096) }?;
    assert_eq!(control.live("pinned"), (1, 4096));
    drop(pinned);
    context.synchronize()?;
    assert_eq!(control.live("stream"), (1, 0));
    drop(stream);
    assert_eq!(control.contexts_made(), 1);
    drop(context);
    for kind in [
        "context",
        "stream",
        "event",
        "stream-ordered",
        "linear",
        "pinned",
    ] {
        assert_eq!(control.live(kind), (0, 0), "{kind}");
    }
    Ok(())
}
