//! The libraries that go into unmodified programs: carried in this command as bytes, and put where
//! their loaders find them.
//!
//! What is preloaded reaches all that a program starts. So its path has a word that each loader
//! replaces by the name of its own folder of libraries, `$LIB`: programs of 64 bits find the library in it,
//! those of 32 bits an empty one, and those of another C library, which know no such word, find nothing and
//! say nothing.

mod narrow;

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

use crate::exit::{Failure, Outcome};

/// Empty where no loader would load them: see `build.rs`.
const HARNESS: &[u8] = include_bytes!(env!("GPU_LEAK_INJECT_LIBRARY"));
const PRELOADED: &[u8] = include_bytes!(env!("GPU_LEAK_PRELOAD_LIBRARY"));

/// What the name of their folder begins with; a hash of their bytes follows.
const PREFIX: &str = "libraries-";
/// How long the libraries of a release that nobody runs stay.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How often their use is noted.
const NOTED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// By which the loader is told what to load into a program.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";
const PRELOADED_NAME: &str = "libgpu_leak_preload.so";
const HARNESS_NAME: &str = "libgpu_leak_inject.so";
/// The folders of 32-bit libraries of Debian, of those with `lib64`, and of those with `lib` for 64 bits.
const NARROW: [&str; 3] = ["lib/i386-linux-gnu", "lib", "lib32"];

/// What is to be preloaded, which is on this machine then, for this user alone.
pub(crate) fn path() -> Outcome<PathBuf> {
    if HARNESS.is_empty() {
        return Err(Failure::unmeasured(
            "programs are watched from outside on Linux only",
        ));
    }
    let folder = folder();
    let (own, folder) = loader_s_folder()
        .and_then(|own| Ok((own.clone(), put(&folder, &own)?)))
        .map_err(|why| {
            Failure::usage(format!(
                "the library that watches the program cannot be put into {}: {why}; set XDG_CACHE_HOME \
                 to a folder of your own",
                folder.display()
            ))
        })?;
    let for_all = folder.join("$LIB").join(PRELOADED_NAME);
    Ok(match is_loaded(&for_all) {
        true => for_all,
        // This system's loader has another name for its folder; of a library that is named outright, those
        // of other programs complain.
        false => folder.join(own).join(PRELOADED_NAME),
    })
}

/// What `$LIB` should be to the loader of this very program: by the folder that its C library is in.
fn loader_s_folder() -> io::Result<PathBuf> {
    let mapped = fs::read_to_string("/proc/self/maps")?;
    let files = mapped.lines().filter_map(|line| line.split_once('/'));
    let mut folders = files.filter_map(|(_, path)| path.strip_suffix("/libc.so.6"));
    let folder = Path::new(folders.next().unwrap_or("lib64"));
    let name = folder.file_name().unwrap_or_default();
    Ok(match name.to_string_lossy().ends_with("-linux-gnu") {
        true => Path::new("lib").join(name),
        false => PathBuf::from(name),
    })
}

/// Whether a program loads it, in whose path there is a word for the loader to replace.
fn is_loaded(path: &Path) -> bool {
    static IS_LOADED: OnceLock<bool> = OnceLock::new();
    *IS_LOADED.get_or_init(|| {
        let this = env::current_exe().unwrap_or_default();
        let tried = Command::new(this)
            .arg("--version")
            .env(PRELOAD, path)
            .output();
        // Whatever it cannot load, the loader says.
        tried.is_ok_and(|tried| tried.status.success() && tried.stderr.is_empty())
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

/// Puts them into a folder in `folder`, whole at once: other commands may be doing the same.
fn put(folder: &Path, own: &Path) -> io::Result<PathBuf> {
    let create = |folder: &Path| DirBuilder::new().recursive(true).mode(0o700).create(folder);
    create(folder)?;
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
    hasher.write(HARNESS);
    hasher.write(PRELOADED);
    let name = format!("{PREFIX}{:016x}", hasher.finish());
    remove_old(&folder, &name);
    let folder = folder.join(name);
    for narrow in NARROW.iter().filter(|narrow| Path::new(narrow) != own) {
        create(&folder.join(narrow))?;
        put_file(
            &folder.join(narrow).join(PRELOADED_NAME),
            &narrow::library(),
        )?;
    }
    create(&folder.join(own))?;
    put_file(&folder.join(own).join(HARNESS_NAME), HARNESS)?;
    put_file(&folder.join(own).join(PRELOADED_NAME), PRELOADED)?;
    keep(&folder)?;
    Ok(folder)
}

fn put_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
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

/// Says that they are in use, to the commands of other releases.
fn keep(folder: &Path) -> io::Result<()> {
    let age = fs::metadata(folder)?.modified()?.elapsed();
    if age.is_ok_and(|age| age > NOTED_EVERY) {
        File::open(folder)?.set_modified(SystemTime::now())?;
    }
    Ok(())
}

/// Removes the libraries of other releases once nobody has used them for long.
fn remove_old(folder: &Path, name: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let other = file_name.to_str().filter(|other| *other != name);
        let is_ours = other.is_some_and(|other| other.starts_with(PREFIX));
        let modified = entry.metadata().and_then(|data| data.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > KEPT) {
            // Err: another command was quicker.
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

    use super::{HARNESS, HARNESS_NAME, KEPT, PRELOADED_NAME, narrow};

    /// The folder of programs with 64 bits.
    const OWN: &str = "lib64";

    fn put(folder: &Path) -> io::Result<PathBuf> {
        super::put(folder, Path::new(OWN))
    }

    fn harness(folder: &Path) -> PathBuf {
        folder.join(OWN).join(HARNESS_NAME)
    }

    #[test]
    fn what_is_there_already_stays_and_what_is_damaged_is_mended() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("a/b");
        let path = harness(&put(&folder).expect("libraries"));
        let modified = || {
            let data = fs::metadata(&path).expect("a file");
            data.modified().expect("a time")
        };
        let first = modified();
        assert_eq!(harness(&put(&folder).expect("the same")), path);
        assert_eq!(first, modified());
        fs::write(&path, b"cut off").expect("writable");
        put(&folder).expect("mended");
        assert_eq!(fs::read(&path).expect("a file"), HARNESS);
        let files = fs::read_dir(path.parent().expect("a folder"));
        assert_eq!(files.expect("a folder").count(), 2);
    }

    #[test]
    fn programs_of_32_bits_find_an_empty_library_wherever_they_look() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = put(folder.path()).expect("libraries");
        for narrow in ["lib/i386-linux-gnu", "lib", "lib32"] {
            let file = folder.join(narrow).join(PRELOADED_NAME);
            assert_eq!(fs::read(file).expect("a library"), narrow::library());
        }
        assert!(!folder.join("lib").join(HARNESS_NAME).exists());
    }

    #[test]
    fn what_no_release_has_used_for_a_month_goes_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let ours = put(folder.path()).expect("libraries");
        let month_ago = SystemTime::now() - 2 * KEPT;
        let make = |name: &str, modified: SystemTime| {
            let path = folder.path().join(name);
            fs::create_dir(&path).expect("a folder");
            fs::write(path.join("a"), "library").expect("a file");
            let made = File::open(path).expect("a folder");
            made.set_modified(modified).expect("a time");
        };
        make("libraries-0123", month_ago);
        make("libraries-89ab", SystemTime::now());
        make("somebody-else", month_ago);
        let used = File::open(&ours).expect("a folder");
        used.set_modified(month_ago).expect("a time");
        assert_eq!(put(folder.path()).expect("the same"), ours);
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .expect("a folder")
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
