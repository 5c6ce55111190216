//! Forty tests that share a device, a cuBLAS handle and a cache of plans. The test that first needs
//! one of these creates it.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::sync::{Mutex, PoisonError};

use gpu_leak_check::report::check_report::{CheckStatus, Finding, FindingKind, Report};
use gpu_leak_kernels::{Result, Tensor};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

use super::{DEVICE, WARM, device, devices};

/// The variable that makes the test [`LEAKING`] leak.
pub(super) const LEAKS: &str = "SUITE_LEAKS";
pub(super) const LEAKING: &str = "t17";
pub(super) const TESTS: usize = 40;
const PLANS: usize = 5;
pub(super) const SUITE: &str = "shared::suite";

macro_rules! suite {
    ($($name:ident)+) => {
        mod suite {
            use gpu_leak_check::gpu_leak_check;
            $(#[gpu_leak_check]
            #[ignore = "one of a suite"]
            #[test]
            fn $name() -> gpu_leak_kernels::Result<()> {
                super::works(stringify!($name))
            })+
        }

        const NAMES: [&str; TESTS] = [$(stringify!($name)),+];
    };
}

suite!(
    t00 t01 t02 t03 t04 t05 t06 t07 t08 t09 t10 t11 t12 t13 t14 t15 t16 t17 t18 t19
    t20 t21 t22 t23 t24 t25 t26 t27 t28 t29 t30 t31 t32 t33 t34 t35 t36 t37 t38 t39
);

static CACHE: Mutex<BTreeMap<usize, Tensor>> = Mutex::new(BTreeMap::new());

/// Returns the plan for a width. The cache keeps one plan for each width for good.
fn plan(number: usize) -> Result<Tensor> {
    let width = 64 * (number % PLANS + 1);
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(plan) = cache.get(&width) {
        return Ok(plan.clone());
    }
    let made = Tensor::rand([width, width], device())?;
    cache.insert(width, made.clone());
    Ok(made)
}

/// Creates every plan, and the handle that uses the plans. Called by a warm-up.
pub(super) fn fill_the_cache() -> Result<()> {
    (0..PLANS).try_for_each(|number| works_with(number).map(drop))
}

fn works_with(number: usize) -> Result<Tensor> {
    let plan = plan(number)?;
    plan.matmul(&plan)
}

fn works(name: &str) -> Result<()> {
    let number = name[1..].parse().expect("a number after the t");
    let product = works_with(number)?;
    if name == LEAKING && leaks() {
        std::mem::forget(product);
    }
    Ok(())
}

/// Whether the leaking test leaks. With the value `once`, only its first attempt does.
fn leaks() -> bool {
    match env::var(LEAKS).as_deref() {
        Ok("once") => env::var("NEXTEST_ATTEMPT").is_ok_and(|attempt| attempt == "1"),
        leaks => leaks.is_ok(),
    }
}

/// Runs all tests of the suite in one process.
fn run(device: &str, variables: &[(&str, &str)]) -> Checked {
    let run = Run::of_all(SUITE, 8).env(DEVICE, device);
    let run = variables
        .iter()
        .fold(run, |run, (name, value)| run.env(name, value));
    let checked = checked::finish(run);
    assert_eq!(checked.reports.len(), TESTS, "{}", checked.output());
    checked
}

/// Returns the findings about blocks of the allocator as first use. There is one for each plan.
pub(super) fn plans(report: &Report) -> impl Iterator<Item = &Finding> {
    let findings = report.findings.iter();
    findings.filter(|finding| {
        finding.kind == FindingKind::FirstUse
            && finding.layer.to_string() == "allocator:gpu-leak-kernels"
    })
}

#[test]
fn the_first_run_of_a_suite_fails_nothing_and_reports_first_use_once() {
    for device in devices() {
        let checked = run(device, &[]);
        assert!(checked.child.status.success(), "{}", checked.output());
        let reported: Vec<_> = checked.reports.iter().flat_map(plans).collect();
        let made: u64 = reported.iter().map(|finding| finding.count).sum();
        assert_eq!(made, PLANS as u64, "{}", checked.output());
        let first: Vec<_> = checked
            .reports
            .iter()
            .filter(|report| report.status == CheckStatus::Found(FindingKind::FirstUse))
            .collect();
        assert!(first.len() <= PLANS, "{}", checked.output());
    }
}

#[test]
fn a_process_for_each_test_fails_nothing_either() {
    for device in devices() {
        for test in NAMES {
            let run = Run::of(&format!("{SUITE}::{test}"))
                .env(DEVICE, device)
                .env("NEXTEST", "1");
            let checked = checked::finish(run);
            assert!(checked.child.status.success(), "{}", checked.output());
            let report = checked.report();
            assert_eq!(
                report.status,
                CheckStatus::Found(FindingKind::FirstUse),
                "{}",
                checked.output()
            );
            assert_eq!(plans(report).count(), 1, "{}", checked.output());
        }
    }
}

#[test]
fn if_first_use_fails_the_remedies_are_named() {
    let checked = run("embedded", &[("GPU_LEAK_CHECK_FIRST_USE", "fail")]);
    assert!(!checked.child.status.success(), "{}", checked.output());
    for remedy in [
        "#[gpu_leak_check::warmup]",
        "#[gpu_leak_check(allow(\"fn:",
        "before the first check",
    ] {
        assert!(
            checked.child.stderr.contains(remedy),
            "{}",
            checked.output()
        );
    }
}

#[test]
fn a_warm_up_makes_a_suite_clean_if_first_use_fails() {
    for device in devices() {
        let variables = [("GPU_LEAK_CHECK_FIRST_USE", "fail"), (WARM, "1")];
        run(device, &variables).assert_clean();
    }
}

#[test]
fn an_entry_in_the_file_lets_first_use_pass_where_it_fails() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("gpu.toml");
    let text = "[[allow]]\nfn = '*::shared::plan'\nreason = 'kept for good'\n";
    fs::write(&file, text).expect("a file");
    let file = file.to_str().expect("a path in UTF-8");
    let variables = [
        ("GPU_LEAK_CHECK_FIRST_USE", "fail"),
        ("GPU_LEAK_CHECK_CONFIG", file),
    ];
    let checked = run("embedded", &variables);
    assert!(checked.child.status.success(), "{}", checked.output());
}

#[test]
fn one_true_leak_among_first_uses_is_found() {
    for device in devices() {
        let checked = run(device, &[(LEAKS, "1")]);
        let leaked: Vec<_> = checked
            .reports
            .iter()
            .filter(|report| report.status == CheckStatus::Found(FindingKind::Leaked))
            .map(|report| report.test.rsplit("::").next())
            .collect();
        assert_eq!(leaked, [Some(LEAKING)], "{}", checked.output());
        assert!(!checked.child.status.success(), "{}", checked.output());
    }
}
