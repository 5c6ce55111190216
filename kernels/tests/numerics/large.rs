//! Sizes for which a device uses another algorithm: several blocks, two passes, or cuBLAS.

use gpu_leak_kernels::{HostTensor, Result, Tensor, manual_seed};

use super::array::Array;
use super::{assert_close, devices};

/// A product of matrices with these sizes is too large for our own kernel.
const SIZES: [usize; 3] = [190, 170, 180];

#[test]
fn large_products_agree_whichever_way_the_matrices_lie() -> Result<()> {
    let [rows, depth, columns] = SIZES;
    manual_seed(3);
    let a = HostTensor::randn([rows, depth])?;
    let b = HostTensor::randn([depth, columns])?;
    for device in devices() {
        let (a, b) = (a.to(&device)?, b.to(&device)?);
        let reference = Array::of(&a)?.matmul(&Array::of(&b)?);
        let turned = |x: &Tensor| x.transpose(0, 1)?.contiguous()?.transpose(0, 1);
        for (left, right) in [
            (a.clone(), b.clone()),
            (turned(&a)?, b.clone()),
            (a.clone(), turned(&b)?),
            (turned(&a)?, turned(&b)?),
        ] {
            let found = left.matmul(&right)?.to_vec()?;
            assert_close("matmul", &found, &reference.values, 1e-5);
        }
    }
    Ok(())
}

#[test]
fn large_products_of_repeated_rows_agree() -> Result<()> {
    let [rows, depth, columns] = SIZES;
    manual_seed(4);
    let row = HostTensor::randn([1, depth])?;
    let b = HostTensor::randn([depth, columns])?;
    for device in devices() {
        let (row, b) = (row.to(&device)?, b.to(&device)?);
        let found = row.broadcast_to([rows, depth])?.matmul(&b)?;
        let reference = Array::of(&row)?.matmul(&Array::of(&b)?);
        for number in [0, rows - 1] {
            let found = found.rows(number..number + 1)?.to_vec()?;
            assert_close("matmul", &found, &reference.values, 1e-5);
        }
    }
    Ok(())
}

#[test]
fn large_layers_add_their_bias_and_rectify() -> Result<()> {
    let [rows, inputs, outputs] = SIZES;
    manual_seed(5);
    let [x, weight, bias] = [
        HostTensor::randn([rows, inputs])?,
        HostTensor::randn([outputs, inputs])?,
        HostTensor::randn([outputs])?,
    ];
    for device in devices() {
        let (x, weight, bias) = (x.to(&device)?, weight.to(&device)?, bias.to(&device)?);
        let reference = Array::of(&x)?
            .matmul(&Array::of(&weight)?.transposed())
            .zip(&Array::of(&bias)?, |a, b| a + b);
        let found = x.linear(&weight, &bias)?.to_vec()?;
        assert_close("linear", &found, &reference.values, 1e-5);
        let found = x.linear_relu(&weight, &bias)?.to_vec()?;
        let rectified = reference.map(|x| x.max(0.0));
        assert_close("linear_relu", &found, &rectified.values, 1e-5);
    }
    Ok(())
}

#[test]
fn long_sums_and_losses_agree() -> Result<()> {
    const COUNT: usize = 300_007;
    manual_seed(6);
    let [x, y] = [HostTensor::randn([COUNT])?, HostTensor::randn([COUNT])?];
    for device in devices() {
        let (x, y) = (x.to(&device)?.add_scalar(1.0)?, y.to(&device)?);
        let (xs, ys) = (Array::of(&x)?, Array::of(&y)?);
        assert_close("sum", &[x.sum()?.item()?], &[xs.total()], 1e-4);
        assert_close(
            "mean",
            &[x.mean()?.item()?],
            &[xs.total() / COUNT as f64],
            1e-4,
        );
        let squares = xs.zip(&ys, |a, b| (a - b) * (a - b)).total();
        let loss = x.mse_loss(&y)?;
        assert_close("mse", &[loss.item()?], &[squares / COUNT as f64], 1e-4);
        assert_eq!(loss.storage_bytes(), 4 * COUNT);
    }
    Ok(())
}

#[test]
fn wide_and_long_reductions_agree() -> Result<()> {
    manual_seed(7);
    let x = HostTensor::randn([700, 1100])?;
    for device in devices() {
        let x = x.to(&device)?;
        let xs = Array::of(&x)?;
        for dim in [0, 1] {
            let found = x.sum_dim(dim)?.to_vec()?;
            assert_close("sum_dim", &found, &xs.sum_dim(dim).values, 1e-5);
            let found = x.softmax(dim)?.to_vec()?;
            assert_close("softmax", &found, &xs.softmax(dim).values, 1e-6);
        }
        let spread = x.transpose(0, 1)?.add(&x.transpose(0, 1)?)?.to_vec()?;
        assert_close("add", &spread, &xs.transposed().map(|x| x + x).values, 1e-6);
    }
    Ok(())
}
