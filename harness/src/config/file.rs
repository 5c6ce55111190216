//! Finds the configuration file of this program, parses it, and locates errors in it.

mod keys;
mod value;

use std::fs;
use std::path::{Path, PathBuf};

use gpu_leak_check_options::PATTERN_WORDS;
use serde::Deserialize;
use toml::Spanned;
use wildmatch::WildMatch;

use self::value::{Flag, Layer, Rounds, WrittenNumber, WrittenSize, date, list, pattern};
use super::settings::GivenSettings;
use crate::exec_settings::starting_directory;
use crate::files::own_ancestors;
use crate::judge::suppressions::{Date, Pattern, Suppression};
use crate::ledger::Kind;
use crate::options::Options;
use crate::workspace::{self, Workspace};

/// A parsed configuration file.
#[derive(Debug, Default)]
pub(super) struct File {
    /// The name of the file in reports.
    pub(super) shown: String,
    pub(super) run: GivenSettings,
    /// Whether tests without the attribute are checked too.
    pub(super) every_test: bool,
    /// The options in `[check]`.
    check: Option<Options>,
    pub(super) overrides: Vec<Override>,
    /// The entries that apply to every test.
    pub(super) allow: Vec<Suppression>,
}

/// One `[[override]]` table.
#[derive(Debug)]
pub(super) struct Override {
    /// The location of the table, such as `gpu-leak-check.toml:12`.
    pub(super) stands_in: String,
    /// A pattern for the names of the tests to which the table applies.
    pub(super) test: WildMatch,
    options: Options,
}

/// The file as written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenFile {
    run: GivenSettings,
    check: Option<Spanned<WrittenOptions>>,
    #[serde(rename = "override")]
    overrides: Vec<Spanned<WrittenOptions>>,
    allow: Vec<Spanned<Allowed>>,
}

/// The type of an option's value in the file, by the option's kind in the
/// [table](gpu_leak_check_options::options).
macro_rules! written {
    (size) => { WrittenSize };
    (number) => { WrittenNumber<u64> };
    (runs) => { WrittenNumber<u32> };
    (rounds) => { Rounds };
    (layer) => { Layer };
    (flag) => { Flag };
    (switch) => { Flag };
}

