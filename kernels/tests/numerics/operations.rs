//! One case for each operation: how the library computes it and how the reference does.

use gpu_leak_kernels::{HostTensor, Result, Tensor};

use super::array::Array;

/// An operation on inputs of certain shapes.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) shapes: &'static [&'static [usize]],
    pub(crate) library: fn(&[Tensor]) -> Result<Tensor>,
    pub(crate) reference: fn(&[Array]) -> Array,
}

macro_rules! case {
    ($name:literal, $shapes:expr, |$x:ident| $library:expr, |$y:ident| $reference:expr) => {
        Case {
            name: $name,
            shapes: &$shapes,
            library: |$x| $library,
            reference: |$y| $reference,
        }
    };
}

const fn relu(x: f64) -> f64 {
    if x < 0.0 { 0.0 } else { x }
}

fn linear(x: &[Array]) -> Array {
    x[0].matmul(&x[1].transposed()).zip(&x[2], |a, b| a + b)
}

fn mean_square(x: &Array, y: &Array) -> Array {
    let squares = x.zip(y, |a, b| (a - b) * (a - b));
    Array::scalar(squares.total() / squares.values.len() as f64)
}

/// Classes for the scores of shape `[5, 7]`.
const CLASSES: [usize; 5] = [3, 0, 6, 6, 2];

fn classes(like: &Tensor) -> Result<Tensor> {
    let classes = CLASSES.map(|class| class as i64).to_vec();
    HostTensor::from_i64(classes, [5])?.to(like.device())
}

fn cross_entropy(scores: &Array) -> Array {
    let probabilities = scores.softmax(1);
    let terms = CLASSES.iter().enumerate();
    let total: f64 = terms
        .map(|(row, class)| -probabilities.values[row * 7 + class].ln())
        .sum();
    Array::scalar(total / CLASSES.len() as f64)
}

pub(crate) const CASES: &[Case] = &[
    case!("add", [&[3, 5], &[3, 5]], |x| x[0].add(&x[1]), |y| y[0]
        .zip(&y[1], |a, b| a + b)),
    case!("add a row", [&[3, 5], &[5]], |x| x[0].add(&x[1]), |y| y[0]
        .zip(&y[1], |a, b| a + b)),
    case!(
        "add a column",
        [&[3, 1], &[2, 3, 5]],
        |x| x[0].add(&x[1]),
        |y| y[0].zip(&y[1], |a, b| a + b)
    ),
    case!("sub", [&[2, 1, 4], &[3, 1]], |x| x[0].sub(&x[1]), |y| y[0]
        .zip(&y[1], |a, b| a - b)),
    case!("mul", [&[7], &[3, 7]], |x| x[0].mul(&x[1]), |y| y[0]
        .zip(&y[1], |a, b| a * b)),
    case!("square", [&[6, 2]], |x| x[0].mul(&x[0]), |y| y[0]
        .map(|a| a * a)),
    case!("twice", [&[6, 2]], |x| x[0].add(&x[0]), |y| y[0]
        .map(|a| a + a)),
    case!("add_scalar", [&[9]], |x| x[0].add_scalar(1.5), |y| y[0]
        .map(|a| a + 1.5)),
    case!("mul_scalar", [&[9]], |x| x[0].mul_scalar(-2.5), |y| y[0]
        .map(|a| a * -2.5)),
    case!("sin", [&[4, 9]], |x| x[0].sin(), |y| y[0].map(f64::sin)),
    case!("relu", [&[4, 9]], |x| x[0].relu(), |y| y[0].map(relu)),
    case!(
        "sin of a transposed",
        [&[4, 9]],
        |x| x[0].transpose(0, 1)?.sin(),
        |y| y[0].transposed().map(f64::sin)
    ),
    case!("matmul", [&[5, 3], &[3, 6]], |x| x[0].matmul(&x[1]), |y| y
        [0]
    .matmul(&y[1])),
    case!(
        "matmul over many steps",
        [&[18, 150], &[150, 33]],
        |x| x[0].matmul(&x[1]),
        |y| y[0].matmul(&y[1])
    ),
    case!(
        "matmul of transposed",
        [&[9, 20], &[31, 9]],
        |x| x[0].transpose(0, 1)?.matmul(&x[1].transpose(0, 1)?),
        |y| y[0].transposed().matmul(&y[1].transposed())
    ),
    case!(
        "linear",
        [&[4, 6], &[5, 6], &[5]],
        |x| x[0].linear(&x[1], &x[2]),
        |y| linear(y)
    ),
    case!(
        "linear_relu",
        [&[33, 6], &[17, 6], &[17]],
        |x| x[0].linear_relu(&x[1], &x[2]),
        |y| linear(y).map(relu)
    ),
    case!("softmax over rows", [&[6, 9]], |x| x[0].softmax(1), |y| y
        [0]
    .softmax(1)),
    case!(
        "softmax over columns",
        [&[64, 10]],
        |x| x[0].softmax(0),
        |y| y[0].softmax(0)
    ),
    case!(
        "softmax in the middle",
        [&[2, 40, 3]],
        |x| x[0].softmax(1),
        |y| y[0].softmax(1)
    ),
    case!("log_softmax", [&[4, 70]], |x| x[0].log_softmax(1), |y| y[0]
        .softmax(1)
        .map(f64::ln)),
    case!("sum", [&[3, 4, 5]], |x| x[0].sum(), |y| Array::scalar(
        y[0].total()
    )),
    case!("mean", [&[3, 4, 5]], |x| x[0].mean(), |y| Array::scalar(
        y[0].total() / 60.0
    )),
    case!("sum of rows", [&[7, 65]], |x| x[0].sum_dim(1), |y| y[0]
        .sum_dim(1)),
    case!("sum of columns", [&[70, 35]], |x| x[0].sum_dim(0), |y| y[0]
        .sum_dim(0)),
    case!(
        "sum in the middle",
        [&[3, 33, 2]],
        |x| x[0].sum_dim(1),
        |y| y[0].sum_dim(1)
    ),
    case!(
        "mse_loss",
        [&[8, 5], &[8, 5]],
        |x| x[0].mse_loss(&x[1]),
        |y| mean_square(&y[0], &y[1])
    ),
    case!(
        "cross_entropy",
        [&[5, 7]],
        |x| x[0].cross_entropy(&classes(&x[0])?),
        |y| cross_entropy(&y[0])
    ),
    case!(
        "reshape of a transposed",
        [&[4, 6]],
        |x| x[0].transpose(0, 1)?.reshape([3, 8]),
        |y| Array::new(&[3, 8], y[0].transposed().values)
    ),
    case!("rows", [&[5, 3]], |x| x[0].rows(1..4), |y| Array::new(
        &[3, 3],
        y[0].values[3..12].to_vec()
    )),
    case!("broadcast_to", [&[4]], |x| x[0].broadcast_to([3, 4]), |y| y
        [0]
    .zip(&Array::new(&[3, 1], vec![0.0; 3]), |a, _| a)),
    case!(
        "a branch that joins again",
        [&[4, 4]],
        |x| x[0].sin()?.mul(&x[0].relu()?),
        |y| y[0].map(|a| a.sin() * relu(a))
    ),
];
