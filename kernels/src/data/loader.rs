//! Divides a data set into batches.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::random::permutation;

use super::dataset::{Dataset, SharedDataset};
use super::epoch::Epoch;

/// Divides a data set into batches of type `B`, once for each epoch.
///
/// ```
/// use gpu_leak_kernels::HostTensor;
/// use gpu_leak_kernels::data::{DataLoader, TensorDataset};
///
/// let samples = TensorDataset::new([HostTensor::rand([10, 3])?])?;
/// let loader = DataLoader::new(samples, 4)?.shuffle(7);
/// let sizes: Vec<usize> = loader
///     .epoch(0)
///     .map(|batch| batch.map(|[rows]| rows.shape()[0]))
///     .collect::<Result<_, _>>()?;
/// assert_eq!(sizes, [4, 4, 2]);
/// # Ok::<(), gpu_leak_kernels::Error>(())
/// ```
pub struct DataLoader<B> {
    dataset: SharedDataset<B>,
    batch_size: usize,
    shuffle: Option<u64>,
    drop_last: bool,
    prefetch: usize,
}

impl<B> DataLoader<B> {
    /// Creates a loader that keeps the order, makes the last batch smaller if necessary, and makes
    /// each batch on request.
    ///
    /// # Errors
    ///
    /// Returns an error if the batch size is 0.
    pub fn new<D>(dataset: D, batch_size: usize) -> Result<Self>
    where
        D: Dataset<B> + Send + Sync + 'static,
    {
        if batch_size == 0 {
            return Err(Error::Argument {
                operation: "DataLoader::new",
                detail: "a batch must have at least one sample".into(),
            });
        }
        Ok(Self {
            dataset: Arc::new(dataset),
            batch_size,
            shuffle: None,
            drop_last: false,
            prefetch: 0,
        })
    }

    /// Uses a random order, which depends on the seed and the epoch's number.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.shuffle = Some(seed);
        self
    }

    /// Omits a last batch that is smaller than the others.
    #[must_use]
    pub fn drop_last(mut self) -> Self {
        self.drop_last = true;
        self
    }

    /// Makes up to this many batches ahead of time, on a separate thread for each epoch.
    #[must_use]
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches;
        self
    }

    /// The number of batches in an epoch.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.drop_last {
            self.dataset.len() / self.batch_size
        } else {
            self.dataset.len().div_ceil(self.batch_size)
        }
    }

    /// Whether an epoch has no batches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the batches of one pass over the data.
    #[must_use]
    pub fn epoch(&self, number: u64) -> Epoch<B>
    where
        B: Send + 'static,
    {
        let order = match self.shuffle {
            // The seed is rotated, so that small seeds such as 1 and 2 never give the same order in
            // different epochs.
            Some(seed) => permutation(seed.rotate_left(32) ^ number, self.dataset.len()),
            None => (0..self.dataset.len()).collect(),
        };
        let mut batches: Vec<Vec<usize>> = order
            .chunks(self.batch_size)
            .map(<[usize]>::to_vec)
            .collect();
        batches.truncate(self.len());
        Epoch::new(Arc::clone(&self.dataset), batches, self.prefetch)
    }
}

impl<B> fmt::Debug for DataLoader<B> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "DataLoader({} batches)", self.len())
    }
}
