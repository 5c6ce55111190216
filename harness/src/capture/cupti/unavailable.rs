//! Why there is no tracer, and what to do about it.

use std::fmt;
use std::path::PathBuf;

use super::version::{CudaVersion, CuptiVersion};
use crate::code::Code;

/// Why the driver's calls cannot be watched in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// There is no CUDA driver, or it finds no device.
    NoDriver {
        /// What the loader or the driver says.
        why: String,
    },
    /// There is a driver, but no CUPTI.
    NoCupti {
        /// The folders searched.
        looked_in: Vec<PathBuf>,
    },
    /// The CUPTI found is too old for this harness.
    TooOld {
        /// The best fit found.
        path: PathBuf,
        /// Its version.
        version: CuptiVersion,
    },
    /// The driver is too old for the CUPTI found.
    DriverTooOld {
        /// The best fit found.
        path: PathBuf,
        /// What the driver supports.
        driver: CudaVersion,
    },
    /// Another tool holds the one subscription that a process can have.
    Taken {
        /// Its name, where CUPTI tells.
        by: Option<String>,
    },
    /// `GPU_LEAK_CHECK_CUPTI` names no usable CUPTI.
    BadOverride {
        /// Its value.
        value: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A call to CUPTI failed.
    Failed {
        /// The function.
        call: &'static str,
        /// Its `CUptiResult`.
        code: u32,
        /// CUPTI's name for that.
        text: String,
    },
}

impl Unavailable {
    /// A word for it that stays the same.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::NoDriver { .. } => Code::NoGpu,
            Self::NoCupti { .. } => Code::NoCupti,
            Self::TooOld { .. } | Self::DriverTooOld { .. } => Code::CuptiTooOld,
            Self::Taken { .. } => Code::TracerTaken,
            Self::BadOverride { .. } => Code::CuptiOverride,
            Self::Failed { .. } => Code::CuptiFailed,
        }
    }

    /// Whether another copy of CUPTI may do better.
    pub(super) fn is_this_copy_s_fault(&self) -> bool {
        matches!(
            self,
            Self::TooOld { .. } | Self::DriverTooOld { .. } | Self::Failed { .. }
        )
    }

    /// What is the matter.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::NoDriver { why } => format!("no CUDA device can be used here ({why})"),
            Self::NoCupti { looked_in } => {
                let folders: Vec<_> = looked_in
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                let folders = if folders.is_empty() {
                    "the loader's own folders".to_owned()
                } else {
                    format!("{} and the loader's own folders", folders.join(", "))
                };
                format!("libcupti, which watches the driver's calls, is not in {folders}")
            }
            Self::TooOld { path, version } => format!(
                "{} is of CUDA {version}, and calls of CUDA {} and later must be watched",
                path.display(),
                CuptiVersion::OLDEST,
            ),
            Self::DriverTooOld { path, driver } => format!(
                "{} needs a newer driver than the one installed, which supports CUDA {driver}",
                path.display(),
            ),
            Self::Taken { by: Some(by) } => format!("{by} already watches the driver's calls"),
            Self::Taken { by: None } => {
                "another profiler or checker already watches the driver's calls".to_owned()
            }
            Self::BadOverride { value, why } => {
                format!("GPU_LEAK_CHECK_CUPTI={}: {why}", value.display())
            }
            Self::Failed { call, code, text } => format!("{call} failed: {text} ({code})"),
        }
    }

    /// What to do about it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::NoDriver { .. } => {
                "run on a machine with an NVIDIA driver and a visible device, or set \
                 GPU_LEAK_CHECK=off"
            }
            Self::NoCupti { .. } => {
                "install the toolkit's package cuda-cupti, or run `pip install nvidia-cuda-cupti` \
                 (nvidia-cuda-cupti-cu12 for a CUDA 12 driver), or set GPU_LEAK_CHECK_CUPTI to \
                 libcupti.so or its folder"
            }
            Self::TooOld { .. } => {
                "install a newer CUPTI (`pip install nvidia-cuda-cupti-cu12`) and set \
                 GPU_LEAK_CHECK_CUPTI to it"
            }
            Self::DriverTooOld { .. } => {
                "install the CUPTI of the driver's CUDA version (`pip install \
                 nvidia-cuda-cupti-cu12` for CUDA 12) and set GPU_LEAK_CHECK_CUPTI to it, or \
                 install a newer driver"
            }
            Self::Taken { .. } => {
                "run the tests without nsys, ncu, cuda-gdb, compute-sanitizer or another profiler: \
                 CUPTI serves one of them at a time"
            }
            Self::BadOverride { .. } => {
                "set GPU_LEAK_CHECK_CUPTI to libcupti.so or to the folder that has it, or unset it"
            }
            Self::Failed { .. } => {
                "try another version of CUPTI through GPU_LEAK_CHECK_CUPTI, or set \
                 GPU_LEAK_CHECK=off"
            }
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what())
    }
}

impl std::error::Error for Unavailable {}
