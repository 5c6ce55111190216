//! Small programs whose recordings on real GPUs are worth keeping: `scripts/record` runs each in a
//! separate process. All except those in [`GPU_ONLY`] also run on the stand-in for the driver.

#![expect(unsafe_code, reason = "calls the driver")]

use std::mem::MaybeUninit;
use std::sync::Arc;

use cudarc::cublas::{CudaBlas, Gemm, GemmConfig, sys as cublas};
use cudarc::driver::result::{self, DriverError, stream};
use cudarc::driver::{CudaContext, sys};
use gpu_leak_check::gpu_leak_check;
use gpu_leak_kernels::nn::Module;
use gpu_leak_kernels::{Device, Tensor, TinyModel};

/// Programs that the stand-in cannot run.
pub(super) const GPU_ONLY: [&str; 1] = ["multiplies_by_cublas"];

/// Every program, by its name.
pub(super) const ALL: [&str; 7] = [
    "keeps_an_allocation",
    "multiplies_by_cublas",
    "launches_a_captured_graph",
    "maps_physical_memory",
    "resets_the_primary_context",
    "trains_a_model",
    "keeps_a_tensor",
];

fn context() -> Arc<CudaContext> {
    // Keeps the context, because releasing its last reference would free what was leaked in it.
    let context = CudaContext::new(0).expect("device 0 has a context");
    std::mem::forget(Arc::clone(&context));
    context
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_an_allocation() -> Result<(), DriverError> {
    let context = context();
    context.bind_to_thread()?;
    let mut back = [0_u8; 64];
    // SAFETY: the sizes match, the null stream always exists, and what is freed is not used again.
    unsafe {
        let one = result::malloc_sync(4096)?;
        let other = result::malloc_async(stream::null(), 1000)?;
        result::memset_d8_sync(one, 7, 4096)?;
        result::memcpy_htod_sync(other, &[1_u8; 64])?;
        result::memcpy_dtoh_sync(&mut back, one)?;
        result::free_async(other, stream::null())?;
        result::malloc_sync(2048)?; // leak: kept
        result::free_sync(one)?;
    }
    assert_eq!(back, [7; 64]);
    Ok(())
}

#[gpu_leak_check]
#[ignore = "needs cuBLAS"]
#[test]
fn multiplies_by_cublas() {
    let stream = context().default_stream();
    let blas = CudaBlas::new(Arc::clone(&stream)).expect("a handle");
    let a = stream.clone_htod(&[2.0_f32; 64]).expect("memory");
    let mut product = stream.alloc_zeros::<f32>(64).expect("memory");
    let none = cublas::cublasOperation_t::CUBLAS_OP_N;
    let config = GemmConfig {
        transa: none,
        transb: none,
        m: 8,
        n: 8,
        k: 8,
        alpha: 1.0,
        lda: 8,
        ldb: 8,
        beta: 0.0,
        ldc: 8,
    };
    // SAFETY: each of the three matrices is 8 by 8.
    unsafe { blas.gemm(config, &a, &a, &mut product) }.expect("a product");
    assert_eq!(stream.clone_dtoh(&product).expect("a copy"), [32.0; 64]);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn launches_a_captured_graph() {
    let context = context();
    let stream = context.new_stream().expect("a stream");
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    stream.begin_capture(mode).expect("a capture");
    // SAFETY: the stream is live; the address is used and freed in the capture that allocated it.
    unsafe {
        let inside = result::malloc_async(stream.cu_stream(), 100).expect("a node");
        result::memset_d8_async(inside, 7, 100, stream.cu_stream()).expect("a node");
        result::free_async(inside, stream.cu_stream()).expect("a node");
    }
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).expect("an end").expect("nodes");
    for _ in 0..3 {
        graph.launch().expect("a launch");
    }
    stream.synchronize().expect("an end");
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn maps_physical_memory() -> Result<(), DriverError> {
    let context = context();
    context.bind_to_thread()?;
    // SAFETY: zero is a valid value of every field.
    let mut properties: sys::CUmemAllocationProp = unsafe { MaybeUninit::zeroed().assume_init() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    let (mut size, mut address, mut handle) = (0, 0, 0);
    // SAFETY: the out pointers are to local variables. The range stays reserved while it is mapped,
    // and the handle lives longer than both.
    unsafe {
        sys::cuMemGetAllocationGranularity(&raw mut size, &raw const properties, least).result()?;
        sys::cuMemAddressReserve(&raw mut address, size, 0, 0, 0).result()?;
        sys::cuMemCreate(&raw mut handle, size, &raw const properties, 0).result()?;
        sys::cuMemMap(address, size, 0, handle, 0).result()?;
        sys::cuMemUnmap(address, size).result()?;
        sys::cuMemRelease(handle).result()?;
        sys::cuMemAddressFree(address, size).result()
    }
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn resets_the_primary_context() -> Result<(), DriverError> {
    let context = context();
    context.bind_to_thread()?;
    // SAFETY: nothing uses the memory or anything else on the device any longer.
    unsafe {
        result::malloc_sync(512)?; // leak: reset
        sys::cuDevicePrimaryCtxReset_v2(0).result()
    }
}

/// Returns the GPU or, if `RECORD_ON` requests it, the embedded device, which also runs kernels.
fn device() -> gpu_leak_kernels::Result<Device> {
    if std::env::var_os("RECORD_ON").is_some_and(|device| device == "embedded") {
        Device::embedded()
    } else {
        Device::cuda(0)
    }
}

fn train(device: &Device) -> gpu_leak_kernels::Result<Tensor> {
    let model = TinyModel::new(device)?;
    let batch = Tensor::rand([8, 100], device)?;
    let loss = model.forward(&batch)?.sum()?;
    loss.backward()?;
    Ok(loss)
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn trains_a_model() -> gpu_leak_kernels::Result<()> {
    drop(train(&device()?)?);
    Ok(())
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_a_tensor() -> gpu_leak_kernels::Result<()> {
    let device = device()?;
    std::mem::forget(Tensor::zeros([1000], &device)?); // leak: tensor
    Ok(())
}
