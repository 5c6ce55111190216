//! Every planted leak is found with the lines, counts, bytes and kinds that the catalogue lists.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::OnceLock;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Report};
use gpu_leak_check::report::run_file;
use gpu_leak_kernels::Device;
use gpu_leak_kernels::planted::{CATALOGUE, Layer, Planted};

/// Tells a child process which device to use.
const DEVICE: &str = "GPU_LEAK_KERNELS_DEVICE";

/// The only device of a child process. If each run created its own device, the device would leak
/// together with its allocations. Whatever the shared device loads at first use is `first-use`.
fn device() -> &'static Device {
    static OWN: OnceLock<Device> = OnceLock::new();
    OWN.get_or_init(|| {
        let device = match std::env::var(DEVICE).as_deref() {
            Ok("cuda") => Device::cuda(0),
            _ => Device::embedded(),
        };
        device.expect("the parent has seen that it is there")
    })
}

macro_rules! leaks {
    ($($name:ident),+ $(,)?) => {
        /// Test bodies that the tests below run in separate processes.
        mod planted {
            use gpu_leak_check::gpu_leak_check;
            use gpu_leak_kernels::Result;
            use gpu_leak_kernels::planted::Planted;

            use super::device;

            $(#[gpu_leak_check]
            #[ignore = "leaks on purpose"]
            #[test]
            fn $name() -> Result<()> {
                let planted = Planted::named(stringify!($name)).expect("it is in the catalogue");
                planted.run(device())
            })+
        }

        $(#[test]
        fn $name() {
            let planted = Planted::named(stringify!($name)).expect("it is in the catalogue");
            if planted.layer == Layer::Caching {
                check(planted, "embedded");
            }
            if Device::cuda(0).is_ok() {
                check(planted, "cuda");
            }
        })+

        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

leaks!(
    forgotten_handle,
    early_return,
    closure_cycle,
    growing_static,
    kept_gradient,
    loss_history,
    retained_graph,
    graph_output,
    batch_kept_by_loader,
    pinned_segment,
    pinned_host_buffer,
    orphan_stream,
);

#[test]
fn every_leak_of_the_catalogue_is_tried() {
    let catalogue: BTreeSet<_> = CATALOGUE.iter().map(|planted| planted.name).collect();
    assert_eq!(NAMES.iter().copied().collect::<BTreeSet<_>>(), catalogue);
}

mod tolerated {
    use gpu_leak_check::gpu_leak_check;
    use gpu_leak_kernels::Result;
    use gpu_leak_kernels::planted::Planted;

    use super::device;

    #[gpu_leak_check(tolerance = "2 MiB")]
    #[ignore = "leaves a reserve on purpose"]
    #[test]
    fn pinned_segment() -> Result<()> {
        let planted = Planted::named("pinned_segment").expect("it is in the catalogue");
        planted.run(device())
    }
}

/// A block that may stay also explains the segment that contains it.
#[test]
fn a_segment_that_contains_an_allowed_block_may_stay() {
    let devices = ["embedded", "cuda"];
    let count = 1 + usize::from(Device::cuda(0).is_ok());
    for device in &devices[..count] {
        let child = Command::new(std::env::current_exe().expect("this program's path"))
            .args([
                "--exact",
                "leaks::tolerated::pinned_segment",
                "--ignored",
                "--nocapture",
            ])
            .env(DEVICE, device)
            .output()
            .expect("a child process");
        let output = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{output}");
        assert!(output.contains("1 clean"), "{output}");
    }
}

/// Runs, in a separate process, a test that must fail. Returns its report and its output.
fn failing_report(test: &str, device: &str) -> (Report, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let child = Command::new(std::env::current_exe().expect("this program's path"))
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(DEVICE, device)
        .env("GPU_LEAK_CHECK_OUTPUT", directory.path())
        .output()
        .expect("a child process");
    let output = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(!child.status.success(), "{output}");
    let report = report_below(directory.path()).unwrap_or_else(|| panic!("no report\n{output}"));
    (report, output)
}

/// Compares the report of a leak with the catalogue of planted leaks.
fn check(planted: &Planted, device: &str) {
    let test = format!("leaks::planted::{}", planted.name);
    let (report, output) = failing_report(&test, device);
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Leaked),
        "{output}"
    );
    let mut found: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Leaked)
        .map(|finding| {
            let user = &finding.site.frames[finding.site.user.expect("a line of the user's")];
            let kind = serde_json::to_value(finding.resource).expect("a kind");
            let kind = kind.as_str().map(str::to_owned);
            assert!(finding.confirmed.is_some(), "{output}");
            (
                user.file.as_deref().map(str::to_owned),
                user.line,
                finding.count,
                finding.bytes,
                kind,
            )
        })
        .collect();
    found.sort();
    let mut expected: Vec<_> = planted
        .sites
        .iter()
        .map(|site| {
            let line = Some(planted.line(site));
            let kind = Some(planted.kind.to_owned());
            (
                Some(planted.file.to_owned()),
                line,
                site.count,
                site.bytes,
                kind,
            )
        })
        .collect();
    expected.sort();
    assert_eq!(found, expected, "{output}");
}

/// Returns the only report in the run file that the child process wrote.
fn report_below(directory: &std::path::Path) -> Option<Report> {
    for entry in std::fs::read_dir(directory).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(report) = report_below(&path) {
                return Some(report);
            }
        } else if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            return run_file::read(&path).ok()?.reports.pop();
        }
    }
    None
}
