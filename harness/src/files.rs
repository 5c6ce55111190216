//! Files and folders that other users of the machine may reach too.

use std::fs::OpenOptions;

/// Opens no link: in a folder that others may write to, it could lead to any file.
pub(crate) fn through_no_link() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "there is no such option"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW);
    options
}
