//! Separates the command's own arguments from cargo's.

use std::ffi::OsString;

use clap::CommandFactory;

use crate::arguments::Arguments;

/// The subcommands that pass arguments through to cargo.
const PASSTHROUGH: [&str; 4] = ["test", "nextest", "run", "bench"];

/// Returns the command line as the parser expects it: without the argument `gpu-leak` that cargo
/// adds, and with a `--` between the command's own options and cargo's arguments.
pub(crate) fn split(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = given
        .enumerate()
        .filter(|(at, word)| !(*at == 1 && word == "gpu-leak"))
        .map(|(_, word)| word)
        .collect();
    let subcommand = PASSTHROUGH
        .into_iter()
        .find(|name| words.get(1).is_some_and(|word| word == name));
    if let Some(name) = subcommand {
        let (own, cargos) = separated(name, &words[2..]);
        words.truncate(2);
        words.extend(own);
        words.push("--".into());
        words.extend(cargos);
    }
    words
}

fn options_of(name: &str) -> Vec<clap::Arg> {
    let mut command = Arguments::command();
    command.build();
    command
        .find_subcommand(name)
        .into_iter()
        .flat_map(clap::Command::get_arguments)
        .filter(|option| !option.is_positional())
        .cloned()
        .collect()
}

fn is_written(option: &clap::Arg, word: &str) -> bool {
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|short| format!("-{short}"));
    [long, short].iter().flatten().any(|name| name == word)
}

/// Separates `words` into options of the subcommand `name` with their values, and cargo's
/// arguments. Except for the help options, cargo has no options with these names, so they are
/// recognised anywhere before `--`. With `run`, however, everything after the first word that is
/// not such an option may belong to the program.
fn separated(name: &str, words: &[OsString]) -> (Vec<OsString>, Vec<OsString>) {
    let options = options_of(name);
    let (mut own, mut cargos) = (Vec::new(), Vec::new());
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.to_str().unwrap_or_default();
        let (written, has_value) = match text.split_once('=') {
            Some((written, _)) => (written, true),
            None => (text, false),
        };
        // A help option after cargo's own options is for cargo.
        let is_help = matches!(written, "-h" | "--help");
        let is_over = !cargos.is_empty() && (name == "run" || is_help);
        let mut known = options.iter();
        let option = known.find(|option| !is_over && is_written(option, written));
        let Some(option) = option else {
            cargos.push(word.clone());
            if text == "--" {
                cargos.extend(rest.cloned());
                break;
            }
            continue;
        };
        own.push(word.clone());
        if option.get_action().takes_values() && !has_value && !option.is_require_equals_set() {
            own.extend(rest.next().cloned());
        }
    }
    (own, cargos)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Arguments, split};
    use crate::arguments::Command;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    fn given(given: &[&str]) -> Vec<std::ffi::OsString> {
        split(given.iter().map(Into::into))
    }

    #[test]
    fn the_argument_that_cargo_adds_is_dropped() {
        assert_eq!(
            given(&["cargo-gpu-leak", "gpu-leak", "report"]),
            ["cargo-gpu-leak", "report"]
        );
        assert_eq!(
            given(&["cargo-gpu-leak", "report", "gpu-leak"]),
            ["cargo-gpu-leak", "report", "gpu-leak"]
        );
    }

    #[test]
    fn arguments_after_the_first_word_of_run_are_cargos() {
        let line = ["cargo-gpu-leak", "run", "--strict", "serve", "--name", "a"];
        let parsed = Arguments::try_parse_from(given(&line)).expect("a command line");
        let Command::Run(passthrough) = parsed.command else {
            panic!("{parsed:?}");
        };
        assert!(passthrough.judging.strict && passthrough.name.is_none());
        assert_eq!(passthrough.cargo, ["serve", "--name", "a"]);
    }

    #[test]
    fn own_options_may_stand_anywhere_and_the_rest_is_cargos() {
        for (written, cargos) in [
            (&["test"][..], &[][..]),
            (&["test", "--", "--nocapture"], &["--", "--nocapture"]),
            (&["test", "-p", "a", "--deny", "new"], &["-p", "a"]),
            (
                &["test", "-p", "a", "--help", "--", "--deny", "new"],
                &["-p", "a", "--help", "--", "--deny", "new"],
            ),
            (
                &[
                    "nextest",
                    "run",
                    "--no-fail-fast",
                    "--report",
                    "junit=a.xml",
                ],
                &["run", "--no-fail-fast"],
            ),
            (&["test", "--deny", "new", "-p", "a"], &["-p", "a"]),
            (&["test", "--every-test", "-p", "a"], &["-p", "a"]),
            (&["test", "--every-test=4", "name"], &["name"]),
            (&["test", "--deny=new", "--strict", "name"], &["name"]),
            (
                &["nextest", "--report", "junit=a.xml", "run", "--", "--exact"],
                &["run", "--", "--exact"],
            ),
        ] {
            let line = [&["cargo-gpu-leak"], written].concat();
            let parsed = Arguments::try_parse_from(given(&line)).expect("a command line");
            let passthrough = match parsed.command {
                Command::Test(options) => options.passthrough,
                Command::Nextest(passthrough) => passthrough,
                other => panic!("{line:?} is {other:?}"),
            };
            assert_eq!(passthrough.cargo, cargos, "{line:?}");
        }
    }

    #[test]
    fn an_output_is_a_format_and_a_file() {
        let line = given(&["cargo-gpu-leak", "test", "--report", "junit"]);
        let refused = Arguments::try_parse_from(line)
            .expect_err("no file")
            .to_string();
        assert!(refused.contains("junit=leaks.xml"), "{refused}");
    }
}
