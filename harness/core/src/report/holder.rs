//! The places and heap blocks from which the resources of a finding are, or were, reachable.

use serde::{Deserialize, Serialize};

/// A place in the program from which the resources of a finding are reachable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Holder {
    /// The place where the chain of pointers begins.
    pub root: HolderRoot,
    /// The number of heap blocks in the chain; 0 if the address is stored in the place itself.
    pub blocks: u32,
    /// Where these blocks were allocated, as far as that is known. The block nearest to the place
    /// comes first, and each location is listed once: `Cache::new (src/cache.rs:20)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocated_in: Vec<String>,
}

/// A static, a thread-local or a stack, where a chain of pointers begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct HolderRoot {
    /// The kind of place.
    pub kind: HolderKind,
    /// The variable, such as `optim::STATE`. For a stack, the function to which the frame belongs.
    pub name: Option<String>,
    /// The thread that owns the place, such as `worker-3`. None for a static. The system keeps the
    /// first 15 bytes of a name: `data-loader-wor…`.
    pub thread: Option<String>,
    /// Functions that use the static: `Cache::get (src/cache.rs:20)`. Empty if they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_in: Vec<String>,
    /// Where the thread was started, if the test started it: `Loader::open (src/loader.rs:20)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_in: Option<String>,
    /// Where the thread was detached, so that nothing can join it. In Rust, this is where its
    /// `JoinHandle` was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached_in: Option<String>,
    /// Where the thread waits, unless it waits for the check: `Loader::fill (src/loader.rs:35)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_in: Option<String>,
    /// The library that contains the place. None for the program itself.
    pub module: Option<String>,
}

/// The kind of place where a chain of pointers begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HolderKind {
    /// A static.
    Static,
    /// A thread-local.
    ThreadLocal,
    /// A stack.
    Stack,
}

/// Heap blocks from which the resources of a finding are reachable, although the blocks themselves
/// are not reachable from anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Enclosing {
    /// The number of blocks. One of them contains the address, and each of the others points to the
    /// one before it.
    pub blocks: u32,
    /// Whether the blocks point to each other in cycles, that is, the first block of each cycle
    /// points to its last.
    pub is_cycle: bool,
    /// Where the blocks were allocated, starting with the one that contains the address. Each
    /// location is listed once: `Node::new (src/node.rs:20)`.
    pub allocated_in: Vec<String>,
}

/// A heap block that contained the address of a resource and was freed although the resource was
/// not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Outlived {
    /// Where the block was freed: `Cache::evict (src/cache.rs:37) ← src/main.rs:12`.
    pub freed_at: String,
    /// Where the block was allocated: `Cache::new (src/cache.rs:20)`. None if this is unknown.
    pub allocated_in: Option<String>,
}
