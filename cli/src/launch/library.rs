//! The libraries that are loaded into unmodified programs. The command contains them as bytes and
//! writes them to a directory where the programs' loaders find them.
//!
//! All child processes preload the library too. So its path contains `$LIB`, which each loader
//! replaces with the name of its own library directory: 64-bit programs find the library there, and
//! 32-bit programs find an empty one. The loaders of other C libraries do not know `$LIB`; they
//! find nothing and print nothing.

use std::env;
use std::fs::{self, DirBuilder, File, Permissions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use tempfile::Builder;

use super::{PRELOAD, empty_library, not_supported};
use crate::exit::{ExitResult, Failure};

/// Both libraries are empty on systems where they cannot be preloaded: see `build.rs`.
const HARNESS: &[u8] = include_bytes!(env!("GPU_LEAK_INJECT_LIBRARY"));
const PRELOADED: &[u8] = include_bytes!(env!("GPU_LEAK_PRELOAD_LIBRARY"));

/// The beginning of the name of the libraries' directory. A hash of the libraries' bytes follows.
const PREFIX: &str = "libraries-";
/// How long the libraries of other releases are kept after their last use.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How often the time of the libraries' last use is updated.
const UPDATE_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

const PRELOADED_NAME: &str = "libgpu_leak_preload.so";
const HARNESS_NAME: &str = "libgpu_leak_inject.so";
/// The directories of 32-bit libraries: on Debian, on systems with `lib64`, and on systems where
/// `lib` is for 64-bit libraries.
const DIRECTORIES_OF_32_BITS: [&str; 3] = ["lib/i386-linux-gnu", "lib", "lib32"];

/// Writes both libraries to a directory of this user, and returns the path of the one to preload.
pub(super) fn path() -> ExitResult<PathBuf> {
    if HARNESS.is_empty() {
        return Err(not_supported());
    }
    let directory = directory();
    let (own, directory) = lib_of_this_loader()
        .and_then(|own| Ok((own.clone(), write_to(&directory, &own)?)))
        .map_err(|why| {
            Failure::usage(format!(
                "cannot write the library that watches the program to {}: {why}; set \
                 XDG_CACHE_HOME to a writable directory",
                directory.display()
            ))
        })?;
    let for_all = directory.join("$LIB").join(PRELOADED_NAME);
    Ok(match is_loaded(&for_all) {
        true => for_all,
        // The loader of this system replaces `$LIB` with another name. Without `$LIB`, the loaders
        // of 32-bit programs print a warning.
        false => directory.join(own).join(PRELOADED_NAME),
    })
}

/// Returns the value of `$LIB` for the loader of this program, derived from the directory of its C
/// library.
fn lib_of_this_loader() -> io::Result<PathBuf> {
    let mapped = fs::read_to_string("/proc/self/maps")?;
    let files = mapped.lines().filter_map(|line| line.split_once('/'));
    let mut directories = files.filter_map(|(_, path)| path.strip_suffix("/libc.so.6"));
    let directory = Path::new(directories.next().unwrap_or("lib64"));
    let name = directory.file_name().unwrap_or_default();
    Ok(match name.to_string_lossy().ends_with("-linux-gnu") {
        true => Path::new("lib").join(name),
        false => PathBuf::from(name),
    })
}

/// Whether a library whose path contains `$LIB` can be preloaded.
fn is_loaded(path: &Path) -> bool {
    static IS_LOADED: OnceLock<bool> = OnceLock::new();
    *IS_LOADED.get_or_init(|| {
        let this = env::current_exe().unwrap_or_default();
        let tried = Command::new(this)
            .arg("--version")
            .env(PRELOAD, path)
            .output();
        // The loader prints an error for a library that it cannot preload.
        tried.is_ok_and(|tried| tried.status.success() && tried.stderr.is_empty())
    })
}

fn directory() -> PathBuf {
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

/// Writes the libraries to a directory in `directory`; `own` is the value of `$LIB` for 64-bit
/// programs. Each file is replaced atomically, since other commands may be writing the same files.
fn write_to(directory: &Path, own: &Path) -> io::Result<PathBuf> {
    let create = |directory: &Path| {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
    };
    create(directory)?;
    let us = rustix::process::getuid().as_raw();
    // The owner of a link can redirect it after this check, and programs would load the new target.
    // So a link must belong to this user, and the path that is returned contains no links.
    let link = fs::symlink_metadata(directory)?;
    let directory = directory.canonicalize()?;
    let owner = fs::metadata(&directory)?;
    let mode = owner.permissions().mode();
    // Users who can write to a parent directory can replace this one, unless the sticky bit is set.
    let is_replaceable = |parent: &Path| {
        let mode = fs::metadata(parent).map(|data| data.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o1002 == 0o002)
    };
    if link.uid() != us
        || owner.uid() != us
        || mode & 0o022 != 0
        || directory.ancestors().skip(1).any(is_replaceable)
    {
        return Err(io::Error::other("other users can write to it"));
    }
    if mode & 0o077 != 0 {
        fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(HARNESS);
    hasher.write(PRELOADED);
    let name = format!("{PREFIX}{:016x}", hasher.finish());
    remove_old(&directory, &name);
    let directory = directory.join(name);
    let others = DIRECTORIES_OF_32_BITS.map(Path::new);
    for other in others.into_iter().filter(|other| *other != own) {
        create(&directory.join(other))?;
        write_file(
            &directory.join(other).join(PRELOADED_NAME),
            &empty_library::bytes(),
        )?;
    }
    create(&directory.join(own))?;
    write_file(&directory.join(own).join(HARNESS_NAME), HARNESS)?;
    write_file(&directory.join(own).join(PRELOADED_NAME), PRELOADED)?;
    update_last_use(&directory)?;
    Ok(directory)
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let mut unfinished = Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempfile_in(path.parent().unwrap_or(path))?;
    unfinished.write_all(bytes)?;
    unfinished.persist(path)?;
    Ok(())
}

/// Updates the modification time, which commands of other releases read as the time of the last
/// use.
fn update_last_use(directory: &Path) -> io::Result<()> {
    let age = fs::metadata(directory)?.modified()?.elapsed();
    if age.is_ok_and(|age| age > UPDATE_INTERVAL) {
        File::open(directory)?.set_modified(SystemTime::now())?;
    }
    Ok(())
}

/// Removes the libraries of other releases that have not been used for a long time.
fn remove_old(directory: &Path, name: &str) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let other = file_name.to_str().filter(|other| *other != name);
        let is_ours = other.is_some_and(|other| other.starts_with(PREFIX));
        let modified = entry.metadata().and_then(|data| data.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > KEPT) {
            // An error means that another command has removed it first.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::io;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::{Path, PathBuf};
    use std::time::SystemTime;

    use super::{HARNESS, HARNESS_NAME, KEPT, PRELOADED_NAME, empty_library};

    /// The directory of 64-bit libraries.
    const OWN: &str = "lib64";

    fn write_to(directory: &Path) -> io::Result<PathBuf> {
        super::write_to(directory, Path::new(OWN))
    }

    fn harness(directory: &Path) -> PathBuf {
        directory.join(OWN).join(HARNESS_NAME)
    }

    #[test]
    fn intact_libraries_stay_and_damaged_ones_are_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path().join("a/b");
        let path = harness(&write_to(&directory).expect("libraries"));
        let modified = || {
            let data = fs::metadata(&path).expect("a file");
            data.modified().expect("a time")
        };
        let first = modified();
        assert_eq!(harness(&write_to(&directory).expect("the same")), path);
        assert_eq!(first, modified());
        fs::write(&path, b"cut off").expect("writable");
        write_to(&directory).expect("replaced");
        assert_eq!(fs::read(&path).expect("a file"), HARNESS);
        let files = fs::read_dir(path.parent().expect("a directory"));
        assert_eq!(files.expect("a directory").count(), 2);
    }

    #[test]
    fn programs_with_32_bits_find_an_empty_library() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = write_to(directory.path()).expect("libraries");
        for narrow in ["lib/i386-linux-gnu", "lib", "lib32"] {
            let file = directory.join(narrow).join(PRELOADED_NAME);
            assert_eq!(fs::read(file).expect("a library"), empty_library::bytes());
        }
        assert!(!directory.join("lib").join(HARNESS_NAME).exists());
    }

    #[test]
    fn libraries_that_were_not_used_for_a_month_are_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let ours = write_to(directory.path()).expect("libraries");
        let month_ago = SystemTime::now() - 2 * KEPT;
        let make = |name: &str, modified: SystemTime| {
            let path = directory.path().join(name);
            fs::create_dir(&path).expect("a directory");
            fs::write(path.join("a"), "library").expect("a file");
            let made = File::open(path).expect("a directory");
            made.set_modified(modified).expect("a time");
        };
        make("libraries-0123", month_ago);
        make("libraries-89ab", SystemTime::now());
        make("somebody-else", month_ago);
        let used = File::open(&ours).expect("a directory");
        used.set_modified(month_ago).expect("a time");
        assert_eq!(write_to(directory.path()).expect("the same"), ours);
        let mut left: Vec<_> = fs::read_dir(directory.path())
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        left.sort();
        let name = ours.file_name().expect("a name");
        let mut kept = [name, "libraries-89ab".as_ref(), "somebody-else".as_ref()];
        kept.sort();
        assert_eq!(left, kept);
        let used = fs::metadata(&ours)
            .and_then(|data| data.modified())
            .expect("a time");
        assert!(used > month_ago + KEPT, "its last use is updated");
    }

    #[test]
    fn a_directory_that_others_can_read_is_made_private() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("its owner");
        write_to(directory.path()).expect("a library");
        let mode = fs::metadata(directory.path())
            .expect("a directory")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn the_path_does_not_contain_a_link_that_could_be_redirected() {
        let all = tempfile::tempdir().expect("a directory");
        let (ours, link) = (all.path().join("ours"), all.path().join("link"));
        write_to(&ours).expect("a library");
        symlink(&ours, &link).expect("a link");
        let path = write_to(&link).expect("the same");
        let ours = ours.canonicalize().expect("a directory");
        assert_eq!(path.parent(), Some(&*ours));
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("its owner");
        let why = write_to(directory.path()).expect_err("others could swap the library");
        assert!(why.to_string().contains("other users"), "{why}");
        let why =
            write_to(&directory.path().join("ours")).expect_err("others could swap the directory");
        assert!(why.to_string().contains("other users"), "{why}");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).expect("its owner");
        write_to(&directory.path().join("ours")).expect("the sticky bit is set, as in /tmp");
    }
}
