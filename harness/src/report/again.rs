//! The command that runs one test again.

use crate::case::{Case, Origin};

/// Returns a command such as `cargo test -p train --test steps adam_frees_everything -- --exact`
/// or, for a program, `cargo run -p train --example steps`. Returns `None` without cargo.
pub(crate) fn command(case: &Case) -> Option<String> {
    let package = case.origin.package?;
    if case.is_program() {
        let (verb, target) = program(&case.origin)?;
        return Some(format!("cargo {verb} -p {package} {target}"));
    }
    let target = target(&case.origin)?;
    let ignored = if case.ignored {
        " --include-ignored"
    } else {
        ""
    };
    let name = case.name();
    Some(format!(
        "cargo test -p {package} {target} {name} -- --exact{ignored}"
    ))
}

/// Returns how cargo runs a program that has its own `main`, assuming cargo's usual directories.
fn program(origin: &Origin) -> Option<(&'static str, String)> {
    let is_in = |directory: &str| origin.file.split(['/', '\\']).any(|part| part == directory);
    Some(match origin.bin_name {
        Some(name) if is_in("examples") => ("run", format!("--example {name}")),
        Some(name) => ("run", format!("--bin {name}")),
        None if is_in("benches") => ("bench", format!("--bench {}", target_name(origin)?)),
        None => ("test", target(origin)?),
    })
}

/// Returns the option with which cargo selects the test's target.
fn target(origin: &Origin) -> Option<String> {
    if origin.integration {
        return Some(format!("--test {}", target_name(origin)?));
    }
    Some(
        origin
            .bin_name
            .map_or_else(|| "--lib".to_owned(), |name| format!("--bin {name}")),
    )
}

/// Returns the name of the target. A crate name has underscores where the target's name may have
/// hyphens, so the name of the target's root file is used if the test is in that file.
fn target_name(origin: &Origin) -> Option<&'static str> {
    let crate_name = origin.crate_name?;
    let stem = origin
        .file
        .rsplit(['/', '\\'])
        .next()?
        .strip_suffix(".rs")?;
    Some(if stem.replace('-', "_") == crate_name {
        stem
    } else {
        crate_name
    })
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use super::command;
    use crate::case::{Case, Origin};
    use crate::options::Options;

    fn again(origin: Origin) -> Option<String> {
        command(&Case {
            path: "train_steps::adam::frees",
            origin,
            options: Options::DEFAULT,
            should_panic: None,
            ignored: false,
            body: || ExitCode::SUCCESS,
        })
    }

    const ORIGIN: Origin = Origin {
        file: "tests/train-steps.rs",
        line: 1,
        column: 1,
        package: Some("train"),
        manifest_dir: None,
        crate_name: Some("train_steps"),
        bin_name: None,
        integration: true,
    };

    #[test]
    fn each_kind_of_target_is_selected_as_cargo_does() {
        let tail = "adam::frees -- --exact";
        let is = |origin, start: &str| assert_eq!(again(origin), Some(format!("{start} {tail}")));
        is(ORIGIN, "cargo test -p train --test train-steps");
        is(
            Origin {
                file: "tests/sub/adam.rs",
                ..ORIGIN
            },
            "cargo test -p train --test train_steps",
        );
        let unit = Origin {
            integration: false,
            file: "src/lib.rs",
            ..ORIGIN
        };
        is(unit, "cargo test -p train --lib");
        is(
            Origin {
                bin_name: Some("run-it"),
                ..unit
            },
            "cargo test -p train --bin run-it",
        );
        assert_eq!(
            again(Origin {
                package: None,
                ..ORIGIN
            }),
            None
        );
    }

    #[test]
    fn a_program_is_run_as_cargo_runs_it() {
        let again = |origin| {
            command(&Case::new("train-steps", origin, || ExitCode::SUCCESS))
                .expect("the program has a command")
        };
        let binary = Origin {
            bin_name: Some("train-steps"),
            integration: false,
            file: "src/main.rs",
            ..ORIGIN
        };
        assert_eq!(again(binary), "cargo run -p train --bin train-steps");
        let example = Origin {
            file: "examples/train-steps.rs",
            ..binary
        };
        assert_eq!(again(example), "cargo run -p train --example train-steps");
        let bench = Origin {
            file: "benches/train-steps.rs",
            ..ORIGIN
        };
        assert_eq!(again(bench), "cargo bench -p train --bench train-steps");
        assert_eq!(again(ORIGIN), "cargo test -p train --test train-steps");
    }
}
