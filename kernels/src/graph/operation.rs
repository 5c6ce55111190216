//! One operation of an embedded device's graph, with the operands that each replay uses.
#![expect(
    unsafe_code,
    reason = "a graph uses memory of its pool that no tensor holds any more"
)]

use std::sync::Arc;

use crate::allocator::PoolId;
use crate::compute::{Kernels, Layout, Operand, Storage};
use crate::embedded::Embedded;
use crate::error::Result;

/// Executes an operation on the operands that it reads and those that it writes.
pub(super) type Compute =
    dyn Fn(&dyn Kernels, &[Operand<'_>], &[Operand<'_>]) -> Result<()> + Send + Sync;

/// An operation of an embedded device's graph.
pub(super) struct Operation {
    compute: Box<Compute>,
    reads: Vec<KeptOperand>,
    writes: Vec<KeptOperand>,
}

/// An operand whose memory stays in place as long as the graph.
struct KeptOperand {
    storage: Arc<Storage>,
    layout: Layout,
}

impl KeptOperand {
    /// Tensors in the graph's own pool may be dropped, because the pool keeps their memory.
    fn of(operand: &Operand<'_>, pool: PoolId) -> Self {
        let storage = if operand.storage.pool() == Some(pool) {
            // SAFETY: the operation that will contain the alias is dropped before the graph's pool
            // closes. Only operations access the alias's bytes, and on an embedded device they run
            // one at a time.
            Arc::new(unsafe { operand.storage.alias() })
        } else {
            Arc::clone(operand.storage)
        };
        Self {
            storage,
            layout: operand.layout,
        }
    }

    fn operand(&self) -> Operand<'_> {
        Operand {
            storage: &self.storage,
            layout: self.layout,
        }
    }
}

impl Operation {
    /// Keeps an operation's operands for replays; `pool` is the graph's own pool.
    pub(super) fn new(
        compute: Box<Compute>,
        reads: &[Operand<'_>],
        writes: &[Operand<'_>],
        pool: PoolId,
    ) -> Self {
        let kept = |operands: &[Operand<'_>]| {
            let each = operands.iter();
            each.map(|operand| KeptOperand::of(operand, pool)).collect()
        };
        Self {
            compute,
            reads: kept(reads),
            writes: kept(writes),
        }
    }

    pub(super) fn run(&self, device: &Embedded) -> Result<()> {
        let reads: Vec<_> = self.reads.iter().map(KeptOperand::operand).collect();
        let writes: Vec<_> = self.writes.iter().map(KeptOperand::operand).collect();
        (self.compute)(device, &reads, &writes)
    }
}
