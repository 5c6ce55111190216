//! What the arguments that are passed through to cargo mean for the judgement of the run.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use toml_edit::{DocumentMut, Item};

use crate::workspace::Workspace;

/// Options that do not select a part of the suite: they change how the suite is built, run or
/// shown, or they add tests.
const HARMLESS: [&str; 21] = [
    "--",
    "-q",
    "-v",
    "-vv",
    "--include-ignored",
    "--ignore-default-filter",
    "--workspace",
    "--all",
    "--all-targets",
    "--tests",
    "--all-features",
    "--release",
    "--no-fail-fast",
    "--locked",
    "--offline",
    "--frozen",
    "--quiet",
    "--verbose",
    "--nocapture",
    "--no-capture",
    "--show-output",
];
/// Harmless options that take a value. The value may be the next argument.
const WITH_VALUE: [&str; 13] = [
    "--features",
    "--profile",
    "-P",
    "--retries",
    "--target",
    "--target-dir",
    "--manifest-path",
    "--color",
    "--jobs",
    "--test-threads",
    "-F",
    "-j",
    "--config",
];

/// Options that take a value and select what runs.
const NAMING: [&str; 4] = ["--bin", "--example", "--package", "-p"];

/// The arguments of one of cargo's subcommands.
pub(super) struct CargoArguments<'a> {
    pub(super) subcommand: &'a str,
    pub(super) args: &'a [OsString],
}

impl CargoArguments<'_> {
    pub(super) fn has(&self, arg: &str) -> bool {
        self.args.iter().any(|it| it == arg)
    }

    /// Returns the arguments as text. An argument that is not valid UTF-8 becomes an empty string.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let args = self.args.iter();
        args.map(|arg| arg.to_str().unwrap_or_default())
    }

    /// Returns cargo's own arguments. With `run`, the program's arguments begin with the first word
    /// that is neither an option nor the value of one.
    fn cargos(&self) -> impl Iterator<Item = &str> {
        let is_run = self.subcommand == "run";
        let mut is_value = false;
        self.texts().take_while(move |word| {
            let is_end = *word == "--" || (is_run && !is_value && !word.starts_with('-'));
            is_value = WITH_VALUE.contains(word) || NAMING.contains(word);
            !is_end
        })
    }

    /// Returns the value of `--manifest-path`.
    pub(super) fn manifest(&self) -> Option<&Path> {
        let mut args = self.cargos();
        while let Some(arg) = args.next() {
            let value = match arg {
                "--manifest-path" => args.next(),
                _ => arg.strip_prefix("--manifest-path="),
            };
            if let Some(value) = value.filter(|it| !it.is_empty()) {
                return Some(Path::new(value));
            }
        }
        None
    }

    /// Returns the position of nextest's own subcommand, such as `run`: of the first word that is
    /// neither an option nor the value of one.
    fn verb(&self) -> Option<usize> {
        let mut is_value = false;
        let is_verb = |word: &str| {
            let is_verb = !is_value && !word.starts_with('-');
            is_value = WITH_VALUE.contains(&word);
            is_verb
        };
        self.texts()
            .position(is_verb)
            .filter(|_| self.subcommand == "nextest")
    }

    /// Whether cargo only compiles or lists tests, or prints help or a version.
    pub(super) fn start_no_test(&self) -> bool {
        let verb = self.verb().and_then(|at| self.args[at].to_str());
        let mut cargos = self.cargos();
        let starts_none = ["list", "archive", "show-config", "self", "help"];
        match self.subcommand {
            "nextest" if verb.is_some_and(|verb| starts_none.contains(&verb)) => true,
            "test" | "bench" if self.has("--list") => true,
            _ => {
                cargos.any(|word| matches!(word, "--no-run" | "--help" | "-h" | "--version" | "-V"))
            }
        }
    }

    /// Whether only part of the suite of `workspace` runs: the arguments select packages, programs
    /// or tests, or cargo or nextest selects a part by default. `run` and `bench` start no tests.
    pub(super) fn select_a_part(&self, workspace: &Workspace) -> bool {
        let is_all = self.has("--workspace") || self.has("--all");
        (workspace.is_in_part() && !is_all)
            || self.select_tests()
            || (self.subcommand == "nextest"
                && !self.has("--ignore-default-filter")
                && has_default_filter(workspace.root()))
    }

    fn select_tests(&self) -> bool {
        if matches!(self.subcommand, "run" | "bench") {
            return true;
        }
        let verb = self.verb().filter(|at| self.args[*at] == "run");
        let args = self.texts().enumerate();
        let mut args = args.filter(|(at, _)| Some(*at) != verb).map(|(_, arg)| arg);
        while let Some(arg) = args.next() {
            let name = arg.split_once('=').map_or(arg, |(name, _)| name);
            let jobs = arg.strip_prefix("-j").unwrap_or("?");
            let is_jobs = jobs.bytes().all(|byte| byte.is_ascii_digit());
            if WITH_VALUE.contains(&arg) {
                args.next();
            } else if arg == "--run-ignored" && args.next() == Some("all") {
                // With the value `only`, the other tests do not run.
            } else if !is_jobs && !HARMLESS.contains(&name) && !WITH_VALUE.contains(&name) {
                return true;
            }
        }
        false
    }
}

