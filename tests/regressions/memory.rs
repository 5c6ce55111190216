//! Memory that was never freed.

use cudarc::driver::sys;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::FindingKind;

use super::{assert_only_leak, of_kind, run};
use crate::kinds::planted::{Pointer, context, graphs, virtual_memory};

fn allocate(bytes: usize) -> Pointer {
    let mut pointer = 0;
    // SAFETY: a context is current, and the call writes the address to a local variable.
    let done = unsafe { sys::cuMemAlloc_v2(&mut pointer, bytes) };
    done.result().expect("memory");
    pointer
}

/// `?` left the function between an allocation and the creation of the struct that would have owned
/// it. <https://github.com/NVlabs/cuda-oxide/pull/92>
#[test]
fn cuda_oxide_92_an_error_between_the_allocation_and_its_owner() {
    assert_only_leak(
        &run(module_path!(), "fails_to_upload"),
        Kind::Linear,
        1,
        256,
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn fails_to_upload() {
    struct Owned(#[expect(dead_code, reason = "it is never created")] Pointer);
    fn upload() -> Result<Owned, cudarc::driver::DriverError> {
        let pointer = allocate(256);
        // SAFETY: the driver refuses an address that belongs to no allocation.
        unsafe { sys::cuMemsetD8_v2(1, 0, 256) }.result()?;
        Ok(Owned(pointer))
    }
    context();
    assert!(upload().is_err(), "the copy fails");
}

/// After the memory was mapped, the reference that `cuMemCreate` had returned was never released.
/// The memory was closed, but still held. <https://github.com/NVIDIA/cuda-python/issues/2882>
#[test]
fn cuda_python_2882_the_first_reference_is_never_released() {
    let checked = run(module_path!(), "maps_and_unmaps");
    assert_only_leak(&checked, Kind::Physical, 4, 4 * virtual_memory::SIZE);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn maps_and_unmaps() {
    context();
    for _ in 0..4 {
        virtual_memory::mapped_with_its_handle_kept();
    }
}

/// Auto-free on launch frees what the previous launch has allocated. Nothing freed what the last
/// launch had allocated. <https://github.com/NVIDIA/warp/issues/1429>
#[test]
fn warp_1429_the_last_launch_of_an_auto_freed_graph() {
    let checked = run(module_path!(), "launches_with_auto_free");
    assert_only_leak(&checked, Kind::Graph, 1, graphs::NODE);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn launches_with_auto_free() {
    context();
    graphs::auto_freed_memory();
}

/// Each test of a library leaked a few bytes, far less than a device's free memory can show.
/// <https://github.com/NVIDIA/cccl/issues/1895>
#[test]
fn cccl_1895_a_leak_of_767_bytes() {
    assert_only_leak(&run(module_path!(), "leaks_a_little"), Kind::Linear, 1, 767);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_a_little() {
    context();
    allocate(767);
}

/// The largest leak in the same series of reports: one page.
/// <https://github.com/NVIDIA/cccl/issues/1897>
#[test]
fn cccl_1897_a_leak_of_2_mib() {
    assert_only_leak(
        &run(module_path!(), "leaks_a_page"),
        Kind::Linear,
        1,
        2 << 20,
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_a_page() {
    context();
    allocate(2 << 20);
}

/// A pool of virtual memory was never unmapped, and its physical memory was never released.
/// <https://github.com/ggml-org/llama.cpp/issues/5576>
#[test]
fn llama_cpp_5576_a_pool_of_virtual_memory_that_stays_mapped() {
    let checked = run(module_path!(), "grows_its_pool");
    let leaked = of_kind(&checked, Kind::Physical);
    assert_eq!(leaked.kind, FindingKind::Leaked, "{}", checked.output());
    assert_eq!(
        (leaked.count, leaked.bytes),
        (1, virtual_memory::SIZE),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn grows_its_pool() {
    context();
    virtual_memory::reserve_rooms();
    virtual_memory::mapped();
}

/// Each call allocated the state of a dropout layer, and nothing freed it.
/// <https://github.com/ROCm/jax/issues/726>
#[test]
fn jax_726_the_state_of_each_dropout() {
    assert_only_leak(&run(module_path!(), "drops_out"), Kind::Linear, 3, 3 * 4096);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn drops_out() {
    fn dropout() -> Pointer {
        allocate(4096)
    }
    context();
    for _ in 0..3 {
        dropout();
    }
}
