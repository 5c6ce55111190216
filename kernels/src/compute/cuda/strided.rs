//! A shape with strides, in the form in which kernels take it.
#![expect(unsafe_code, reason = "declares that a struct is laid out as in C")]

use crate::compute::layout::{Layout, MAX_RANK};
use cudarc::driver::DeviceRepr;

/// Mirrors the struct `Strided` in `common.cuh`; the layouts must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Strided {
    sizes: [u64; MAX_RANK],
    first: [u64; MAX_RANK],
    second: [u64; MAX_RANK],
    rank: u32,
}

// SAFETY: the struct is `repr(C)`, has only integers, and matches the struct in `common.cuh`.
unsafe impl DeviceRepr for Strided {}

impl Strided {
    /// Describes two layouts of one shape in as few dimensions as possible, because each dimension
    /// costs a division per element.
    pub(super) fn of(first: &Layout, second: &Layout) -> Self {
        let mut own = Self {
            sizes: [1; MAX_RANK],
            first: [0; MAX_RANK],
            second: [0; MAX_RANK],
            rank: 0,
        };
        for dim in 0..first.shape.len() {
            let size = first.shape[dim] as u64;
            if size == 1 {
                continue;
            }
            let strides = (first.strides[dim] as u64, second.strides[dim] as u64);
            let last = (own.rank as usize).wrapping_sub(1);
            let continues = own.rank > 0
                && own.first[last] == strides.0 * size
                && own.second[last] == strides.1 * size;
            let place = if continues {
                own.sizes[last] *= size;
                last
            } else {
                own.sizes[own.rank as usize] = size;
                own.rank += 1;
                own.rank as usize - 1
            };
            (own.first[place], own.second[place]) = strides;
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;

    #[test]
    fn dimensions_that_lie_behind_each_other_become_one() -> Result<()> {
        let dense = Layout::contiguous("test", &[4, 1, 5, 6])?;
        let both = Strided::of(&dense, &dense);
        assert_eq!((both.rank, both.sizes[0], both.first[0]), (1, 120, 1));
        let row = Layout::contiguous("test", &[6])?.broadcast_to("test", dense.shape)?;
        let spread = Strided::of(&dense, &row);
        assert_eq!((spread.rank, &spread.sizes[..2]), (2, &[20, 6][..]));
        assert_eq!(
            (&spread.first[..2], &spread.second[..2]),
            (&[6, 1][..], &[0, 1][..])
        );
        Ok(())
    }
}
