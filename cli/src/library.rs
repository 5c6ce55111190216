//! The library that goes into unmodified programs: carried in this command as bytes, and put where
//! a driver can load it.

use std::env;
use std::fs::{self, DirBuilder, File, Permissions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::Builder;

use crate::exit::{Failure, Outcome};

/// Empty where no driver would load it: see `build.rs`.
const BYTES: &[u8] = include_bytes!(env!("GPU_LEAK_INJECT_LIBRARY"));

/// What its file's name begins with; a hash of its bytes follows.
const PREFIX: &str = "libgpu_leak_inject-";
/// How long the library of a release that nobody runs stays.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How often its use is noted.
const NOTED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

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
    let mode = owner.permissions().mode();
    // Whoever may write to a folder around it can put another one in its place, unless only owners
    // may rename there.
    let is_replaceable = |around: &Path| {
        let mode = fs::metadata(around).map(|data| data.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o1002 == 0o002)
    };
    if link.uid() != us
        || owner.uid() != us
        || mode & 0o022 != 0
        || folder.ancestors().skip(1).any(is_replaceable)
    {
        return Err(io::Error::other("others can write there"));
    }
    if mode & 0o077 != 0 {
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(BYTES);
    let name = format!("{PREFIX}{:016x}.so", hasher.finish());
    let path = folder.join(&name);
    remove_old(&folder, &name);
    if fs::read(&path).is_ok_and(|present| present == BYTES) {
        keep(&path)?;
        return Ok(path);
    }
    let mut unfinished = Builder::new()
        .prefix(&format!("{name}."))
        .permissions(Permissions::from_mode(0o700))
        .tempfile_in(&folder)?;
    unfinished.write_all(BYTES)?;
    unfinished.persist(&path)?;
    Ok(path)
}

/// Says that it is in use, to the commands of other releases.
fn keep(path: &Path) -> io::Result<()> {
    let age = fs::metadata(path)?.modified()?.elapsed();
    if age.is_ok_and(|age| age > NOTED_EVERY) {
        File::open(path)?.set_modified(SystemTime::now())?;
    }
    Ok(())
}

/// Removes the libraries of other releases, and what a killed command left half written, once
/// nobody has used them for long.
fn remove_old(folder: &Path, name: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|other| {
            other != name && other.starts_with(PREFIX) && other.contains(".so")
        });
        let modified = entry.metadata().and_then(|data| data.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > KEPT) {
            // Err: another command was quicker.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::SystemTime;

    use super::{KEPT, put};

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
    fn what_no_release_has_used_for_a_month_goes_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let ours = put(folder.path()).expect("a library");
        let month_ago = SystemTime::now() - 2 * KEPT;
        let file = |name: &str, modified: SystemTime| {
            let file = File::create(folder.path().join(name)).expect("a file");
            file.set_modified(modified).expect("a time");
        };
        file("libgpu_leak_inject-0123.so", month_ago);
        file("libgpu_leak_inject-4567.so.89", month_ago);
        file("libgpu_leak_inject-89ab.so", SystemTime::now());
        file("somebody-else.so", month_ago);
        File::open(&ours)
            .expect("a file")
            .set_modified(month_ago)
            .expect("a time");
        assert_eq!(put(folder.path()).expect("the same"), ours);
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        left.sort();
        let name = ours.file_name().expect("a name");
        let mut kept = [
            name,
            "libgpu_leak_inject-89ab.so".as_ref(),
            "somebody-else.so".as_ref(),
        ];
        kept.sort();
        assert_eq!(left, kept);
        let used = fs::metadata(&ours)
            .and_then(|data| data.modified())
            .expect("a time");
        assert!(used > month_ago + KEPT, "its use is noted");
    }

    #[test]
    fn a_folder_that_others_can_read_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its owner");
        put(folder.path()).expect("a library");
        let mode = fs::metadata(folder.path())
            .expect("a folder")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
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
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("its owner");
        let why = put(folder.path()).expect_err("others could swap the library");
        assert!(why.to_string().contains("others"), "{why}");
        let why = put(&folder.path().join("ours")).expect_err("others could swap the folder");
        assert!(why.to_string().contains("others"), "{why}");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).expect("its owner");
        put(&folder.path().join("ours")).expect("as in the system's folder for such files");
    }
}
