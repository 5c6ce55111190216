//! Records operations into a graph instead of executing them.

use std::sync::Arc;

use super::capture::{Recording, with_recording};
use super::operation::{Compute, Operation};
use crate::capturing::{note, refuse};
use crate::compute::{
    AdamParameter, AdamStep, Around, Binary, DType, Epilogue, Kernels, Layout, LossKernels,
    MatmulKernels, Operand, OptimizerKernels, PointwiseKernels, RandomKernels, ReduceKernels,
    SgdParameter, SgdStep, SoftmaxKernels, SoftmaxKind, Storage, TransferKernels, Unary,
};
use crate::device::Backend;
use crate::error::Result;
use crate::random::Distribution;

/// Replaces the device while a thread is capturing: operations become part of the graph.
#[derive(Debug)]
pub(crate) struct Recorder;

/// Adds an operation to the graph. On a CUDA device, launches it in the capturing stream.
fn record(
    reads: &[Operand<'_>],
    writes: &[Operand<'_>],
    compute: impl Fn(&dyn Kernels, &[Operand<'_>], &[Operand<'_>]) -> Result<()> + Send + Sync + 'static,
) -> Result<()> {
    let compute: Box<Compute> = Box::new(compute);
    let outcome = with_recording(reads, writes, |pool, recording| match recording {
        Recording::Cuda(stream) => Some((stream.clone(), compute)),
        Recording::Embedded(operations) => {
            operations.push(Operation::new(compute, reads, writes, pool));
            None
        }
    });
    // This runs after the recording is unlocked, because an operation may allocate temporary
    // memory.
    note(
        outcome.and_then(|(device, asked)| match (asked, device.backend()) {
            (Some((stream, compute)), Backend::Cuda(cuda)) => {
                stream.redirect(|| compute(cuda, reads, writes))
            }
            _ => Ok(()),
        }),
    )
}

/// An operand that stands for a whole storage.
fn whole(storage: &Arc<Storage>) -> Operand<'_> {
    Operand {
        storage,
        layout: Layout::scalar(),
    }
}

impl TransferKernels for Recorder {
    fn upload(&self, _bytes: &[u8], _to: &Storage) -> Result<()> {
        refuse(
            "a copy from the host",
            "its bytes would be gone at a replay; create the tensor before the capture, and copy into \
             it between replays",
        )
    }

    fn download(&self, _from: &Storage, _offset: usize, _into: &mut [u8]) -> Result<()> {
        refuse(
            "a copy to the host",
            "nothing has been computed yet; return the tensor, and read it after a replay",
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
}

impl RandomKernels for Recorder {
    fn random(&self, _: Distribution, _seed: u64, _out: Operand<'_>) -> Result<()> {
        refuse(
            "a draw of random numbers",
            "each replay would draw the same numbers; draw before the capture, or into an input",
        )
    }
}

impl PointwiseKernels for Recorder {
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
}

impl MatmulKernels for Recorder {
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
}

impl ReduceKernels for Recorder {
    fn sum(&self, input: Operand<'_>, around: Around, scale: f32, out: Operand<'_>) -> Result<()> {
        record(&[input], &[out], move |on, input, out| {
            on.sum(input[0], around, scale, out[0])
        })
    }
}

impl SoftmaxKernels for Recorder {
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
}

impl LossKernels for Recorder {
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
}

impl OptimizerKernels for Recorder {
    fn sgd(&self, step: SgdStep, parameters: &[SgdParameter<'_>]) -> Result<()> {
        if parameters.iter().any(|it| it.first) {
            return refuse(
                "the first step with momentum",
                "each replay would begin the momentum again; perform one step before the capture",
            );
        }
        // The values, followed by the momenta: either every parameter has a momentum, or none does.
        let count = parameters.len();
        let gradients: Vec<_> = parameters.iter().map(|it| it.gradient).collect();
        let mut writes: Vec<_> = parameters.iter().map(|it| it.value).collect();
        writes.extend(parameters.iter().filter_map(|it| it.momentum));
        record(&gradients, &writes, move |on, gradients, writes| {
            let (values, momenta) = writes.split_at(count);
            let parameters: Vec<_> = (0..count)
                .map(|place| SgdParameter {
                    value: values[place],
                    gradient: gradients[place],
                    momentum: momenta.get(place).copied(),
                    first: false,
                })
                .collect();
            on.sgd(step, &parameters)
        })
    }

    fn adam(&self, _step: AdamStep, _parameters: &[AdamParameter<'_>]) -> Result<()> {
        refuse(
            "a step of Adam",
            "its bias correction is recomputed on the host at each step; capture only the forward \
             and backward passes, or use Sgd",
        )
    }
}
