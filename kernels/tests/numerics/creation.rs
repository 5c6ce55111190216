//! New tensors, and transfers between host and device.

use gpu_leak_kernels::{DType, HostTensor, Result, Tensor, manual_seed};

use super::devices;

#[test]
fn data_copied_to_a_device_comes_back_unchanged() -> Result<()> {
    for device in devices() {
        let floats: Vec<f32> = (0..24_u8).map(f32::from).collect();
        let tensor = Tensor::from_vec(floats.clone(), [2, 3, 4], &device)?;
        assert_eq!(tensor.to_vec::<f32>()?, floats);
        let turned = tensor.transpose(0, 2)?.to_vec::<f32>()?;
        assert_eq!(turned[..4], [0.0, 12.0, 4.0, 16.0]);
        let rows = tensor.rows(1..2)?.to_vec::<f32>()?;
        assert_eq!(rows, floats[12..]);

        let labels = Tensor::from_vec(vec![3_i64, -1, i64::MAX], [3], &device)?;
        assert_eq!(labels.dtype(), DType::I64);
        assert_eq!(labels.to_vec::<i64>()?, [3, -1, i64::MAX]);
        let column = Tensor::from_vec(vec![1_i64, 2, 3, 4], [2, 2], &device)?;
        let column = column.transpose(0, 1)?.contiguous()?;
        assert_eq!(column.to_vec::<i64>()?, [1, 3, 2, 4]);
    }
    Ok(())
}

#[test]
fn a_tensor_moves_between_devices_with_its_numbers() -> Result<()> {
    for from in devices() {
        for to in devices() {
            let tensor = Tensor::full([3, 2], 0.25, &from)?.transpose(0, 1)?;
            let moved = tensor.to(&to)?;
            assert_eq!(moved.shape(), [2, 3]);
            assert_eq!(moved.to_vec::<f32>()?, [0.25; 6]);
        }
    }
    Ok(())
}

#[test]
fn tensors_without_elements_are_tensors() -> Result<()> {
    for device in devices() {
        let empty = Tensor::zeros([0, 3], &device)?;
        assert!(empty.add(&empty)?.sin()?.to_vec::<f32>()?.is_empty());
        assert_eq!(empty.sum()?.item()?, 0.0);
        assert!(empty.mean()?.item()?.is_nan());
        assert_eq!(empty.sum_dim(0)?.to_vec::<f32>()?, [0.0; 3]);
        assert_eq!(empty.softmax(1)?.shape(), [0, 3]);
        let none = Tensor::zeros([2, 0], &device)?.matmul(&empty)?;
        assert_eq!(none.to_vec::<f32>()?, [0.0; 6]);
        assert_eq!(Tensor::randn([0], &device)?.numel(), 0);
        assert_eq!(empty.reshape([3, 0])?.shape(), [3, 0]);
        let corner = Tensor::zeros([5, 3], &device)?
            .rows(5..5)?
            .narrow(1, 3..3)?;
        assert!(corner.contiguous()?.to_vec::<f32>()?.is_empty());
        // A view of a tensor without elements does not begin behind the end of its storage.
        let last = empty.narrow(1, 2..3)?;
        assert!(last.add(&last)?.relu()?.to_vec::<f32>()?.is_empty());
        assert!(last.to_vec::<f32>()?.is_empty());
        assert_eq!(last.sum()?.item()?, 0.0);
    }
    Ok(())
}

#[test]
fn random_numbers_follow_their_distribution_and_seed() -> Result<()> {
    // An odd number that is larger than what one stream of the generator fills.
    const COUNT: usize = 300_001;
    for device in devices() {
        manual_seed(5);
        let even = Tensor::rand([COUNT], &device)?.to_vec::<f32>()?;
        let normal = Tensor::randn([COUNT], &device)?.to_vec::<f32>()?;
        assert!(even.iter().all(|x| (0.0..1.0).contains(x)));
        for (numbers, mean, deviation) in
            [(&even, 0.5, (1.0_f64 / 12.0).sqrt()), (&normal, 0.0, 1.0)]
        {
            let count = COUNT as f64;
            let found = numbers.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
            let squares = numbers.iter().map(|x| (f64::from(*x) - found).powi(2));
            let spread = (squares.sum::<f64>() / count).sqrt();
            // The bounds are six standard errors of the mean, which is generous for the deviation.
            assert!(
                (found - mean).abs() < 6.0 * deviation / count.sqrt(),
                "{device}: {found}"
            );
            assert!((spread - deviation).abs() < 6.0 * deviation / count.sqrt());
        }
        manual_seed(5);
        assert_eq!(Tensor::rand([COUNT], &device)?.to_vec::<f32>()?, even);
        assert_ne!(Tensor::rand([COUNT], &device)?.to_vec::<f32>()?, even);
    }
    Ok(())
}

#[test]
fn drawn_integers_lie_in_their_range() -> Result<()> {
    let device = gpu_leak_kernels::Device::embedded()?;
    let drawn = HostTensor::randint(-2, 3, [1000])?
        .to(&device)?
        .to_vec::<i64>()?;
    for value in -2..3 {
        assert!(drawn.contains(&value));
    }
    assert!(drawn.iter().all(|x| (-2..3).contains(x)));
    Ok(())
}