/// Whether a profile of nextest's configuration has a
/// [default filter](https://nexte.st/docs/running/#running-a-subset-of-tests-by-default), which may
/// leave tests out.
fn has_default_filter(root: &Path) -> bool {
    let text = fs::read_to_string(root.join(".config/nextest.toml"));
    let file = text.ok().and_then(|text| text.parse::<DocumentMut>().ok());
    let has_filter = |table: &dyn toml_edit::TableLike| table.contains_key("default-filter");
    let is_filtered = |profile: &Item| {
        let overrides = profile.get("overrides").and_then(Item::as_array_of_tables);
        profile.as_table_like().is_some_and(has_filter)
            || overrides.is_some_and(|all| all.iter().any(|table| has_filter(table)))
    };
    let profiles = file
        .as_ref()
        .and_then(|file| file.get("profile")?.as_table_like());
    profiles.is_some_and(|all| all.iter().any(|(_, profile)| is_filtered(profile)))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::path::Path;

    use super::{CargoArguments, has_default_filter};

    fn with<T>(subcommand: &str, words: &str, then: impl FnOnce(&CargoArguments<'_>) -> T) -> T {
        let words: Vec<_> = words.split_whitespace().map(OsString::from).collect();
        then(&CargoArguments {
            subcommand,
            args: &words,
        })
    }

    #[test]
    fn arguments_that_select_tests_run_a_part_of_the_suite() {
        let selects = |words| with("test", words, |it| it.select_tests());
        for whole in [
            "",
            "--workspace --release -j 4",
            "--manifest-path gpu/Cargo.toml",
            "-- --include-ignored",
            "-- --include-ignored --test-threads=1",
            "-j4 --tests",
        ] {
            assert!(!selects(whole), "{whole}");
        }
        let nextest = |words| with("nextest", words, |it| it.select_tests());
        for whole in [
            "run --run-ignored all",
            "--color always run -j4",
            "run -P ci --retries 2",
        ] {
            assert!(!nextest(whole), "{whole}");
        }
        assert!(nextest("run run"));
        // These start no tests.
        for other in ["run", "bench"] {
            assert!(with(other, "--release", |it| it.select_tests()), "{other}");
        }
        for part in [
            "-p optim",
            "--lib",
            // Tests that need the default features are not compiled.
            "--no-default-features",
            "-- --ignored",
            "run --run-ignored only",
            "-joined",
            "-- --skip slow",
            "adam",
            "run",
        ] {
            assert!(selects(part), "{part}");
        }
    }

    #[test]
    fn the_manifest_is_found_in_both_forms() {
        let manifest = |words| with("test", words, |it| it.manifest().map(Path::to_owned));
        let named = Some("gpu/Cargo.toml".into());
        assert_eq!(manifest("--lib --manifest-path gpu/Cargo.toml"), named);
        assert_eq!(manifest("--manifest-path=gpu/Cargo.toml --lib"), named);
        assert_eq!(manifest("-- --manifest-path=gpu/Cargo.toml"), None);
        let run = |words| with("run", words, |it| it.manifest().map(Path::to_owned));
        assert_eq!(run("-p tool --manifest-path gpu/Cargo.toml"), named);
        assert_eq!(run("tool --manifest-path gpu/Cargo.toml"), None);
    }

    #[test]
    fn calls_that_start_no_test_are_recognised() {
        for (subcommand, words, starts_none) in [
            ("test", "--no-run", true),
            ("test", "-- --list", true),
            ("nextest", "list", true),
            ("nextest", "archive --archive-file a.tar.zst", true),
            ("nextest", "run", false),
            ("nextest", "run list", false),
            ("nextest", "--manifest-path gpu/Cargo.toml list", true),
            ("nextest", "--color=always archive", true),
            ("nextest", "--profile list run", false),
            ("nextest", "--version", true),
            ("nextest", "self update", true),
            ("nextest", "help run", true),
            ("test", "list", false),
            ("run", "-- --list -h", false),
            ("run", "serve --help", false),
        ] {
            let found = with(subcommand, words, |it| it.start_no_test());
            assert_eq!(found, starts_none, "{subcommand} {words}");
        }
    }

    #[test]
    fn a_default_filter_of_any_profile_of_nextest_is_found() {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join(".config")).expect("a directory");
        for (text, expected) in [
            ("", false),
            ("[profile.ci]\nretries = 2\n", false),
            ("[profile.ci]\ndefault-filter = 'not test(slow)'\n", true),
            (
                "[[profile.default.overrides]]\nplatform = 'cfg(unix)'\ndefault-filter = 'all()'\n",
                true,
            ),
        ] {
            fs::write(root.path().join(".config/nextest.toml"), text).expect("a file");
            assert_eq!(has_default_filter(root.path()), expected, "{text}");
        }
    }
}
