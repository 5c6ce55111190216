//! One pass over a data set.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::vec::IntoIter;

use crate::error::Result;

use super::dataset::SharedDataset;

/// The batches of one epoch, in order. An epoch that is dropped early stops its thread and
/// waits for it.
pub struct Epoch<B> {
    left: usize,
    source: Source<B>,
}

enum Source<B> {
    Direct {
        dataset: SharedDataset<B>,
        batches: IntoIter<Vec<usize>>,
    },
    Ahead {
        /// Dropped first, which tells the thread that no more batches are wanted.
        batches: Option<Receiver<Result<B>>>,
        worker: Option<JoinHandle<()>>,
    },
}

impl<B: Send + 'static> Epoch<B> {
    pub(super) fn new(
        dataset: SharedDataset<B>,
        batches: Vec<Vec<usize>>,
        prefetch: usize,
    ) -> Self {
        let left = batches.len();
        // The channel allocates its room in advance, so it must not be larger than the epoch.
        let prefetch = prefetch.min(left);
        let source = if prefetch == 0 {
            Source::Direct {
                dataset,
                batches: batches.into_iter(),
            }
        } else {
            // The thread itself holds one more batch while it waits for room in the channel.
            let (sender, receiver) = sync_channel(prefetch - 1);
            let worker = thread::spawn(move || {
                for indices in batches {
                    if sender.send(dataset.batch(&indices)).is_err() {
                        return;
                    }
                }
            });
            Source::Ahead {
                batches: Some(receiver),
                worker: Some(worker),
            }
        };
        Self { left, source }
    }
}

impl<B> Iterator for Epoch<B> {
    type Item = Result<B>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.source {
            Source::Direct { dataset, batches } => {
                batches.next().map(|indices| dataset.batch(&indices))
            }
            Source::Ahead { batches, worker } => {
                let batch = batches.as_ref()?.recv();
                if batch.is_err()
                    && let Some(worker) = worker.take()
                    && let Err(panic) = worker.join()
                {
                    resume_unwind(panic);
                }
                batch.ok()
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<B> ExactSizeIterator for Epoch<B> {}

impl<B> Drop for Epoch<B> {
    fn drop(&mut self) {
        if let Source::Ahead { batches, worker } = &mut self.source {
            drop(batches.take());
            if let Some(worker) = worker.take() {
                // The batch that the thread was making was never requested, so a panic of the
                // thread is ignored.
                let _ = worker.join();
            }
        }
    }
}

impl<B> fmt::Debug for Epoch<B> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Epoch({} batches left)", self.left)
    }
}