macro_rules! define {
    (
        facts { $($(#[$fact_doc:meta])* $fact:ident: $fact_kind:ident = $fact_example:literal,)* }
        process { $($(#[$doc:meta])* $name:ident: $kind:ident = $example:literal,)* }
        $($elsewhere:tt)*
    ) => {
        /// `[check]`, which sets options for every test, or `[[override]]`, which sets options for
        /// the tests whose names match `test`.
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        struct WrittenOptions {
            /// Allowed only in `[[override]]`.
            #[serde(deserialize_with = "pattern")]
            test: Option<WildMatch>,
            /// Whether tests without the attribute are checked too. Allowed only in `[check]`, and
            /// used by the command.
            every_test: Option<Flag>,
            $($fact: Option<written!($fact_kind)>,)*
            $($name: Option<written!($kind)>,)*
        }

        impl WrittenOptions {
            const KEYS: &[&str] = &[
                "test", "every_test", $(stringify!($fact),)* $(stringify!($name),)*
            ];

            fn options(&self) -> Options {
                Options {
                    $($fact: self.$fact.map(|written| written.0),)*
                    $($name: self.$name.map(|written| written.0),)*
                    ..Options::DEFAULT
                }
            }
        }
    };
}
gpu_leak_check_options::options!(define);

/// `[[allow]]`: an entry for resources that may stay.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    at: Option<String>,
    #[serde(rename = "fn")]
    function: Option<String>,
    file: Option<String>,
    lib: Option<String>,
    allocator: Option<String>,
    fingerprint: Option<String>,
    kind: Option<Kind>,
    up_to: Option<WrittenSize>,
    up_to_count: Option<WrittenNumber<u64>>,
    #[serde(default, deserialize_with = "list")]
    tests: Vec<String>,
    #[serde(default)]
    reason: String,
    owner: Option<String>,
    #[serde(default, deserialize_with = "date")]
    until: Option<Date>,
}

impl File {
    /// Reads the file at `path`. Error messages call it `shown`.
    ///
    /// # Errors
    ///
    /// Returns a message of the form `file:line:column: what is wrong`, or one that says why the
    /// file cannot be read.
    pub(super) fn read(path: &Path, shown: &str) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|why| format!("cannot read {shown}: {why}"))?;
        Self::of_text(&text, shown)
    }

    /// Parses the text of a file. Error messages call the file `shown`.
    pub(super) fn of_text(text: &str, shown: &str) -> Result<Self, String> {
        Self::parse(text, shown).map_err(|(at, what)| {
            let (line, column) = place(text, at);
            format!("{shown}:{line}:{column}: {what}")
        })
    }

    /// Parses the text. An error contains the offset in the text to which it refers.
    fn parse(text: &str, shown: &str) -> Result<Self, (usize, String)> {
        if let Some(misplaced) = keys::misplaced(text) {
            return Err(misplaced);
        }
        let written: WrittenFile = toml::from_str(text).map_err(|why| {
            let at = why.span().map_or(0, |span| span.start);
            (at, why.message().replace('\n', ", "))
        })?;
        let checked = |written: &Spanned<WrittenOptions>| {
            let options = written.get_ref().options();
            let checked = options.check();
            checked.map_err(|what| (written.span().start, what.to_owned()))?;
            Ok(options)
        };
        let check = written.check.as_ref();
        let every_test = check.and_then(|check| check.get_ref().every_test);
        let check = check.map(checked).transpose()?;
        let stands_in = |at| format!("{shown}:{}", place(text, at).0);
        let mut overrides = Vec::new();
        for written in written.overrides {
            let (at, options) = (written.span().start, checked(&written)?);
            let test = written.into_inner().test.ok_or_else(|| {
                let what = "an [[override]] needs the tests that it applies to: test = \
                            \"train::*\"";
                (at, what.to_owned())
            })?;
            overrides.push(Override {
                stands_in: stands_in(at),
                test,
                options,
            });
        }
        let mut allow = Vec::new();
        for entry in written.allow {
            let (at, entry) = (entry.span().start, entry.into_inner());
            allow.push(
                entry
                    .suppression(stands_in(at))
                    .map_err(|what| (at, what))?,
            );
        }
        Ok(Self {
            shown: shown.to_owned(),
            run: written.run,
            every_test: every_test.is_some_and(|flag| flag.0),
            check,
            overrides,
            allow,
        })
    }

    /// Returns the options for one test. Each option comes from the first override that sets it or,
    /// if there is none, from `[check]`.
    pub(super) fn options_for(&self, test: &str) -> Options {
        let matching = self.overrides.iter().filter(|it| it.test.matches(test));
        let options = matching.map(|it| it.options).chain(self.check);
        options.fold(Options::DEFAULT, |set, other| set.or(other))
    }
}

impl Allowed {
    /// The keys besides the [words of patterns](PATTERN_WORDS).
    const CONDITIONS: &[&str] = &[
        "kind",
        "up_to",
        "up_to_count",
        "tests",
        "reason",
        "owner",
        "until",
    ];

    fn suppression(self, stands_in: String) -> Result<Suppression, String> {
        let given = [
            &self.at,
            &self.function,
            &self.file,
            &self.lib,
            &self.allocator,
            &self.fingerprint,
        ];
        let given = PATTERN_WORDS.into_iter().zip(given);
        let given: Vec<_> = given
            .filter_map(|(word, text)| Some((word, text.as_deref()?)))
            .collect();
        let [(word, text)] = given[..] else {
            return Err(format!(
                "an [[allow]] needs exactly one of {}",
                PATTERN_WORDS.join(", ")
            ));
        };
        if !gpu_leak_check_options::is_reason(&self.reason) {
            return Err("an [[allow]] needs a `reason` that is not empty".to_owned());
        }
        Ok(Suppression {
            matches: Pattern::new(word, text)?,
            kind: self.kind,
            up_to: self.up_to.map(|bytes| bytes.0),
            up_to_count: self.up_to_count.map(|number| number.0),
            tests: self.tests,
            reason: self.reason,
            owner: self.owner,
            until: self.until,
            stands_in,
        })
    }
}

/// Returns the line and the column of the character at `offset`, both counted from 1.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

/// The name of the file, unless `GPU_LEAK_CHECK_CONFIG` gives another path.
pub(super) const NAME: &str = "gpu-leak-check.toml";

/// Returns the file `chosen` or, if that is `None`, the nearest configuration file, searching from
/// the package's directory up to the directory of its workspace.
///
/// # Errors
///
/// Returns an error if the chosen file does not exist.
pub(super) fn find(
    chosen: Option<&Path>,
    manifest_dir: Option<&str>,
) -> Result<Option<PathBuf>, String> {
    let package = package(manifest_dir);
    let workspace = Workspace::of(&package, Path::new(""));
    match chosen {
        Some(chosen) => choose(chosen, workspace.root()).map(Some),
        None => Ok(nearest(&package, workspace.root())),
    }
}

/// Returns the directory of the package under test. Runners provide it, even for an archive that
/// runs on another machine. Without a runner, it is the directory from which the package was
/// compiled or, if there is none, the directory in which the program was started.
fn package(manifest_dir: Option<&str>) -> PathBuf {
    let built = manifest_dir
        .map(PathBuf::from)
        .filter(|directory| directory.is_dir());
    workspace::manifest_dir()
        .or(built)
        .or_else(starting_directory)
        .unwrap_or_default()
}

/// Resolves a relative path, first against the directory of the workspace and then against the
/// test's own working directory.
fn choose(chosen: &Path, root: &Path) -> Result<PathBuf, String> {
    let candidates = [root.join(chosen), chosen.to_owned()];
    let found = candidates.iter().find(|path| path.is_file());
    found.cloned().ok_or_else(|| {
        format!(
            "GPU_LEAK_CHECK_CONFIG names {}, but there is no such file: a relative path is \
             resolved from {} or from the working directory",
            chosen.display(),
            root.display()
        )
    })
}

/// Returns the nearest configuration file between `package` and `root`. A file in a directory in
/// which other users can create files is ignored, unless they can do so in `package` as well.
pub fn nearest(package: &Path, root: &Path) -> Option<PathBuf> {
    let inside = own_ancestors(package).take_while(|directory| directory.starts_with(root));
    inside
        .map(|directory| directory.join(NAME))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{File, NAME, choose, nearest, place};
    use crate::config::Mode;
    use crate::ledger::Kind;
    use crate::options::OnLeak;

    fn wrong(text: &str) -> String {
        let (at, what) = File::parse(text, "f.toml").unwrap_err();
        let (line, column) = place(text, at);
        format!("{line}:{column}: {what}")
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        let file = File::parse("", "f.toml").unwrap();
        assert_eq!(file.run.mode, None);
        assert_eq!(file.options_for("any").tolerance, None);
    }

    #[test]
    fn the_run_s_settings_are_read() {
        let file = File::parse("[run]\nmode = 'require'\nfirst_use = 'fail'\n", "f.toml").unwrap();
        assert_eq!(file.run.mode, Some(Mode::Require));
        assert_eq!(file.run.first_use, Some(OnLeak::Fail));
    }

    #[test]
    fn the_first_override_that_sets_an_option_takes_precedence() {
        let text = "
            [check]
            tolerance = 1
            confirm = true

            [[override]]
            test = 'train::*'
            tolerance = '2 KiB'

            [[override]]
            test = '*::adam*'
            tolerance = 3
            confirm = false
        ";
        let file = File::parse(text, "f.toml").unwrap();
        let options = |test| {
            let options = file.options_for(test);
            (options.tolerance, options.confirm)
        };
        assert_eq!(options("load"), (Some(1), Some(true)));
        assert_eq!(options("train::sgd"), (Some(2048), Some(true)));
        assert_eq!(options("train::adam_steps"), (Some(2048), Some(false)));
        assert_eq!(options("optim::adam_steps"), (Some(3), Some(false)));
    }

    #[test]
    fn every_mistake_is_reported_with_its_place_and_the_valid_values() {
        let reported = [
            "[run]\nmode = 'on'",
            "[run]\nsettle = 250",
            "[run]\nsettle = '5 min'",
            "[check]\ntolerence = 1",
            "[check]\ntolerance = '1 MB'",
            "[check]\ntolerance = -1",
            "[check]\ntolerance = 1.5",
            "[check]\nconfirm = 'no'",
            "[check]\ntest = 'a'",
            "[[override]]\ntolerance = 1",
            "[[override]]\ntest = ''",
            "[[allow]]\nfn = 'a'",
            "[[allow]]\nreason = 'b'",
            "[[allow]]\nfn = 'a'\nlib = 'b'\nreason = 'c'",
            "[[allow]]\nfn = ''\nreason = 'b'",
            "[[allow]]\nfn = 'a'\nreason = ' '",
            "[[allow]]\nfn = 'a'\nreason = '…'",
            "[[override]]\ntest = 'a'\nevery_test = true",
            "[run]\nstrict = 'yes'",
            "[[allow]]\nfn = 'a'\nreason = 'b'\nkind = 'evnt'",
            "[[allow]]\nfn = 'a'\nreason = 'b'\nuntil = '2026-12-31'",
            "[checks]",
            "[check\n",
            "[run]\nfirst_use = 'ask'",
            "[run]\non_leak = true",
            "[run]\nwithout_gpu = 'fail'",
            "[run]\nsettle = 'soon'",
            "[run]\nheld_by = false",
            "[run]\nrounds = 5",
            "[check]\nmax_allocated = '1 GB'",
            "[check]\nmax_reserved = '64'",
            "[check]\nmax_allocation_count = '3'",
            "[check]\nrounds = 0",
            "[check]\nrounds = 2",
            "[check]\nrounds = '5'",
            "[check]\nwarmup = -1",
            "[check]\ntolerance = 1\ntolerance = 2",
            "[check]\nparallel = true\nisolate = true",
            "[[override]]\ntest = 'a'\nrounds = 5\nconfirm = true",
            "[[override]]\ntest = 'a'\nlayer = ' '",
            "[[allow]]\nfn = 'a'\nreason = 'b'\nup_to = '1 MB'",
            "[[allow]]\nfingerprint = ''\nreason = 'b'",
            "[[allow]]\nat = 'a'\nreason = 'b'\nup_to_count = '2'",
            "[[allow]]\nat = 'a'\nreason = 'b'\ntests = 'c'",
            "[[allow]]\nfn = 'a'\nreason = 'b'\nuntil = 2026-13-01",
            "[check]\nevery_tests = true",
            "[check]\nstrict = true",
            "[check]\nspeed = 1",
            "strict = true",
            "[run]\ntest = 'a'",
            "# ours\n\n[allow]\nfn = 'a'\nreason = 'b'",
            "[override]\ntest = 'a'",
            "[[allow]]\nat = 'a'\nreason = 'b'\ntests = 3",
            "[[allow]]\nat = 'a'\nreason = 'b'\ntests = []",
            "[[allow]]\nat = 'a'\nreason = 'b'\ntests = ['']",
            "# [check] is below\n[check]\nparallel = true\nisolate = true",
            "check = 4",
            "allow = 4",
            "override = [4]",
            "[[run]]\nmode = 'off'",
        ];
        let reported =
            reported.map(|text| format!("{}\n    {}", text.replace('\n', " | "), wrong(text)));
        // A new kind must not change the snapshot.
        let kinds = Kind::ALL.map(|kind| serde_json::to_string(&kind).unwrap().replace('"', "`"));
        let reported = reported.join("\n").replace(&kinds.join(", "), "every kind");
        insta::assert_snapshot!(reported);
    }

    #[test]
    fn the_nearest_file_inside_the_workspace_counts() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("workspace");
        let package = root.join("crates/a");
        fs::create_dir_all(&package).unwrap();
        fs::write(outside.path().join(NAME), "").unwrap();
        assert_eq!(nearest(&package, &root), None, "above the workspace");
        fs::write(root.join(NAME), "").unwrap();
        assert_eq!(nearest(&package, &root), Some(root.join(NAME)));
        fs::write(package.join(NAME), "").unwrap();
        assert_eq!(nearest(&package, &root), Some(package.join(NAME)));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_in_a_directory_writable_by_all_is_ignored() {
        use std::os::unix::fs::PermissionsExt;

        let root = tempfile::tempdir().unwrap();
        let package = root.path().join("a");
        fs::create_dir(&package).unwrap();
        fs::write(root.path().join(NAME), "").unwrap();
        let by_all = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(root.path(), by_all).unwrap();
        assert_eq!(nearest(&package, root.path()), None);
        fs::write(package.join(NAME), "").unwrap();
        assert_eq!(nearest(&package, root.path()), Some(package.join(NAME)));
    }

    #[test]
    fn a_chosen_file_that_does_not_exist_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let missing = choose("ci/gpu.toml".as_ref(), root.path()).unwrap_err();
        assert!(missing.contains("ci/gpu.toml"), "{missing}");
        fs::create_dir(root.path().join("ci")).unwrap();
        fs::write(root.path().join("ci/gpu.toml"), "").unwrap();
        let found = choose("ci/gpu.toml".as_ref(), root.path()).unwrap();
        assert_eq!(found, root.path().join("ci/gpu.toml"));
    }
}
