//! Sample runs for tests.

use gpu_leak_check::ledger::{Kind, Layer, Place};
use gpu_leak_check::report::Code;
use gpu_leak_check::report::check_report::{
    AllowedBy, CheckStatus, DeviceTable, Figure, Finding, FindingKind, Frame, Owner, Reason,
    Report, Row, Site,
};
use gpu_leak_check::report::run_file::{
    Attempt, Began, Environment, Header, Late, RunFile, SCHEMA, Unowned,
};

use crate::run::{Process, Run};

pub(crate) const MIB: u64 = 1024 * 1024;

/// Creates a run of one process.
pub(crate) fn run(reports: Vec<Report>) -> Run {
    Run {
        processes: vec![Process {
            binary: "train".to_owned(),
            file: RunFile {
                reports,
                ..RunFile::default()
            },
        }],
        ..Run::default()
    }
}

/// Creates a run with two tests that have the same leak, one test with a finding of another kind,
/// one that was not measured, one that is clean and one that was aborted.
pub(crate) fn mixed() -> Run {
    let leak = finding(FindingKind::Leaked, "optim::Adam::step", 2, MIB / 2);
    let table = finding(FindingKind::FirstUse, "lookup_table", 1, 4096);
    let blind = Report {
        reason: Some(Reason {
            code: Code::NoGpu,
            what: "no usable CUDA device was found".to_owned(),
            remedy: "run on a machine with one".to_owned(),
        }),
        ..report("reads_the_device", CheckStatus::NotMeasured)
    };
    let mut run = run(vec![
        with("trains", std::slice::from_ref(&leak)),
        with("trains_longer", &[leak, table.clone()]),
        with("looks_up", &[table]),
        blind,
        Report {
            devices: vec![device(73 * MIB)],
            ..report("is_clean", CheckStatus::Clean)
        },
    ]);
    run.processes[0].file.aborted.push(Began {
        test: "crashes".to_owned(),
        file: "tests/train.rs".to_owned(),
        line: 90,
    });
    run.processes[0].file.unowned.push(Unowned {
        test: "trains".to_owned(),
        count: 3,
        bytes: MIB,
    });
    run.processes[0].file.late.push(Late {
        test: "trains".to_owned(),
        file: "tests/train.rs".to_owned(),
        line: 28,
        count: 1,
        bytes: MIB / 2,
        late_ms: 40,
    });
    run.problems
        .push("the last line of a.jsonl is cut off: the process ended while writing it".to_owned());
    run
}

/// Creates a run with a test that leaked in its first attempt but not in its second.
pub(crate) fn retried() -> Run {
    let attempt = |number, report| {
        let mut process = run(vec![report]).processes.remove(0);
        process.file.header = Some(Header {
            schema: SCHEMA,
            version: "0.1.0".to_owned(),
            run: "7-8".to_owned(),
            pid: number,
            executable: "/w/target/debug/deps/train".to_owned(),
            started_ms: 1,
            pid_space: None,
            attempt: Some(Attempt {
                test: "optim::train trains".to_owned(),
                run: "5f2c-aa".to_owned(),
                number,
                round: None,
            }),
            environment: Environment {
                host: Some("gpu-runner-3".to_owned()),
                driver: Some("580.159.04".to_owned()),
                commit: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
                ..Environment::default()
            },
        });
        process
    };
    let leak = finding(FindingKind::Leaked, "optim::Adam::step", 2, MIB / 2);
    let mut run = Run {
        processes: vec![
            attempt(1, with("trains", &[leak])),
            attempt(2, report("trains", CheckStatus::Clean)),
        ],
        ..Run::default()
    };
    run.set_earlier_attempts_aside();
    run
}

pub(crate) fn report(test: &str, status: CheckStatus) -> Report {
    Report {
        overhead_ms: 1.5,
        test: test.to_owned(),
        file: "tests/train.rs".to_owned(),
        line: 28,
        column: 1,
        status,
        ..Report::default()
    }
}

pub(crate) fn with(test: &str, findings: &[Finding]) -> Report {
    Report {
        findings: findings.to_vec(),
        devices: vec![device(2 * MIB)],
        ..report(test, CheckStatus::Found(findings[0].kind))
    }
}

pub(crate) fn finding(kind: FindingKind, function: &str, count: u64, each: u64) -> Finding {
    let site = Site {
        fingerprint: format!("1-{function}"),
        frames: vec![
            frame(function, "src/optim.rs", 88),
            frame("train::epoch", "src/train.rs", 61),
        ],
        user: Some(0),
        library: None,
    };
    Finding {
        resource: Some(Kind::StreamOrdered),
        count,
        bytes: count * each,
        each: Some(each),
        allocated: count,
        ..Finding::new(kind, Layer::DRIVER, Place::cuda(0), site)
    }
}

fn frame(function: &str, file: &str, line: u32) -> Frame {
    Frame {
        function: Some(function.into()),
        file: Some(file.into()),
        line: Some(line),
        column: Some(22),
        owner: Owner::User,
        ..Frame::default()
    }
}

fn device(peak: u64) -> DeviceTable {
    DeviceTable {
        place: Place::cuda(0),
        name: None,
        uuid: None,
        rows: vec![Row {
            layer: "driver".to_owned(),
            figure: Figure::Allocated,
            baseline: 0,
            after: 0,
            peak: Some(peak),
        }],
        whole: None,
    }
}

/// A text with commands of CI systems, markup, the end of a CDATA section, terminal commands and a
/// change of text direction.
pub(crate) const HOSTILE: &str = "::error::x ##[error]x ##vso[x]x ##teamcity[x]\
    <script>alert(1)</script>]]>\x1b[2J\u{202e}|`%\n::error::x;=1,\"\0";

/// Creates a run in which everything that a program can name is [`HOSTILE`] or very long.
pub(crate) fn hostile() -> Run {
    let long = "n".repeat(10_000);
    let named = |name: &str| {
        let mut finding = finding(FindingKind::Leaked, name, 1, MIB);
        for frame in &mut finding.site.frames {
            frame.file = Some(name.into());
        }
        finding.allowed_by = Some(AllowedBy {
            owner: Some(name.to_owned()),
            expired: Some(name.to_owned()),
            stands_in: name.to_owned(),
            reason: name.to_owned(),
        });
        finding.notes.push(name.to_owned());
        let mut report = with(name, &[finding]);
        report.devices[0].rows[0].layer = name.to_owned();
        report.file = name.to_owned();
        report
    };
    let mut run = run(vec![named(HOSTILE), named(&long)]);
    run.processes[0].binary = HOSTILE.to_owned();
    run.processes[0].file.aborted.push(Began {
        test: HOSTILE.to_owned(),
        file: HOSTILE.to_owned(),
        line: 1,
    });
    run.processes[0].file.late.push(Late {
        test: HOSTILE.to_owned(),
        file: HOSTILE.to_owned(),
        line: 1,
        count: 1,
        bytes: MIB,
        late_ms: 40,
    });
    run.problems.push(HOSTILE.to_owned());
    run
}
