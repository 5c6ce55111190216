use std::fs;
use std::path::PathBuf;

use gpu_leak_mutations::{each, each_of, seeds};

use crate::arguments::Judging;
use crate::comparison::compare;
use crate::deny::Denied;
use crate::exit::Exit;
use crate::overview::Overview;
use crate::run::Run;

#[test]
fn no_run_file_causes_a_panic_or_adds_markup() {
    each("renderers", 1_500, super::renderers);
}

/// A file for the input, in a directory that is removed at the end.
struct RunFile(tempfile::TempDir);

impl RunFile {
    fn path(&self) -> PathBuf {
        self.0.path().join("train-1.jsonl")
    }

    fn read(&self, input: &[u8]) -> Run {
        fs::write(self.path(), input).expect("a run file");
        Run::read(&[self.path()]).expect("a run")
    }

    /// Returns how `cargo gpu-leak report` ends, without and with `--strict`.
    fn exits(&self, input: &[u8]) -> [Exit; 2] {
        let run = self.read(input);
        let overview = Overview::of(&run);
        [false, true].map(|strict| {
            let judging = Judging {
                deny: Vec::new(),
                strict,
                against: None,
                error_exitcode: 1,
            };
            let denied = Denied::in_run(&overview, &judging, false, None);
            denied.expect("the settings").exit_of(&overview)
        })
    }
}

/// Returns run files in which one check is clean and another is usually not.
fn run_files() -> Vec<Vec<u8>> {
    // An unknown line counts as damaged only in a file that this release wrote, so the seeds get
    // the version of this release.
    let this = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let seeds = seeds("damaged").into_iter();
    let text = seeds.map(|seed| String::from_utf8(seed).expect("text"));
    text.map(|text| text.replace("\"version\":\"0.1.0\"", &this).into_bytes())
        .collect()
}

fn lines(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    input.split_inclusive(|byte| *byte == b'\n')
}

/// Whether each line is also in an undamaged file. If so, the loss of other lines cannot be
/// detected.
fn is_whole(damaged: &[u8], seeds: &[Vec<u8>]) -> bool {
    let is_of_a_seed = |line| {
        seeds
            .iter()
            .flat_map(|seed| lines(seed))
            .any(|it| it == line)
    };
    lines(damaged).all(is_of_a_seed)
}

#[test]
fn a_run_file_that_is_cut_off_inside_a_line_does_not_become_clean() {
    let file = RunFile(tempfile::tempdir().expect("a directory"));
    for seed in [run_files(), seeds("recording")].concat() {
        for length in (0..seed.len()).step_by(1 + seed.len() / 200) {
            let cut = &seed[..length];
            if !cut.ends_with(b"\n") {
                assert_eq!(file.exits(cut).iter().find(|it| **it == Exit::Clean), None);
            }
        }
    }
}

/// A line that is lost without a trace cannot be detected. Nor can an outcome that the damage has
/// replaced with `null`, because `null` is the outcome of a scope.
#[test]
fn a_damaged_run_file_does_not_become_clean() {
    let file = RunFile(tempfile::tempdir().expect("a directory"));
    let seeds = run_files();
    each_of("damaged", &seeds, 1_500, 1, |seed, damaged| {
        let (whole, now) = (file.exits(seed), file.exits(damaged));
        for (whole, now) in whole.into_iter().zip(now) {
            let is_still_there = lines(seed).all(|line| lines(damaged).any(|it| it == line));
            let is_lost = !is_still_there && is_whole(damaged, &seeds);
            let text = String::from_utf8_lossy(damaged);
            let is_valid = is_lost || text.contains("\"outcome\":null");
            assert!(whole == Exit::Clean || now != Exit::Clean || is_valid);
        }
        let _ = compare(&file.read(seed), &file.read(damaged));
    });
}
