//! The sources of samples.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::tensor::HostTensor;

/// A source of numbered samples, several of which make up a batch of type `B`.
pub trait Dataset<B> {
    /// The number of samples.
    fn len(&self) -> usize;

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the samples with these indices, in this order.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them does not exist or cannot be read.
    fn batch(&self, indices: &[usize]) -> Result<B>;
}

/// A data set that a loader shares with its epochs.
pub(super) type SharedDataset<B> = Arc<dyn Dataset<B> + Send + Sync>;

/// Samples that are the rows of tensors: row `i` of each belongs to sample `i`.
#[derive(Clone, Debug)]
pub struct TensorDataset<const TENSORS: usize> {
    tensors: [HostTensor; TENSORS],
    len: usize,
}

impl<const TENSORS: usize> TensorDataset<TENSORS> {
    /// Creates a data set that owns the tensors.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no tensors, if one of them is a scalar, or if their numbers of
    /// rows differ.
    pub fn new(tensors: [HostTensor; TENSORS]) -> Result<Self> {
        let mut rows = tensors.iter().map(|tensor| tensor.shape().first());
        match rows.next().flatten() {
            Some(&len) if rows.all(|other| other == Some(&len)) => Ok(Self { tensors, len }),
            _ => Err(Error::Shape {
                operation: "TensorDataset::new",
                detail: format!(
                    "tensors of shapes {:?} do not have the same number of rows",
                    tensors.each_ref().map(HostTensor::shape)
                ),
            }),
        }
    }
}

impl<const TENSORS: usize> Dataset<[HostTensor; TENSORS]> for TensorDataset<TENSORS> {
    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, indices: &[usize]) -> Result<[HostTensor; TENSORS]> {
        let mut batch = self.tensors.each_ref().map(|_| None);
        for (rows, tensor) in batch.iter_mut().zip(&self.tensors) {
            *rows = Some(tensor.rows(indices)?);
        }
        Ok(batch.map(|rows| rows.expect("each was filled above")))
    }
}
