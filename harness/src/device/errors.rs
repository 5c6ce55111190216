//! Names of the driver's results.

use super::driver;
use super::quiet::quiet;
use crate::ledger::event::CuResult;

/// The name that the driver gives an error: `CUDA_ERROR_OUT_OF_MEMORY`, or `CUresult 2` where no
/// driver can be asked.
pub(crate) fn error_name(error: CuResult) -> String {
    let _quiet = quiet();
    driver::get()
        .and_then(|driver| driver.error_name(error))
        .map_or_else(|| format!("CUresult {error}"), str::to_owned)
}
