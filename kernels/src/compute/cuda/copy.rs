//! Launches of `copy.cu`.

use crate::compute::dtype::DType;
use crate::compute::kernels::Operand;
use crate::cuda::{Cuda, Kernel};
use crate::error::Result;

use super::address::{count, start};
use super::launch::Grid;
use super::strided::Strided;

impl Cuda {
    pub(super) fn launch_copy(
        &self,
        dtype: DType,
        from: Operand<'_>,
        to: Operand<'_>,
    ) -> Result<()> {
        let (source, target, count) = (start(from, dtype), start(to, dtype), count(to));
        if from.layout.is_contiguous() && to.layout.is_contiguous() {
            return self.copy_on_device(source, target, to.layout.count() * dtype.bytes());
        }
        let kernel = match dtype {
            DType::F32 => Kernel::Copy4,
            DType::I64 => Kernel::Copy8,
        };
        let layout = Strided::of(&from.layout, &to.layout);
        self.launch(
            kernel,
            Grid::over(count),
            [
                (&source).into(),
                (&target).into(),
                (&layout).into(),
                (&count).into(),
            ],
        )
    }
}
