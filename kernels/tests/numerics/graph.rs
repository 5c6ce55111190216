//! Guarantees of the graph other than its numbers.

use gpu_leak_kernels::{Device, Error, Result, Tensor, inference_mode, memory, no_grad};

use super::devices;

fn leaf(values: &[f32]) -> Result<Tensor> {
    Tensor::from_vec(values.to_vec(), [values.len()], &Device::embedded()?)?.requires_grad_(true)
}

fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error = result.expect_err("it is refused");
    assert!(matches!(error, Error::Gradient { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn gradients_of_several_passes_add_up_until_they_are_dropped() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    for _ in 0..3 {
        x.mul(&x)?.sum()?.backward()?;
    }
    assert_eq!(x.grad().expect("a gradient").to_vec::<f32>()?, [6.0, 12.0]);
    x.clear_grad();
    x.sum()?.backward()?;
    assert_eq!(x.grad().expect("a gradient").to_vec::<f32>()?, [1.0, 1.0]);
    Ok(())
}

#[test]
fn a_second_pass_needs_a_retained_graph() -> Result<()> {
    let x = leaf(&[3.0])?;
    let once = x.mul(&x)?.sum()?;
    once.backward()?;
    assert!(message(once.backward()).contains("backward_retaining"));

    let twice = x.mul(&x)?.sum()?;
    twice.backward_retaining()?;
    twice.backward()?;
    assert_eq!(x.grad().expect("a gradient").to_vec::<f32>()?, [18.0]);
    Ok(())
}

#[test]
fn changing_a_saved_tensor_is_noticed() -> Result<()> {
    let x = leaf(&[1.0])?;
    let hidden = x.sin()?;
    let out = hidden.mul(&hidden)?.sum()?;
    no_grad(|| hidden.add_(&hidden))?;
    assert!(message(out.backward()).contains("changed in place"));
    Ok(())
}

#[test]
fn a_recorded_tensor_cannot_be_changed_in_place() -> Result<()> {
    let x = leaf(&[1.0])?;
    assert!(message(x.add_(&x)).contains("no_grad"));
    assert!(message(x.zero_()).contains("no_grad"));
    no_grad(|| x.add_(&x))?;
    assert_eq!(x.to_vec::<f32>()?, [2.0]);
    Ok(())
}

/// The elements of a repeated dimension share one number, so the result would depend on the order
/// of the writes.
#[test]
fn a_tensor_that_repeats_its_elements_cannot_be_changed_in_place() -> Result<()> {
    for device in devices() {
        let row = Tensor::full([1, 3], 1.0, &device)?;
        let repeated = row.broadcast_to([2, 3])?;
        let ones = Tensor::full([2, 3], 1.0, &device)?;
        for refused in [repeated.add_(&ones), repeated.copy_(&ones)] {
            let error = refused.expect_err("each number would be written twice");
            assert!(error.to_string().contains("contiguous"), "{error}");
        }
        // As many elements as in the storage, but not the same ones.
        let half = ones.rows(0..1)?.broadcast_to([2, 3])?;
        assert!(half.zero_().is_err());
        assert_eq!(ones.to_vec::<f32>()?, [1.0; 6]);
        assert_eq!(row.to_vec::<f32>()?, [1.0; 3]);
        row.add_(&ones.rows(0..1)?)?;
        assert_eq!(repeated.to_vec::<f32>()?, [2.0; 6]);
    }
    Ok(())
}

#[test]
fn no_graph_is_recorded_without_gradients() -> Result<()> {
    let x = leaf(&[1.0])?;
    let quiet = no_grad(|| x.sin())?;
    assert!(!quiet.requires_grad());
    assert!(message(quiet.sum()?.backward()).contains("does not depend"));
    // Nesting does not switch recording on again, and a panic does not leave it off.
    let nested = inference_mode(|| no_grad(|| x.sin()))?;
    assert!(message(nested.mul(&x)).contains("inference_mode"));
    assert!(std::panic::catch_unwind(|| no_grad(|| panic!("on purpose"))).is_err());
    assert!(x.sin()?.requires_grad());
    Ok(())
}

#[test]
fn a_pass_begins_at_one_element() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    assert!(message(x.sin()?.backward()).contains("[2]"));
    Ok(())
}

#[test]
fn a_detached_tensor_ends_the_graph_and_shares_the_storage() -> Result<()> {
    let x = leaf(&[2.0])?;
    let hidden = x.mul(&x)?;
    let apart = hidden.detach();
    assert!(!apart.requires_grad());
    hidden.mul(&apart)?.sum()?.backward()?;
    // Only one of the factors is differentiated: 2x · x².
    assert_eq!(x.grad().expect("a gradient").to_vec::<f32>()?, [16.0]);
    let again = x.mul(&x)?;
    again.detach_();
    assert!(again.is_leaf() && !again.requires_grad());
    Ok(())
}

#[test]
fn a_graph_deeper_than_any_stack_is_passed_and_dropped() -> Result<()> {
    const DEPTH: usize = 200_000;
    let x = leaf(&[0.0])?;
    let deep = |x: &Tensor| {
        let mut out = x.clone();
        for _ in 0..DEPTH {
            out = out.add_scalar(1.0)?;
        }
        Ok::<_, Error>(out)
    };
    let passed = deep(&x)?.sum()?;
    passed.backward()?;
    assert_eq!(passed.item()?, DEPTH as f32);
    assert_eq!(x.grad().expect("a gradient").to_vec::<f32>()?, [1.0]);
    drop(passed);
    drop(deep(&x)?);
    Ok(())
}

#[test]
fn a_pass_frees_what_it_has_used_and_dropping_frees_the_rest() -> Result<()> {
    let device = Device::embedded()?;
    let x = Tensor::full([128], 0.5, &device)?.requires_grad_(true)?;
    let out = x.sin()?.mul(&x)?.sin()?.sum()?;
    // These are the leaf, two results that rules saved, and the scalar.
    assert_eq!(memory::allocated(&device), 4 * 512);
    out.backward()?;
    // These are the leaf, its gradient, and the scalar.
    assert_eq!(memory::allocated(&device), 3 * 512);
    drop(out);
    drop(x);
    assert_eq!(memory::allocated(&device), 0);
    Ok(())
}

#[test]
fn a_failed_operation_leaves_nothing_behind() -> Result<()> {
    let device = Device::embedded()?;
    let a = Tensor::zeros([2, 3], &device)?;
    let b = Tensor::zeros([4, 5], &device)?;
    let before = memory::allocated(&device);
    let error = a.matmul(&b).expect_err("the shapes do not fit");
    assert_eq!(
        error.to_string(),
        "matmul: takes [m, k] and [k, n], but got [2, 3] and [4, 5]"
    );
    let error = a.add(&b).expect_err("the shapes do not fit");
    assert!(error.to_string().contains("[2, 3] and [4, 5]"), "{error}");
    assert!(a.mse_loss(&b).is_err());
    assert_eq!(memory::allocated(&device), before);
    Ok(())
}

#[test]
fn operands_of_two_devices_are_refused_by_name() -> Result<()> {
    let (here, there) = (Device::embedded()?, Device::embedded()?);
    let a = Tensor::zeros([2], &here)?;
    let b = Tensor::zeros([2], &there)?;
    assert!(matches!(a.add(&b), Err(Error::DeviceMismatch { .. })));
    let labels = Tensor::from_vec(vec![1_i64, 2], [2], &here)?;
    let error = a.add(&labels).expect_err("types differ");
    assert_eq!(
        error.to_string(),
        "add: takes f32, but the tensor of shape [2] is i64"
    );
    Ok(())
}
