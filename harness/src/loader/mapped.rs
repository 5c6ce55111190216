//! Maps a file into memory, so that only the parts that are accessed are read.

#![expect(unsafe_code, reason = "calls C functions of the operating system")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;

/// Returns the bytes of the file at `path`, which stay mapped for the life of the process; `None`
/// if the file cannot be read or is empty.
pub(crate) fn file(path: &Path) -> Option<&'static [u8]> {
    let file = File::open(path).ok()?;
    let length = usize::try_from(file.metadata().ok()?.len()).ok()?;
    // SAFETY: this is a new mapping that replaces no other.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: these are `length` readable bytes that are never unmapped. They do not change unless
    // somebody writes to the file. The file is a program, a library or its debug information, and
    // linkers replace such files instead of writing to them. std's own panic handler also relies on
    // this.
    Some(unsafe { std::slice::from_raw_parts(start.cast(), length) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::file;

    #[test]
    fn the_whole_file_is_mapped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        assert_eq!(file(&path), None, "not there");
        fs::write(&path, "").unwrap();
        assert_eq!(file(&path), None, "empty");
        let text = "0123456789".repeat(1000);
        fs::write(&path, &text).unwrap();
        assert_eq!(file(&path), Some(text.as_bytes()));
        assert_eq!(file(directory.path()), None, "a directory");
    }
}
