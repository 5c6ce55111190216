//! Operations on their way into a graph.
#![expect(
    unsafe_code,
    reason = "a graph uses memory of its pool that no tensor holds any more"
)]

use std::sync::Arc;

use crate::device::Backend;
use crate::embedded::Embedded;
use crate::error::Result;
use crate::memory::PoolId;
use crate::tensor::{
    AdamParameter, AdamStep, Around, Binary, DType, Distribution, Epilogue, Kernels, Layout,
    Operand, SgdParameter, SgdStep, SoftmaxKind, Storage, Unary,
};

use super::capture::{Recording, note, refuse, with_recording};

/// The device of a thread in a capture: what it is asked to compute becomes part of the graph.
#[derive(Debug)]
pub(crate) struct Recorder;

/// What one operation does, given the operands that it reads and those that it writes.
type Run = dyn Fn(&dyn Kernels, &[Operand<'_>], &[Operand<'_>]) -> Result<()> + Send + Sync;

/// An operation of an embedded device's graph.
pub(super) struct Operation {
    run: Box<Run>,
    reads: Vec<Kept>,
    writes: Vec<Kept>,
}

/// An operand whose memory stays in place as long as the graph.
struct Kept {
    storage: Arc<Storage>,
    layout: Layout,
}

impl Kept {
    /// Memory of the graph's own pool is kept by the pool, so that a tensor of it can be dropped.
    fn of(operand: &Operand<'_>, pool: PoolId) -> Self {
        let storage = if operand.storage.pool() == Some(pool) {
            // SAFETY: the operation that it becomes part of is dropped before the graph's pool
            // closes, and operations are all that reach its bytes: on an embedded device they take
            // turns.
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
    pub(super) fn run(&self, device: &Embedded) -> Result<()> {
        let reads: Vec<_> = self.reads.iter().map(Kept::operand).collect();
        let writes: Vec<_> = self.writes.iter().map(Kept::operand).collect();
        (self.run)(device, &reads, &writes)
    }
}

/// Puts an operation into the graph: a CUDA device by doing it in the capturing stream.
fn record(
    reads: &[Operand<'_>],
    writes: &[Operand<'_>],
    run: impl Fn(&dyn Kernels, &[Operand<'_>], &[Operand<'_>]) -> Result<()> + Send + Sync + 'static,
) -> Result<()> {
    let run = Box::new(run);
    let outcome = with_recording(reads, writes, |pool, recording| match recording {
        Recording::Cuda(stream) => Some((stream.clone(), run)),
        Recording::Embedded(operations) => {
            operations.push(Operation {
                run,
                reads: reads.iter().map(|it| Kept::of(it, pool)).collect(),
                writes: writes.iter().map(|it| Kept::of(it, pool)).collect(),
            });
            None
        }
    });
    // With the record free again: an operation may need memory for itself.
    note(
        outcome.and_then(|(device, asked)| match (asked, device.backend()) {
            (Some((stream, run)), Backend::Cuda(cuda)) => {
                stream.redirect(|| run(cuda, reads, writes))
            }
            _ => Ok(()),
        }),
    )
}

/// A whole storage.
fn whole(storage: &Arc<Storage>) -> Operand<'_> {
    Operand {
        storage,
        layout: Layout::scalar(),
    }
}

impl Kernels for Recorder {
    fn upload(&self, _bytes: &[u8], _to: &Storage) -> Result<()> {
        refuse(
            "a copy from the host",
            "at a replay its bytes would be gone; make the tensor before, and copy into it between \
             replays",
        )
    }

    fn download(&self, _from: &Storage, _offset: usize, _into: &mut [u8]) -> Result<()> {
        refuse(
            "a copy to the host",
            "nothing has been computed yet; return the tensor, and read it after a replay",
        )
    }

    fn random(&self, _: Distribution, _seed: u64, _out: Operand<'_>) -> Result<()> {
        refuse(
            "a draw of random numbers",
            "each replay would draw the same; draw before the capture, or into an input",
        )
    }

    fn adam(&self, _step: AdamStep, _parameters: &[AdamParameter<'_>]) -> Result<()> {
        refuse(
            "a step of Adam",
            "its bias correction is computed on the host, anew at each step; capture the forward \
             and backward pass without it, or use Sgd",
        )
    }

    fn zero(&self, storage: &Arc<Storage>) -> Result<()> {
        record(&[], &[whole(storage)], |on, _, out| on.zero(out[0].storage))
    }

    fn fill(&self, value: f32, out: Operand<'_>) -> Result<()> {
        record(&[], &[out], move |on, _, out| on.fill(value, out[0]))
    }

    fn copy(&self, dtype: DType, from: Operand<'_>, to: Operand<'_>) -> Result<()> {
        record(&[from], &[to], move |on, from, to| {
            on.copy(dtype, from[0], to[0])
        })
    }

    fn unary(&self, op: Unary, input: Operand<'_>, out: Operand<'_>) -> Result<()> {
        record(&[input], &[out], move |on, input, out| {
            on.unary(op, input[0], out[0])
        })
    }

    fn binary(
        &self,
        op: Binary,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        record(&[lhs, rhs], &[out], move |on, sides, out| {
            on.binary(op, sides[0], sides[1], out[0])
        })
    }

    fn add_assign(&self, target: Operand<'_>, other: Operand<'_>) -> Result<()> {
        record(&[other], &[target], |on, other, target| {
            on.add_assign(target[0], other[0])
        })
    }

    fn matmul(
        &self,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        epilogue: Epilogue<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let mut reads = vec![lhs, rhs];
        reads.extend(epilogue.bias);
        let relu = epilogue.relu;
        record(&reads, &[out], move |on, reads, out| {
            let bias = reads.get(2).copied();
            on.matmul(reads[0], reads[1], Epilogue { bias, relu }, out[0])
        })
    }

    fn sum(&self, input: Operand<'_>, around: Around, scale: f32, out: Operand<'_>) -> Result<()> {
        record(&[input], &[out], move |on, input, out| {
            on.sum(input[0], around, scale, out[0])
        })
    }

    fn softmax(
        &self,
        kind: SoftmaxKind,
        input: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()> {
        record(&[input], &[out], move |on, input, out| {
            on.softmax(kind, input[0], around, out[0])
        })
    }

    fn softmax_backward(
        &self,
        kind: SoftmaxKind,
        gradient: Operand<'_>,
        result: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()> {
        record(&[gradient, result], &[out], move |on, reads, out| {
            on.softmax_backward(kind, reads[0], reads[1], around, out[0])
        })
    }

    fn mse(&self, input: Operand<'_>, target: Operand<'_>, out: &Arc<Storage>) -> Result<()> {
        record(&[input, target], &[whole(out)], |on, reads, out| {
            on.mse(reads[0], reads[1], out[0].storage)
        })
    }

    fn mse_backward(
        &self,
        gradient: Operand<'_>,
        input: Operand<'_>,
        target: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        record(&[gradient, input, target], &[out], |on, reads, out| {
            on.mse_backward(reads[0], reads[1], reads[2], out[0])
        })
    }

    fn nll(
        &self,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        out: Operand<'_>,
        weight: Operand<'_>,
    ) -> Result<()> {
        record(
            &[log_probabilities, classes],
            &[out, weight],
            |on, reads, writes| on.nll(reads[0], reads[1], writes[0], writes[1]),
        )
    }

    fn cross_entropy_backward(
        &self,
        gradient: Operand<'_>,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        weight: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        record(
            &[gradient, log_probabilities, classes, weight],
            &[out],
            |on, reads, out| {
                on.cross_entropy_backward(reads[0], reads[1], reads[2], reads[3], out[0])
            },
        )
    }

    fn sgd(&self, step: SgdStep, parameters: &[SgdParameter<'_>]) -> Result<()> {
        // The values, and behind all of them the momenta, which every parameter has or none.
        let count = parameters.len();
        let gradients: Vec<_> = parameters.iter().map(|it| it.gradient).collect();
        let mut writes: Vec<_> = parameters.iter().map(|it| it.value).collect();
        writes.extend(parameters.iter().filter_map(|it| it.momentum));
        let firsts: Vec<_> = parameters.iter().map(|it| it.first).collect();
        record(&gradients, &writes, move |on, gradients, writes| {
            let (values, momenta) = writes.split_at(count);
            let parameters: Vec<_> = (0..count)
                .map(|place| SgdParameter {
                    value: values[place],
                    gradient: gradients[place],
                    momentum: momenta.get(place).copied(),
                    first: firsts[place],
                })
                .collect();
            on.sgd(step, &parameters)
        })
    }
}
