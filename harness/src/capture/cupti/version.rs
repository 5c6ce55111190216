//! Versions of the driver and of CUPTI.

use std::fmt;

/// A CUDA version as the driver counts: 1000 × major + 10 × minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CudaVersion(pub(crate) u32);

impl CudaVersion {
    pub(crate) fn major(self) -> u32 {
        self.0 / 1000
    }
}

/// `12.4`
impl fmt::Display for CudaVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major(), self.0 % 1000 / 10)
    }
}

/// A version as CUPTI counts: up to 28 for CUDA 12.9, then 130000 for 13.0 and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CuptiVersion(pub(crate) u32);

impl CuptiVersion {
    /// The oldest that is used: from CUDA 11.8 on the ids of all memory calls are the same.
    pub(crate) const OLDEST: Self = Self(18);
    /// The oldest whose subscription parameters say whether subscribers may be several.
    pub(super) const SAYS_HOW_MANY: Self = Self(130_200);
    /// The oldest that serves several subscribers.
    pub(super) const SERVES_SEVERAL: Self = Self(130_300);

    /// The toolkit that it came with, where its number does not say so itself. From the list in
    /// `cupti_version.h`.
    fn toolkit(self) -> Option<&'static str> {
        Some(match self.0 {
            0..=12 => "10 or older",
            13 => "11.0",
            14 => "11.1",
            15 => "11.2 to 11.4",
            16 => "11.5",
            17 => "11.6 or 11.7",
            18 => "11.8",
            19 => "12.0 or 12.1",
            20 => "12.2",
            21 => "12.3",
            22 => "12.4",
            23 => "12.5",
            24 | 25 => "12.6",
            26 => "12.8",
            27 | 28 => "12.9",
            _ => return None,
        })
    }
}

/// The toolkit's version: `12.4`, `13.0`.
impl fmt::Display for CuptiVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.toolkit() {
            Some(name) => out.write_str(name),
            None => write!(out, "{}.{}", self.0 / 10_000, self.0 / 100 % 100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CudaVersion, CuptiVersion};

    #[test]
    fn versions_read_as_toolkits_do() {
        assert_eq!(CudaVersion(12_040).to_string(), "12.4");
        assert_eq!(CudaVersion(13_000).to_string(), "13.0");
        assert_eq!(CuptiVersion(18).to_string(), "11.8");
        assert_eq!(CuptiVersion(22).to_string(), "12.4");
        assert_eq!(CuptiVersion(130_301).to_string(), "13.3");
    }

    #[test]
    fn newer_is_greater_across_both_ways_of_counting() {
        assert!(CuptiVersion(28) < CuptiVersion(130_000));
        assert!(CuptiVersion(17) < CuptiVersion::OLDEST);
    }
}
