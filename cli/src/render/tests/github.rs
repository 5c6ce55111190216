//! Tests of the annotations in GitHub's workflows.

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Outcome, Report};
use gpu_leak_check::report::run_file::Began;
use insta::assert_snapshot;

use super::shown;
use crate::overview::Overview;
use crate::render::sample::{self, MIB};
use crate::render::{Format, Settings, render};

#[test]
fn annotations_point_at_the_lines() {
    assert_snapshot!(shown(&sample::mixed(), Format::Github, 0));
}

/// GitHub shows an annotation only if its path is relative to the repository.
#[test]
fn the_paths_of_annotations_are_relative_to_the_repository() {
    let long = format!("src/{}optim.rs", "directory/".repeat(30));
    let files = [
        long.as_str(),
        "/repository/kernels/build.rs",
        "../data/lib.rs",
        "/elsewhere/lib.rs",
    ];
    let reports = files.map(|file| {
        let mut leak = sample::finding(FindingKind::Leaked, "Adam::step", 1, MIB);
        leak.site.frames[0].file = Some(file.into());
        sample::with(file, &[leak])
    });
    let run = sample::run(reports.to_vec());
    let how = Settings {
        width: 0,
        root: "/repository/crates/train".into(),
        checkout: Some("/repository".into()),
    };
    let text = render(Format::Github, &Overview::of(&run), &how).expect("a rendering");
    let text = String::from_utf8(text).expect("text");
    let in_repository = format!("crates/train/{long}");
    for file in [
        &in_repository,
        "kernels/build.rs",
        "crates/data/lib.rs",
        "/elsewhere/lib.rs",
    ] {
        assert!(text.contains(&format!("file={file},line=88")), "{text}");
    }
}

#[test]
fn a_failed_check_that_measured_nothing_is_an_error_in_github() {
    let blind = |test: &str, outcome| Report {
        outcome: Some(outcome),
        ..sample::report(test, CheckStatus::NotMeasured)
    };
    let run = sample::run(vec![
        blind("required", Outcome::Fail),
        blind("passes", Outcome::Pass),
    ]);
    let text = shown(&run, Format::Github, 0);
    let error =
        "::error file=tests/train.rs,line=28,title=gpu leak check%3A not-measured::required";
    assert!(text.starts_with(error), "{text}");
    assert!(text.contains("::1 check not measured"), "{text}");
}

#[test]
fn a_program_that_was_aborted_has_no_line_in_github() {
    let mut run = sample::run(Vec::new());
    run.processes[0].file.aborted.push(Began {
        test: "train".to_owned(),
        file: "/usr/bin/train".to_owned(),
        line: 0,
    });
    let text = shown(&run, Format::Github, 0);
    assert!(text.starts_with("::error title="), "{text}");
}

#[test]
fn annotations_are_limited_to_what_github_shows_for_a_step() {
    let many = |outcome: Outcome| {
        let reports = (1..=5_000).map(|at| {
            let mut leak = sample::finding(FindingKind::Leaked, "optim::Adam::step", 1, MIB);
            leak.site.frames[0].line = Some(at);
            Report {
                outcome: Some(outcome),
                line: at,
                ..sample::with(&format!("trains_{at}"), &[leak])
            }
        });
        reports.collect::<Vec<_>>()
    };
    let mut reports = many(Outcome::Warn);
    let github = shown(&sample::run(reports.clone()), Format::Github, 0);
    assert_eq!(github.matches("::warning ").count(), 10, "{github}");
    assert!(
        github.contains("4,990 more warnings left out: GitHub shows at most 10 per step"),
        "{github}"
    );

    reports.truncate(30);
    for report in &mut reports {
        for finding in &mut report.findings {
            finding.site.frames[0].line = Some(10_000 + report.line);
        }
    }
    reports.extend(many(Outcome::Fail));
    let github = shown(&sample::run(reports), Format::Github, 0);
    assert_eq!(github.matches("::error ").count(), 10, "{github}");
    assert_eq!(github.matches("::warning ").count(), 10, "{github}");
    assert!(github.contains("4,990 more errors"), "{github}");
    assert!(github.contains("20 more warnings"), "{github}");
}
