//! Files and directories that other users of the machine can also reach.

use std::fs::OpenOptions;
use std::path::Path;

/// Returns options for opening a file without following a symbolic link. In a directory to which
/// others can write, a link could point to any file.
pub(crate) fn through_no_link() -> OpenOptions {
    #[cfg_attr(
        not(unix),
        expect(unused_mut, reason = "the option exists only on Unix")
    )]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW);
    options
}

/// Returns `directory` and its ancestors, up to but not including the first one in which users
/// other than the owner and the system can create files. A file in `/tmp` may belong to anyone,
/// even if the user works in a directory inside `/tmp`.
pub(crate) fn own_ancestors(directory: &Path) -> impl Iterator<Item = &Path> {
    let innermost = Access::of(directory);
    let mut around = directory.ancestors();
    around.next().into_iter().chain(
        around
            .take_while(move |outer| Access::of(outer).is_none_or(|it| it.is_no_wider(innermost))),
    )
}

/// Who can create files in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    owner: u32,
    /// Whether every user can create files in it.
    by_all: bool,
}

impl Access {
    /// Returns the access to `directory`; `None` if the directory does not exist or the file system
    /// has no owners of this kind.
    #[cfg(unix)]
    fn of(directory: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;

        let metadata = directory.metadata().ok()?;
        Some(Self {
            owner: metadata.uid(),
            by_all: metadata.mode() & 0o002 != 0,
        })
    }

    #[cfg(not(unix))]
    fn of(_directory: &Path) -> Option<Self> {
        None
    }

    /// Whether every user who can write to this directory, other than the system, can also write to
    /// the directory `inside`.
    fn is_no_wider(self, inside: Option<Self>) -> bool {
        const SYSTEM: u32 = 0;

        let (owner, by_all) = inside.map_or((SYSTEM, false), |it| (it.owner, it.by_all));
        by_all || (!self.by_all && (self.owner == owner || self.owner == SYSTEM))
    }
}

#[cfg(test)]
mod tests {
    use super::Access;

    #[test]
    fn a_directory_that_more_users_may_write_to_is_not_trusted() {
        let access = |owner, by_all| Access { owner, by_all };
        let package = Some(access(1000, false));
        for (outer, trusted) in [
            (access(1000, false), true),
            (access(0, false), true),
            (access(1001, false), false),
            // These are the permissions of `/tmp`.
            (access(0, true), false),
        ] {
            assert_eq!(outer.is_no_wider(package), trusted, "{outer:?}");
        }
        // Everything in a file system that is mounted from another machine may look like this,
        // including the package's own directory.
        assert!(access(0, true).is_no_wider(Some(access(0, true))));
        assert!(!access(1000, false).is_no_wider(None), "unknown owner");
    }
}
