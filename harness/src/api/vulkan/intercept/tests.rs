use std::ptr;

use super::{BegunCall, VkResult, began, ended};
use crate::api::pointer::Pointer;
use crate::api::vulkan::call::{
    Bindings, Created, VulkanCall, creates, creates_by, destroys, frees,
};
use crate::api::vulkan::structures::{
    AllocateMemory, Chained, CommandBuffers, DescriptorSets, Extension, IMPORTS,
};
use crate::ledger::{Kind, Ledger, Place, Record};
use crate::sync::{Mutex, locked};

/// A device that was created before the harness began to listen.
const DEVICE: u64 = 0x1000;

fn out(handles: &[u64]) -> Pointer<u64> {
    Pointer(handles.as_ptr())
}

/// Reports a call that returns `result`.
fn call(ledger: &Ledger, call: VulkanCall, result: VkResult) {
    let mut begun = BegunCall::default();
    // SAFETY: the pointers in `call` point to live arrays and structures.
    unsafe {
        began(ledger, &call, &mut begun);
        ended(ledger, &call, &mut begun, result, ptr::null());
    }
}

fn live(ledger: &Ledger) -> Vec<(Kind, u64)> {
    let mut live: Vec<_> = ledger
        .select(|_| true)
        .iter()
        .map(|record| (record.made.kind, record.made.key.value()))
        .collect();
    live.sort_unstable();
    live
}

#[test]
fn objects_that_share_a_handle_count_separately() {
    let ledger = Ledger::new();
    for _ in 0..3 {
        call(&ledger, creates(Kind::Sampler, DEVICE, out(&[7])), 0);
    }
    assert_eq!(live(&ledger), [(Kind::Sampler, 7); 3]);
    // An object of another kind or of another device may have the same handle.
    call(&ledger, creates(Kind::Fence, DEVICE, out(&[7])), 0);
    call(&ledger, creates(Kind::Sampler, 0x2000, out(&[7])), 0);
    for left in [3, 2, 1, 1] {
        call(&ledger, destroys(Kind::Sampler, DEVICE, 7), 0);
        let samplers = live(&ledger).into_iter();
        let samplers = samplers.filter(|(kind, _)| *kind == Kind::Sampler);
        assert_eq!(samplers.count(), left);
    }
    assert_eq!(ledger.select(|it| it.made.kind == Kind::Fence).len(), 1);
}

#[test]
fn a_call_that_fails_creates_nothing_but_pipelines() {
    const UNKNOWN: VkResult = -13;
    const COMPILE_REQUIRED: VkResult = 1_000_297_000;
    const DEFERRED: VkResult = 1_000_268_002;
    let ledger = Ledger::new();
    call(&ledger, creates(Kind::Fence, DEVICE, out(&[7])), UNKNOWN);
    let all = creates_by(Created::All(2), Kind::Swapchain, DEVICE, out(&[7, 8]));
    call(&ledger, all, UNKNOWN);
    assert_eq!(live(&ledger), []);
    let made = [7, 0, 9];
    let pipelines = creates_by(Created::Each(3), Kind::Pipeline, DEVICE, out(&made));
    call(&ledger, pipelines, DEFERRED);
    assert_eq!(live(&ledger), []);
    call(&ledger, pipelines, UNKNOWN);
    assert_eq!(live(&ledger), [(Kind::Pipeline, 7), (Kind::Pipeline, 9)]);
    // A layer that refuses the call writes nothing to the array.
    let refused = creates_by(Created::Each(3), Kind::Pipeline, DEVICE, out(&[5, 5, 5]));
    call(&ledger, refused, -1_000_011_001);
    assert_eq!(live(&ledger).len(), 2);
    let other = creates_by(Created::Each(2), Kind::Pipeline, DEVICE, out(&[0, 11]));
    call(&ledger, other, COMPILE_REQUIRED);
    assert_eq!(live(&ledger).len(), 3);
}

#[test]
fn destroying_null_changes_nothing() {
    let ledger = Ledger::new();
    call(&ledger, destroys(Kind::Fence, DEVICE, 0), 0);
    let none = Pointer(ptr::null());
    call(&ledger, frees(Kind::DescriptorSet, DEVICE, 5, 0, none), 0);
    call(&ledger, creates(Kind::Fence, DEVICE, none), 0);
    call(&ledger, VulkanCall::DestroysDevice(0), 0);
    call(&ledger, VulkanCall::DestroysInstance(0), 0);
    assert_eq!(live(&ledger), []);
}

/// The handle of a command pool and of a descriptor pool. Handles are unique only among the objects
/// of one type.
const POOL: u64 = 5;

/// Only one test may use the pool at a time, because the contents of pools are known for the whole
/// process.
static POOL_IN_USE: Mutex<()> = Mutex::new(());

/// Allocates objects of this kind from their pool.
fn allocate(ledger: &Ledger, kind: Kind, handles: &[u64]) {
    let header = Chained {
        structure: 0,
        next: Pointer(ptr::null()),
    };
    let (pool, count) = (POOL, handles.len() as u32);
    let sets = DescriptorSets {
        header,
        pool,
        count,
    };
    let buffers = CommandBuffers {
        header,
        pool,
        level: 0,
        count,
    };
    let how = match kind {
        Kind::DescriptorSet => Created::DescriptorSets(Pointer(&raw const sets)),
        _ => Created::CommandBuffers(Pointer(&raw const buffers)),
    };
    call(ledger, creates_by(how, kind, DEVICE, out(handles)), 0);
}

