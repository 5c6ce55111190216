//! The names that the program has given to its objects. Reports show them.

use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::ledger::Kind;
use crate::ledger::event::{Key, Space};
use crate::sync::{Mutex, locked};

/// Names by kind, device and handle. Objects with the same handle share a name, as in the driver.
static LABELS: Mutex<FxHashMap<Key, String>> = Mutex::new(FxHashMap::with_hasher(FxBuildHasher));

/// Whether any object has been named. Most programs name no objects, and for them, names cost
/// nothing.
static HAS_ANY: AtomicBool = AtomicBool::new(false);

/// The maximum number of characters of a name that are kept.
const LONGEST: usize = 80;

/// Returns the kind of an object with this `VkObjectType` or `VkDebugReportObjectTypeEXT`, which
/// have the same values for most types.
pub(super) fn kind_of(object_type: u32) -> Option<Kind> {
    Some(match object_type {
        3 => Kind::Device,
        5 => Kind::Semaphore,
        6 => Kind::CommandBuffer,
        7 => Kind::Fence,
        8 => Kind::Memory,
        9 => Kind::Buffer,
        10 => Kind::Image,
        11 => Kind::Event,
        12 => Kind::QueryPool,
        13 => Kind::BufferView,
        14 => Kind::ImageView,
        15 => Kind::ShaderModule,
        16 => Kind::PipelineCache,
        17 => Kind::PipelineLayout,
        18 => Kind::RenderPass,
        19 => Kind::Pipeline,
        20 => Kind::DescriptorLayout,
        21 => Kind::Sampler,
        22 => Kind::DescriptorPool,
        23 => Kind::DescriptorSet,
        24 => Kind::Framebuffer,
        25 => Kind::CommandPool,
        27 | 1_000_001_000 => Kind::Swapchain,
        1_000_150_000 => Kind::AccelerationStructure,
        _ => return None,
    })
}

pub(super) fn set(key: Key, name: &str) {
    HAS_ANY.store(true, Ordering::Relaxed);
    let name = name.chars().take(LONGEST).collect();
    locked(&LABELS).insert(any_copy(key), name);
}

/// Whether any object ever had a name.
pub(super) fn has_any() -> bool {
    HAS_ANY.load(Ordering::Relaxed)
}

/// Removes the name of an object that is about to be destroyed.
pub(super) fn forget(key: Key) {
    if has_any() {
        locked(&LABELS).remove(&any_copy(key));
    }
}

pub(crate) fn label_of(key: Key) -> Option<String> {
    match has_any() {
        true => locked(&LABELS).get(&any_copy(key)).cloned(),
        false => None,
    }
}

fn any_copy(mut key: Key) -> Key {
    if let Space::Object { copy, .. } = &mut key.space {
        *copy = 0;
    }
    key
}
