//! The reference: a plain implementation of the operations in `f64`.

use gpu_leak_kernels::{Result, Tensor};

/// Numbers in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

impl Array {
    pub(crate) fn new(shape: &[usize], values: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        Self {
            shape: shape.to_vec(),
            values,
        }
    }

    /// The contents of a tensor.
    pub(crate) fn of(tensor: &Tensor) -> Result<Self> {
        let values = tensor.to_vec::<f32>()?.into_iter().map(f64::from);
        Ok(Self::new(tensor.shape(), values.collect()))
    }

    pub(crate) fn map(&self, function: impl Fn(f64) -> f64) -> Self {
        Self::new(
            &self.shape,
            self.values.iter().map(|x| function(*x)).collect(),
        )
    }

    /// The element of this array that an index of a larger shape maps to under broadcasting.
    fn at(&self, index: &[usize]) -> f64 {
        let skipped = index.len() - self.shape.len();
        let place = self.shape.iter().zip(&index[skipped..]);
        self.values[place.fold(0, |place, (size, index)| place * size + index % size)]
    }

    pub(crate) fn zip(&self, other: &Self, function: impl Fn(f64, f64) -> f64) -> Self {
        let rank = self.shape.len().max(other.shape.len());
        let size = |array: &Self, dim: usize| {
            let own = (dim + array.shape.len()).checked_sub(rank);
            own.map_or(1, |own| array.shape[own])
        };
        let shape: Vec<usize> = (0..rank)
            .map(|dim| size(self, dim).max(size(other, dim)))
            .collect();
        let values = indices(&shape).map(|index| function(self.at(&index), other.at(&index)));
        Self::new(&shape, values.collect())
    }

    pub(crate) fn transposed(&self) -> Self {
        let [rows, columns] = self.shape[..] else {
            panic!("not a matrix");
        };
        let values = (0..columns)
            .flat_map(|column| (0..rows).map(move |row| self.values[row * columns + column]));
        Self::new(&[columns, rows], values.collect())
    }

    pub(crate) fn matmul(&self, other: &Self) -> Self {
        let (rows, depth, columns) = (self.shape[0], self.shape[1], other.shape[1]);
        let values = (0..rows * columns).map(|place| {
            let (row, column) = (place / columns, place % columns);
            (0..depth)
                .map(|k| self.values[row * depth + k] * other.values[k * columns + column])
                .sum()
        });
        Self::new(&[rows, columns], values.collect())
    }

    pub(crate) fn total(&self) -> f64 {
        self.values.iter().sum()
    }

    pub(crate) fn scalar(value: f64) -> Self {
        Self::new(&[], vec![value])
    }

    pub(crate) fn sum_dim(&self, dim: usize) -> Self {
        let mut shape = self.shape.clone();
        shape.remove(dim);
        let mut out = Self::new(&shape, vec![0.0; shape.iter().product()]);
        for (index, value) in indices(&self.shape).zip(&self.values) {
            let mut rest = index.clone();
            rest.remove(dim);
            let place = rest
                .iter()
                .zip(&shape)
                .fold(0, |place, (index, size)| place * size + index);
            out.values[place] += value;
        }
        out
    }

    /// The sums along a dimension, which is kept with size 1.
    fn kept_sum(&self, dim: usize) -> Self {
        let mut sum = self.sum_dim(dim);
        sum.shape.insert(dim, 1);
        sum
    }

    pub(crate) fn softmax(&self, dim: usize) -> Self {
        let exponentials = self.map(f64::exp);
        exponentials.zip(&exponentials.kept_sum(dim), |x, total| x / total)
    }
}

fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let count = shape.iter().product();
    (0..count).map(move |place| {
        let mut rest = place;
        let mut index = vec![0; shape.len()];
        for (index, size) in index.iter_mut().zip(shape).rev() {
            *index = rest % size;
            rest /= size;
        }
        index
    })
}
