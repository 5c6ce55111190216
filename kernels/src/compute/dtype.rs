//! The types of a tensor's elements.

use std::fmt;

use bytemuck::Pod;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit floating point: all arithmetic and all gradients.
    F32,
    /// 64-bit integers: labels and indices.
    I64,
}

impl DType {
    /// The size of one element in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::I64 => 8,
        }
    }
}

/// The name of the type: `f32` or `i64`.
impl fmt::Display for DType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::F32 => "f32",
            Self::I64 => "i64",
        })
    }
}

/// A Rust type that tensors can hold: `f32` or `i64`.
pub trait Element: Pod + Send + Sync + PartialEq + sealed::Sealed {
    /// The [`DType`] of this type.
    const DTYPE: DType;
}

impl Element for f32 {
    const DTYPE: DType = DType::F32;
}

impl Element for i64 {
    const DTYPE: DType = DType::I64;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i64 {}
}
