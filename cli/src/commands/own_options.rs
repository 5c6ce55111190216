//! Which arguments are the command's own, and which are cargo's.

use std::ffi::OsString;

use clap::CommandFactory;

use crate::arguments::Arguments;

/// The subcommands that pass arguments through to cargo.
const PASSING: [&str; 4] = ["test", "nextest", "run", "bench"];

/// The command line as the parser expects it: without the argument `gpu-leak` that cargo adds, and with
/// a `--` between the command's own options and cargo's arguments.
pub(crate) fn split(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = given
        .enumerate()
        .filter(|(at, word)| !(*at == 1 && word == "gpu-leak"))
        .map(|(_, word)| word)
        .collect();
    let passing = PASSING
        .into_iter()
        .find(|name| words.get(1).is_some_and(|word| word == name));
    if let Some(name) = passing {
        let own = own_options(name, &words[2..]);
        words.insert(2 + own, "--".into());
    }
    words
}

/// The options of the subcommand `name` among cargo's arguments; cargo has no options with these names.
/// Arguments after a `--` are those of the tests.
pub(crate) fn misplaced(name: &str, cargos: &[OsString]) -> Vec<String> {
    let options = options_of(name);
    let cargos = cargos.iter().filter_map(|word| word.to_str());
    let own = cargos
        .take_while(|word| *word != "--")
        .map(|word| word.split_once('=').map_or(word, |(written, _)| written))
        .filter(|word| !matches!(*word, "-h" | "--help"))
        .filter(|word| options.iter().any(|option| is_written(option, word)));
    own.map(str::to_owned).collect()
}

/// The options of the subcommand `name`.
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

/// How many of `words` are options of the subcommand `name` or their values.
fn own_options(name: &str, words: &[OsString]) -> usize {
    let options = options_of(name);
    let mut own = 0;
    while let Some(word) = words.get(own).and_then(|word| word.to_str()) {
        let (written, has_value) = match word.split_once('=') {
            Some((written, _)) => (written, true),
            None => (word, false),
        };
        let option = options.iter().find(|option| is_written(option, written));
        match option {
            Some(option)
                if option.get_action().takes_values()
                    && !has_value
                    && !option.is_require_equals_set() =>
            {
                own += 2;
            }
            Some(_) => own += 1,
            None => break,
        }
    }
    own.min(words.len())
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
    fn own_options_come_first_and_everything_else_is_cargos() {
        for (written, cargos) in [
            (&["test"][..], &[][..]),
            (&["test", "--", "--nocapture"], &["--", "--nocapture"]),
            (
                &["test", "-p", "a", "--deny", "new"],
                &["-p", "a", "--deny", "new"],
            ),
            (&["test", "--deny", "new", "-p", "a"], &["-p", "a"]),
            (&["test", "--every-test", "-p", "a"], &["-p", "a"]),
            (&["test", "--every-test=4", "name"], &["name"]),
            (
                &["test", "--deny=new", "--require-measured", "name"],
                &["name"],
            ),
            (
                &["nextest", "--report", "junit=a.xml", "run", "--", "--exact"],
                &["run", "--", "--exact"],
            ),
        ] {
            let line = [&["cargo-gpu-leak"], written].concat();
            let parsed = Arguments::try_parse_from(given(&line)).expect("a command line");
            let passing = match parsed.command {
                Command::Test(testing) => testing.passing,
                Command::Nextest(passing) => passing,
                other => panic!("{line:?} is {other:?}"),
            };
            assert_eq!(passing.cargo, cargos, "{line:?}");
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
