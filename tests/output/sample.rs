//! Sample reports. Each is the simplest of its kind, and a test changes the part that it is about.

use std::path::Path;

use gpu_leak_check::ledger::{Kind, Layer, Place};
use gpu_leak_check::report::check_report::{
    CheckStatus, Confirmation, DeviceTable, Figure, Finding, FindingKind, Frame, MeantToStay,
    Owner, Report, Row, Site,
};
use gpu_leak_check::report::text::{self, Rendering};
use gpu_leak_check::report::{Sources, Style};

pub(crate) const KIB: u64 = 1024;
pub(crate) const MIB: u64 = 1024 * KIB;

/// Returns the text that is printed for `report`, without colours.
pub(crate) fn rendered(report: &Report) -> String {
    styled(report, Style::PLAIN)
}

pub(crate) fn styled(report: &Report, style: Style) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("output/fixtures");
    let how = Rendering {
        style,
        sources: Sources::below(fixtures),
    };
    text::to_string(report, &how)
}

pub(crate) fn report(status: CheckStatus) -> Report {
    Report {
        meant_to_stay: match status {
            CheckStatus::Found(FindingKind::Leaked) => {
                Some(MeantToStay::allow("optim::Adam::step"))
            }
            CheckStatus::Found(FindingKind::Retained) => Some(MeantToStay {
                reserved_tolerance: 32 << 20,
                ..MeantToStay::default()
            }),
            _ => None,
        },
        again: Some("cargo test --test train training_frees_everything -- --exact".to_owned()),
        overhead_ms: 1.5,
        test: "training_frees_everything".to_owned(),
        file: "tests/train.rs".to_owned(),
        line: 28,
        column: 1,
        status,
        ..Report::default()
    }
}

/// A report with one finding, which is what most readers see first.
pub(crate) fn with(finding: Finding) -> Report {
    Report {
        findings: vec![finding.clone()],
        devices: vec![device()],
        ..report(CheckStatus::Found(finding.kind))
    }
}

/// A finding of `count` resources of `each` bytes, allocated at the line of the fixture.
pub(crate) fn finding(kind: FindingKind, resource: Kind, count: u64, each: u64) -> Finding {
    Finding {
        resource: Some(resource),
        count,
        bytes: count * each,
        each: Some(each),
        allocated: count,
        ..Finding::new(kind, Layer::DRIVER, Place::cuda(0), site())
    }
}

pub(crate) fn leak(kind: Kind, count: u64, each: u64) -> Finding {
    Finding {
        confirmed: Some(Confirmation::by_second_run(count, count * each)),
        ..finding(FindingKind::Leaked, kind, count, each)
    }
}

pub(crate) fn site() -> Site {
    Site {
        fingerprint: "1-0123456789abcdef".to_owned(),
        frames: vec![
            Frame {
                owner: Owner::Dependency,
                ..frame(
                    "cudarc::driver::result::malloc_async",
                    "/home/u/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cudarc-0.19.10/src/driver/result.rs",
                    612,
                    9,
                )
            },
            frame("optim::Adam::step", "src/optim.rs", 8, 33),
            frame("train::epoch", "src/train.rs", 61, 15),
            frame(
                "train::training_frees_everything::body",
                "tests/train.rs",
                31,
                5,
            ),
        ],
        user: Some(1),
        library: None,
    }
}

pub(crate) fn frame(function: &str, file: &str, line: u32, column: u32) -> Frame {
    Frame {
        function: Some(function.into()),
        file: Some(file.into()),
        line: Some(line),
        column: Some(column),
        module: Some("train-0123456789abcdef".into()),
        owner: Owner::User,
        ..Frame::default()
    }
}

pub(crate) fn device() -> DeviceTable {
    let row = |layer: &str, figure, baseline, after, peak| Row {
        layer: layer.to_owned(),
        figure,
        baseline,
        after,
        peak,
    };
    DeviceTable {
        place: Place::cuda(0),
        name: Some("NVIDIA H200".to_owned()),
        uuid: Some("GPU-5f2c0d4e-2063-7564-6120-646576696300".to_owned()),
        rows: vec![
            row(
                "driver",
                Figure::Allocated,
                64 * MIB + 100 * KIB,
                65 * MIB + 100 * KIB,
                Some(73 * MIB + 400 * KIB),
            ),
            row("pool 0", Figure::Reserved, 0, 32 * MIB, Some(32 * MIB)),
            row("handles", Figure::Handles, 5, 5, Some(7)),
        ],
        whole: None,
    }
}
