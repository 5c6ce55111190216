//! Shapes, and their layouts in a storage.

use std::{fmt, iter};

use crate::error::{Error, Result};

/// The maximum number of dimensions of a tensor. There is a maximum because kernels take shapes by
/// value.
pub const MAX_RANK: usize = 6;

/// Up to [`MAX_RANK`] numbers, one for each dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Dims {
    rank: u8,
    values: [usize; MAX_RANK],
}

impl Dims {
    /// Copies the numbers.
    ///
    /// # Errors
    ///
    /// Returns an error if there are more than [`MAX_RANK`] numbers.
    pub(crate) fn new(operation: &'static str, values: &[usize]) -> Result<Self> {
        if values.len() > MAX_RANK {
            return Err(Error::Shape {
                operation,
                detail: format!("{values:?} has more than {MAX_RANK} dimensions"),
            });
        }
        let mut own = [0; MAX_RANK];
        own[..values.len()].copy_from_slice(values);
        Ok(Self {
            rank: u8::try_from(values.len()).expect("MAX_RANK is small"),
            values: own,
        })
    }

    fn filled(rank: usize, value: usize) -> Self {
        let mut values = [0; MAX_RANK];
        values[..rank].fill(value);
        Self {
            rank: u8::try_from(rank).expect("MAX_RANK is small"),
            values,
        }
    }

    fn without(&self, dim: usize) -> Self {
        let mut values = [0; MAX_RANK];
        let rank = self.len() - 1;
        values[..dim].copy_from_slice(&self[..dim]);
        values[dim..rank].copy_from_slice(&self[dim + 1..]);
        Self {
            rank: self.rank - 1,
            values,
        }
    }
}

impl std::ops::Deref for Dims {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.values[..usize::from(self.rank)]
    }
}

impl std::ops::DerefMut for Dims {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.values[..usize::from(self.rank)]
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

/// A shape, and where its elements lie in a storage. Offset and strides count elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) shape: Dims,
    pub(crate) strides: Dims,
    pub(crate) offset: usize,
}

impl Layout {
    /// The row-major layout that begins at the storage's first element.
    pub(crate) fn contiguous(operation: &'static str, shape: &[usize]) -> Result<Self> {
        let shape = Dims::new(operation, shape)?;
        let bytes = shape
            .iter()
            .try_fold(8_usize, |product, &size| product.checked_mul(size.max(1)));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(Error::Shape {
                operation,
                detail: format!("{shape:?} has more elements than can be addressed"),
            });
        }
        Ok(Self::dense(shape))
    }

    /// Returns the same layout as [`Self::contiguous`], but without checking the shape, which must
    /// be that of an existing layout.
    pub(crate) fn dense(shape: Dims) -> Self {
        let mut strides = Dims::filled(shape.len(), 1);
        for dim in (1..shape.len()).rev() {
            strides[dim - 1] = strides[dim] * shape[dim].max(1);
        }
        Self {
            shape,
            strides,
            offset: 0,
        }
    }

    pub(crate) fn scalar() -> Self {
        Self::dense(Dims::filled(0, 0))
    }

    pub(crate) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements follow each other in row-major order.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for dim in (0..self.shape.len()).rev() {
            if self.shape[dim] == 0 {
                return true;
            }
            if self.shape[dim] != 1 {
                if self.strides[dim] != expected {
                    return false;
                }
                expected *= self.shape[dim];
            }
        }
        true
    }

    pub(crate) fn transposed(mut self, first: usize, second: usize) -> Self {
        self.shape.swap(first, second);
        self.strides.swap(first, second);
        self
    }

    /// Selects `length` indices of one dimension, from `start`. The caller has checked the range.
    pub(crate) fn narrowed(mut self, dim: usize, start: usize, length: usize) -> Self {
        self.shape[dim] = length;
        // Without elements, the offset stays, because it could otherwise be past the end of the
        // storage.
        if self.count() != 0 {
            self.offset += start * self.strides[dim];
        }
        self
    }

    /// Shows the same elements in another shape with the same number of elements. Only for
    /// contiguous layouts.
    pub(crate) fn reshaped(&self, shape: Dims) -> Self {
        Self {
            offset: self.offset,
            ..Self::dense(shape)
        }
    }

    /// Repeats dimensions of size 1, and adds leading dimensions, until the shape is reached.
    pub(crate) fn broadcast_to(&self, operation: &'static str, shape: Dims) -> Result<Self> {
        let refuse = || Error::Shape {
            operation,
            detail: format!("{:?} cannot be broadcast to {shape:?}", self.shape),
        };
        let added = shape
            .len()
            .checked_sub(self.shape.len())
            .ok_or_else(refuse)?;
        let mut strides = Dims::filled(shape.len(), 0);
        for (dim, (&size, &stride)) in self.shape.iter().zip(self.strides.iter()).enumerate() {
            if size == shape[added + dim] {
                strides[added + dim] = stride;
            } else if size != 1 {
                return Err(refuse());
            }
        }
        Ok(Self {
            shape,
            strides,
            offset: self.offset,
        })
    }

    /// The offsets of the elements in row-major order, beginning with element number `start`. The
    /// iterator is endless: take as many offsets as the shape has elements.
    pub(crate) fn offsets(&self, start: usize) -> impl Iterator<Item = usize> + use<> {
        let Self { shape, strides, .. } = *self;
        let mut index = Dims::filled(shape.len(), 0);
        let mut offset = self.offset;
        let mut rest = start;
        for dim in (0..shape.len()).rev() {
            let size = shape[dim].max(1);
            index[dim] = rest % size;
            rest /= size;
            offset += index[dim] * strides[dim];
        }
        iter::from_fn(move || {
            let current = offset;
            for dim in (0..shape.len()).rev() {
                index[dim] += 1;
                offset += strides[dim];
                if index[dim] < shape[dim] {
                    break;
                }
                offset -= index[dim] * strides[dim];
                index[dim] = 0;
            }
            Some(current)
        })
    }

    /// The shape around one dimension: the product of the sizes before it, its own size, and the
    /// product of the sizes after it.
    pub(crate) fn around(&self, dim: usize) -> Around {
        Around {
            outer: self.shape[..dim].iter().product(),
            size: self.shape[dim],
            inner: self.shape[dim + 1..].iter().product(),
        }
    }

    pub(crate) fn shape_without(&self, dim: usize) -> Dims {
        self.shape.without(dim)
    }
}

/// A contiguous shape cut at one dimension into `outer × size × inner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Around {
    pub(crate) outer: usize,
    pub(crate) size: usize,
    pub(crate) inner: usize,
}

/// The shape that two shapes broadcast to, as in `NumPy`.
pub(crate) fn broadcast(operation: &'static str, lhs: &Layout, rhs: &Layout) -> Result<Dims> {
    let rank = lhs.shape.len().max(rhs.shape.len());
    let mut shape = Dims::filled(rank, 1);
    let size = |layout: &Layout, dim: usize| {
        (dim + layout.shape.len())
            .checked_sub(rank)
            .map_or(1, |own| layout.shape[own])
    };
    for dim in 0..rank {
        shape[dim] = match (size(lhs, dim), size(rhs, dim)) {
            (left, right) if left == right => left,
            (1, right) => right,
            (left, 1) => left,
            _ => {
                return Err(Error::Shape {
                    operation,
                    detail: format!(
                        "shapes {:?} and {:?} cannot be broadcast to one shape",
                        lhs.shape, rhs.shape
                    ),
                });
            }
        };
    }
    Ok(shape)
}
