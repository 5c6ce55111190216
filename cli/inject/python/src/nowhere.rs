//! Where no interpreter can be read.

use crate::{Unsupported, Version};

pub(crate) fn install() -> Result<Option<Version>, Unsupported> {
    Ok(None)
}
