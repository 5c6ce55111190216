//! Faults happen when a test has requested them, and look like real ones.

use cudarc::driver::{CudaContext, sys::CUresult};
use gpu_leak_tests::fake::Fake;

#[test]
fn the_third_call_fails_and_has_no_effect() {
    Fake::new()
        .fault("no_pools")
        .fault("fail:cuMemFree_v2=1@3")
        .here(|control| {
            let context = CudaContext::new(0).expect("a context");
            let stream = context.default_stream();
            for round in 1..=4 {
                drop(stream.alloc_zeros::<u8>(8).expect("memory"));
                // cudarc returns the error of a drop at the next call.
                let reported = context.check_err().map_err(|error| error.0);
                let expected = if round == 3 {
                    Err(CUresult::CUDA_ERROR_INVALID_VALUE)
                } else {
                    Ok(())
                };
                assert_eq!(reported, expected, "round {round}");
                assert_eq!(
                    control.live("linear").0,
                    u64::from(round >= 3),
                    "round {round}"
                );
            }
        });
}

#[test]
fn memory_runs_out_where_asked() {
    Fake::new().fault("oom_after:4096").here(|control| {
        let context = CudaContext::new(0).expect("a context");
        let stream = context.default_stream();
        let held = stream.alloc_zeros::<u8>(4000).expect("memory");
        let error = stream.alloc_zeros::<u8>(97).expect_err("too much");
        assert_eq!(error.0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        drop(held);
        drop(stream.alloc_zeros::<u8>(97).expect("room again"));
        assert_eq!(control.live("stream-ordered"), (0, 0));
    });
}

#[test]
fn a_broken_context_stays_broken() {
    Fake::new().here(|control| {
        let context = CudaContext::new(0).expect("a context");
        let stream = context.default_stream();
        let held = stream.alloc_zeros::<u8>(8).expect("memory");
        control.poison(context.cu_ctx() as u64);
        for _ in 0..2 {
            let error = stream.synchronize().expect_err("a sticky error");
            assert_eq!(error.0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        }
        drop(held);
        assert_eq!(control.live("stream-ordered"), (1, 8));
    });
}

#[test]
fn a_misspelt_fault_ends_the_process_with_the_reason() {
    let fake = Fake::new().fault("fail:cuMemFre=1");
    let child = fake
        .run("stand_ins::program::data_comes_back_and_nothing_stays_allocated")
        .run();
    assert!(!child.status.success());
    assert!(
        child
            .stderr
            .contains("fake driver: FAKE_CUDA: `cuMemFre` is not a function of this driver"),
        "{}",
        child.stderr
    );
}

#[test]
fn faults_can_be_set_and_cleared_later() {
    Fake::new().here(|control| {
        let context = CudaContext::new(0).expect("a context");
        control.set_fault("fail:cuCtxSynchronize=999");
        assert_eq!(
            context.synchronize().expect_err("the fault").0,
            CUresult::CUDA_ERROR_UNKNOWN
        );
        control.clear_faults();
        context.synchronize().expect("no fault any more");
    });
}
