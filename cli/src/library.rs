//! The library that goes into unmodified programs: carried in this command as bytes, and put where
//! a driver can load it.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;

use crate::exit::{Failure, Outcome};

/// Empty where no driver would load it: see `build.rs`.
const BYTES: &[u8] = include_bytes!(env!("GPU_LEAK_INJECT_LIBRARY"));

/// Where it lies on this machine, for this user alone.
pub(crate) fn path() -> Outcome<PathBuf> {
    if BYTES.is_empty() {
        return Err(Failure::unmeasured(
            "programs are watched from outside on Linux only",
        ));
    }
    let folder = folder();
    put(&folder).map_err(|why| {
        Failure::usage(format!(
            "the library that watches the program cannot be put into {}: {why}; set XDG_CACHE_HOME \
             to a folder of your own",
            folder.display()
        ))
    })
}

fn folder() -> PathBuf {
    let absolute = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    match cache {
        Some(cache) => cache.join("cargo-gpu-leak"),
        None => {
            let user = rustix::process::getuid().as_raw();
            env::temp_dir().join(format!("cargo-gpu-leak-{user}"))
        }
    }
}

/// Puts it into `folder`, whole at once: other commands may be doing the same.
fn put(folder: &Path) -> io::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let us = rustix::process::getuid().as_raw();
    // Whose link it is can lead it elsewhere after this look at it, and a driver loads what it finds
    // there: so not through one of others, and not through one at all when it is looked for.
    let link = fs::symlink_metadata(folder)?;
    let folder = folder.canonicalize()?;
    let owner = fs::metadata(&folder)?;
    if link.uid() != us || owner.uid() != us || owner.permissions().mode() & 0o022 != 0 {
        return Err(io::Error::other("others can write there"));
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(BYTES);
    let name = format!("libgpu_leak_inject-{:016x}.so", hasher.finish());
    let path = folder.join(&name);
    if fs::read(&path).is_ok_and(|present| present == BYTES) {
        return Ok(path);
    }
    // Of all who share the folder, containers too, whose processes have the same numbers.
    let any = RandomState::new().hash_one(process::id());
    let unfinished = folder.join(format!("{name}.{any:016x}"));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(&unfinished)?;
    file.write_all(BYTES)?;
    fs::rename(&unfinished, &path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::put;

    #[test]
    fn what_is_there_already_stays_and_what_is_damaged_is_mended() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("a/b");
        let path = put(&folder).expect("a library");
        let first = fs::metadata(&path)
            .expect("a file")
            .modified()
            .expect("a time");
        assert_eq!(put(&folder).expect("the same"), path);
        let second = fs::metadata(&path)
            .expect("a file")
            .modified()
            .expect("a time");
        assert_eq!(first, second);
        fs::write(&path, b"cut off").expect("writable");
        assert_eq!(
            fs::read(put(&folder).expect("mended")).expect("a file"),
            super::BYTES
        );
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
    }

    #[test]
    fn a_link_that_is_turned_elsewhere_later_turns_nothing() {
        let all = tempfile::tempdir().expect("a folder");
        let (ours, link) = (all.path().join("ours"), all.path().join("link"));
        put(&ours).expect("a library");
        symlink(&ours, &link).expect("a link");
        let path = put(&link).expect("the same");
        let ours = ours.canonicalize().expect("a folder");
        assert_eq!(path.parent(), Some(&*ours));
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("its owner");
        let why = put(folder.path()).expect_err("others could swap the library");
        assert!(why.to_string().contains("others"), "{why}");
    }
}