/// Destroys the pool of this kind, or resets the descriptor pool.
fn empties(destroys: Option<Kind>) -> VulkanCall {
    VulkanCall::EmptiesPool {
        device: DEVICE,
        pool: POOL,
        destroys,
    }
}

#[test]
fn a_pool_takes_its_objects_with_it() {
    let _pool = locked(&POOL_IN_USE);
    let ledger = Ledger::new();
    call(&ledger, creates(Kind::CommandPool, DEVICE, out(&[POOL])), 0);
    allocate(&ledger, Kind::CommandBuffer, &[21, 22, 23]);
    assert_eq!(live(&ledger).len(), 4);
    let freed = frees(Kind::CommandBuffer, DEVICE, POOL, 2, out(&[0, 22]));
    call(&ledger, freed, 0);
    assert_eq!(live(&ledger).len(), 3);
    call(&ledger, empties(Some(Kind::CommandPool)), 0);
    assert_eq!(live(&ledger), []);
}

#[test]
fn pools_of_different_types_may_have_the_same_handle() {
    let _pool = locked(&POOL_IN_USE);
    let ledger = Ledger::new();
    for kind in [Kind::CommandBuffer, Kind::DescriptorSet] {
        allocate(&ledger, kind, &[21, 22]);
    }
    call(&ledger, empties(None), 0);
    assert_eq!(live(&ledger), [21, 22].map(|it| (Kind::CommandBuffer, it)));
    call(&ledger, empties(Some(Kind::CommandPool)), 0);
    assert_eq!(live(&ledger), []);
}

#[test]
fn objects_of_a_pool_end_with_it_after_a_call_that_failed_to_free_them() {
    let _pool = locked(&POOL_IN_USE);
    const REFUSED: VkResult = -1_000_011_001;
    let ledger = Ledger::new();
    allocate(&ledger, Kind::DescriptorSet, &[21, 22]);
    let freed = frees(Kind::DescriptorSet, DEVICE, POOL, 1, out(&[22]));
    for refused in [freed, empties(None)] {
        call(&ledger, refused, REFUSED);
        assert_eq!(live(&ledger).len(), 2);
    }
    call(&ledger, empties(Some(Kind::DescriptorPool)), 0);
    assert_eq!(live(&ledger), []);
}

/// Returns the record of an allocation with a structure that imports through a handle of this type.
fn imported(handle_type: u32) -> Record {
    let ledger = Ledger::new();
    let import = Extension {
        header: Chained {
            structure: IMPORTS[0],
            next: Pointer(ptr::null()),
        },
        selects: handle_type,
    };
    let between = Chained {
        structure: 1_000_127_001,
        next: Pointer(&raw const import).cast(),
    };
    let asked = AllocateMemory {
        header: Chained {
            structure: 5,
            next: Pointer(&raw const between),
        },
        bytes: 640,
        memory_type: 0,
    };
    let how = Created::Memory(Pointer(&raw const asked));
    let memory = creates_by(how, Kind::Memory, DEVICE, out(&[7]));
    call(&ledger, memory, 0);
    let record = ledger.select(|_| true)[0];
    call(&ledger, destroys(Kind::Memory, DEVICE, 7), 0);
    assert_eq!(live(&ledger), []);
    record
}

#[test]
fn memory_that_another_has_allocated_is_imported() {
    let made = imported(1).made;
    assert_eq!((made.kind, made.bytes), (Kind::Imported, 640));
    assert_eq!(made.place, Place::named("vulkan"));
}

/// Vulkan ignores such a structure.
#[test]
fn memory_is_not_imported_through_a_handle_without_a_type() {
    assert_eq!(imported(0).made.kind, Kind::Memory);
}

#[test]
fn an_object_knows_the_memory_that_is_bound_to_it() {
    let ledger = Ledger::new();
    call(&ledger, creates(Kind::Buffer, DEVICE, out(&[7])), 0);
    let bind = |memory| VulkanCall::Binds(DEVICE, Kind::Buffer, Bindings::One(7, memory));
    call(&ledger, creates(Kind::Memory, DEVICE, out(&[30])), 0);
    let only = |kind| ledger.select(|record| record.made.kind == kind)[0];
    let bound = || only(Kind::Buffer).made.pool;
    call(&ledger, bind(0), 0);
    call(&ledger, bind(30), -1);
    assert_eq!(bound(), 0);
    call(&ledger, bind(30), 0);
    assert_eq!(bound(), only(Kind::Memory).sequence);
}

#[test]
fn an_instance_with_the_handle_of_an_ending_one_keeps_its_devices() {
    let [instance, physical, device] = [0x5000, 0x5100, 0x5200];
    let ledger = Ledger::new();
    let create = || {
        let created = [instance];
        call(&ledger, VulkanCall::CreatesInstance(out(&created)), 0);
    };
    create();
    let end = VulkanCall::DestroysInstance(instance);
    let mut begun = BegunCall::default();
    // SAFETY: the call has no pointers to read.
    unsafe { began(&ledger, &end, &mut begun) };
    // Another thread gets the same handle before the call returns.
    create();
    let (count, listed) = (1, [physical]);
    let list = VulkanCall::ListsDevices(instance, Pointer(&raw const count), out(&listed));
    call(&ledger, list, 0);
    call(
        &ledger,
        VulkanCall::CreatesDevice(physical, out(&[device])),
        0,
    );
    call(&ledger, creates(Kind::Buffer, device, out(&[7])), 0);
    // SAFETY: the call has no pointers to read.
    unsafe { ended(&ledger, &end, &mut begun, 0, ptr::null()) };
    assert!(live(&ledger).contains(&(Kind::Buffer, 7)));
    call(&ledger, end, 0);
    assert_eq!(live(&ledger), []);
}
