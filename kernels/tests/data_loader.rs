//! Batches are complete, in the promised order, and without leaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpu_leak_kernels::data::{DataLoader, Dataset, TensorDataset};
use gpu_leak_kernels::{Device, HostTensor, Result};

fn numbered(count: usize) -> TensorDataset<2> {
    let numbers = 0..i64::try_from(count).expect("a small count");
    let labels = HostTensor::from_i64(numbers.clone().collect(), [count]);
    let samples = numbers.flat_map(|n| [n as f32, -n as f32]).collect();
    let samples = HostTensor::from_f32(samples, [count, 2]);
    TensorDataset::new([samples.expect("they fit"), labels.expect("they fit")]).expect("one length")
}

fn labels(loader: &DataLoader<[HostTensor; 2]>, epoch: u64) -> Result<Vec<Vec<i64>>> {
    let device = Device::embedded()?;
    loader
        .epoch(epoch)
        .map(|batch| {
            let [samples, labels] = batch?;
            let labels = labels.to(&device)?.to_vec::<i64>()?;
            // The samples stay together with their labels.
            let firsts = samples.to(&device)?.narrow(1, 0..1)?.to_vec::<f32>()?;
            assert_eq!(firsts, labels.iter().map(|n| *n as f32).collect::<Vec<_>>());
            Ok(labels)
        })
        .collect()
}

#[test]
fn an_epoch_has_every_sample_once_and_a_partial_last_batch() -> Result<()> {
    let in_order = DataLoader::new(numbered(10), 4)?;
    assert_eq!(
        labels(&in_order, 0)?,
        [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]
    );
    let shuffled = DataLoader::new(numbered(100), 7)?.shuffle(3);
    let mut seen = labels(&shuffled, 0)?.concat();
    assert_ne!(seen, (0..100).collect::<Vec<_>>());
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    let whole = DataLoader::new(numbered(10), 4)?.drop_last();
    assert_eq!((whole.len(), labels(&whole, 0)?.len()), (2, 2));
    Ok(())
}

#[test]
fn seed_and_epoch_decide_the_order_and_prefetch_does_not() -> Result<()> {
    let loader = DataLoader::new(numbered(50), 8)?.shuffle(1);
    let first = labels(&loader, 0)?;
    assert_eq!(labels(&loader, 0)?, first);
    assert_ne!(labels(&loader, 1)?, first);
    let other_seed = DataLoader::new(numbered(50), 8)?.shuffle(2);
    assert_ne!(labels(&other_seed, 0)?, first);
    let ahead = DataLoader::new(numbered(50), 8)?.shuffle(1).prefetch(3);
    assert_eq!(labels(&ahead, 0)?, first);
    // A whole epoch ahead.
    let all = DataLoader::new(numbered(50), 8)?
        .shuffle(1)
        .prefetch(usize::MAX);
    assert_eq!(labels(&all, 0)?, first);
    Ok(())
}

/// A data set that counts the batches it made, and panics at one of them.
struct Counting {
    made: Arc<AtomicUsize>,
    panics_at: usize,
}

impl Dataset<usize> for Counting {
    fn len(&self) -> usize {
        1000
    }

    fn batch(&self, indices: &[usize]) -> Result<usize> {
        assert_ne!(indices[0], self.panics_at, "on purpose");
        self.made.fetch_add(1, Ordering::SeqCst);
        Ok(indices[0])
    }
}

#[test]
fn an_epoch_dropped_early_stops_its_thread() -> Result<()> {
    let made = Arc::new(AtomicUsize::new(0));
    let dataset = Counting {
        made: Arc::clone(&made),
        panics_at: usize::MAX,
    };
    let loader = DataLoader::new(dataset, 1)?.prefetch(2);
    let mut epoch = loader.epoch(0);
    assert_eq!(epoch.len(), 1000);
    assert_eq!(epoch.next().transpose()?, Some(0));
    drop(epoch);
    // The thread has ended, so only the loader and this test still hold the counter.
    let after = made.load(Ordering::SeqCst);
    assert!(after <= 4, "{after} batches for one asked for");
    drop(loader);
    assert_eq!(Arc::strong_count(&made), 1);
    Ok(())
}

#[test]
fn a_panic_while_a_batch_is_made_reaches_its_reader() -> Result<()> {
    for prefetch in [0, 2] {
        let dataset = Counting {
            made: Arc::default(),
            panics_at: 1,
        };
        let loader = DataLoader::new(dataset, 1)?.prefetch(prefetch);
        let mut epoch = loader.epoch(0);
        assert_eq!(epoch.next().transpose()?, Some(0));
        let next = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| epoch.next()));
        assert!(next.is_err(), "prefetch {prefetch}");
    }
    Ok(())
}

#[test]
fn a_loader_that_makes_no_batches_is_refused() -> Result<()> {
    assert!(DataLoader::new(numbered(3), 0).is_err());
    let (two, three) = (HostTensor::rand([2])?, HostTensor::rand([3])?);
    let error = TensorDataset::new([two, three]).expect_err("lengths differ");
    assert!(error.to_string().contains("[[2], [3]]"), "{error}");
    assert!(TensorDataset::new([HostTensor::rand([0; 0])?]).is_err());
    Ok(())
}
