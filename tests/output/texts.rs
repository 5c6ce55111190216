//! One complete report of each kind.

use gpu_leak_check::ledger::{Kind, Layer, Place, PoolName};
use gpu_leak_check::report::Code;
use gpu_leak_check::report::Style;
use gpu_leak_check::report::check_report::{
    AllowedBy, CheckStatus, Confirmation, DeviceTable, FailedFree, Figure, Finding, FindingKind,
    Frame, Library, Owner, Part, Purpose, Reason, Report, Row, Site, When, WholeDevice,
};
use insta::assert_snapshot;

use super::sample::{self, KIB, MIB, device, finding, leak, rendered, report, with};

#[test]
fn a_leak_is_reported_with_line_callers_tables_and_remedy() {
    let report = with(Finding {
        allocated: 8,
        freed: 6,
        ..leak(Kind::StreamOrdered, 2, 512 * KIB)
    });
    assert_snapshot!(rendered(&report));
}

#[test]
fn colours_change_nothing_but_colours() {
    let report = with(leak(Kind::StreamOrdered, 2, 512 * KIB));
    let coloured = sample::styled(&report, Style::COLOURED);
    assert_snapshot!(coloured.replace('\x1b', "␛"));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((text, escape)) = rest.split_once('\x1b') {
        plain.push_str(text);
        rest = escape.split_once('m').unwrap().1;
    }
    assert_eq!(plain + rest, rendered(&report));
}

#[test]
fn a_finding_is_reported_with_its_holder_and_its_age() {
    let known = "cuBLAS keeps the workspace until cublasDestroy is called: drop the handle";
    let library = Library {
        name: "cuBLAS".to_owned(),
        function: Some("cublasCreate_v2".to_owned()),
        file: Some("libcublas.so.13.0.0.19".to_owned()),
        called_by: Some("libtorch".to_owned()),
        known: Some(known.to_owned()),
    };
    let when = |first, last, of| Some(When { first, last, of });
    let held = Finding {
        site: Site {
            library: Some(library),
            ..sample::site()
        },
        when: when(3, 3, 12),
        ..leak(Kind::Linear, 1, 64 * MIB)
    };
    let spread = Finding {
        when: when(3, 9_970, 10_000),
        ..leak(Kind::Linear, 100, 4)
    };
    let nothing_else = Finding {
        when: when(1, 2, 2),
        ..leak(Kind::Linear, 2, 4)
    };
    let report = Report {
        findings: vec![held, spread, nothing_else],
        ..report(CheckStatus::Found(FindingKind::Leaked))
    };
    assert_snapshot!(rendered(&report));
}

#[test]
fn repeated_callers_are_shown_once() {
    let frame = |function, line| sample::frame(function, "src/tree.rs", line, 5);
    let closure = |column| sample::frame("{closure#0}", "src/tree.rs", 40, column);
    let report = with(Finding {
        site: Site {
            frames: vec![
                frame("tree::grow", 3),
                frame("tree::visit", 9),
                frame("tree::visit", 9),
                frame("tree::visit", 9),
                frame("tree::plant", 21),
                closure(5),
                sample::frame("train::training_frees_everything", "src/tree.rs", 40, 3),
            ],
            user: Some(0),
            ..sample::site()
        },
        ..leak(Kind::Linear, 1, MIB)
    });
    let text = rendered(&report);
    let callers = "called by  tree::visit (:9) 3 times ← tree::plant (:21) ← the test (:40)\n";
    assert!(text.contains(callers), "{text}");
}

#[test]
fn leaked_handles_are_counted() {
    let report = Report {
        findings: vec![leak(Kind::Event, 3, 0), leak(Kind::Stream, 1, 0)],
        ..with(leak(Kind::Event, 3, 0))
    };
    assert_snapshot!(rendered(&report));
}

#[test]
fn sizes_that_differ_are_summed_and_exact() {
    let report = with(Finding {
        each: None,
        bytes: 1_091_072,
        ..leak(Kind::Linear, 3, 0)
    });
    assert_snapshot!(rendered(&report));
}

#[test]
fn a_refused_free_shows_the_call_and_where_the_memory_came_from() {
    let call = Site {
        frames: vec![sample::frame("optim::Adam::drop", "src/optim.rs", 14, 43)],
        user: Some(0),
        ..sample::site()
    };
    let report = with(Finding {
        failed: Some(FailedFree {
            error: "CUDA_ERROR_INVALID_VALUE".to_owned(),
            code: 1,
            site: call,
        }),
        ..finding(FindingKind::FailedFree, Kind::Linear, 1, MIB)
    });
    assert_snapshot!(rendered(&report));
}

#[test]
fn a_free_of_nothing_is_reported_without_a_size() {
    let report = with(Finding {
        bytes: 0,
        site: Site::default(),
        failed: Some(FailedFree {
            error: "CUDA_ERROR_INVALID_VALUE".to_owned(),
            code: 1,
            site: sample::site(),
        }),
        ..finding(FindingKind::FailedFree, Kind::Linear, 2, 0)
    });
    assert_snapshot!(rendered(&report));
}

#[test]
fn a_retained_reserve_names_its_holder() {
    let report = with(Finding {
        resource: None,
        pool: Some(PoolName::Default),
        each: None,
        bytes: 32 * MIB,
        site: Site::default(),
        confirmed: Some(Confirmation::by_second_run(0, 32 * MIB)),
        notes: vec!["cuMemPoolTrimTo(0) gave nothing back".to_owned()],
        ..finding(FindingKind::Retained, Kind::Block, 1, 0)
    });
    assert_snapshot!(rendered(&report));
}

#[test]
fn memory_created_once_and_kept_is_reported_as_first_use() {
    let report = with(finding(FindingKind::FirstUse, Kind::Linear, 1, 400));
    assert_snapshot!(rendered(&report));
}

#[test]
fn memory_freed_by_a_later_run_is_reported_as_deferred() {
    let report = with(finding(FindingKind::Deferred, Kind::Linear, 1, 400));
    assert_snapshot!(rendered(&report));
}

#[test]
fn an_unconfirmed_leak_is_reported_with_the_reason() {
    let report = Report {
        reason: Some(Reason::new(
            Code::NotRepeatable,
            "the second run, which was meant to confirm the findings of the first run, ended \
             differently",
            "make the body repeatable",
        )),
        findings: vec![Finding {
            confirmed: Some(Confirmation::NotRepeatable),
            ..leak(Kind::Linear, 2, 400)
        }],
        ..report(CheckStatus::Inconclusive)
    };
    assert_snapshot!(rendered(&report));
}

#[test]
fn a_finding_says_in_how_many_of_three_runs_it_was_left() {
    let line = |kind, runs| {
        let report = with(Finding {
            confirmed: Some(Confirmation::Repeated {
                runs,
                of: 3,
                count: 1,
                bytes: 400,
            }),
            ..finding(kind, Kind::Linear, 1, 400)
        });
        let text = rendered(&report);
        let line = text.lines().find(|line| line.contains("confirmed"));
        line.expect("a line").trim_start().to_owned()
    };
    for (kind, runs, says) in [
        (FindingKind::Leaked, 3, "left in all 3 runs: not one-time"),
        (
            FindingKind::Leaked,
            2,
            "left in 2 of 3 runs, including the last: not one-time",
        ),
        (FindingKind::OverBudget, 3, "exceeded in all 3 runs: not"),
        (FindingKind::Retained, 3, "kept in all 3 runs: not"),
        (
            FindingKind::FirstUse,
            1,
            "left by 1 of 3 runs, but not by the last: one-time",
        ),
    ] {
        let line = line(kind, runs);
        assert!(line.starts_with(&format!("confirmed  {says}")), "{line}");
    }
}

#[test]
fn a_leak_beside_first_use_gets_a_remedy_each() {
    let first_use = finding(FindingKind::FirstUse, Kind::Module, 1, 0);
    let report = Report {
        findings: vec![leak(Kind::Pinned, 1, 4 * KIB), first_use],
        ..with(leak(Kind::Pinned, 1, 4 * KIB))
    };
    assert_snapshot!(rendered(&report));
}

#[test]
fn an_allocators_blocks_carry_its_name() {
    let report = with(Finding {
        layer: Layer::allocator("cubecl"),
        foreign_thread: Some("dataloader-2".to_owned()),
        holders: None,
        ..leak(Kind::Block, 4, 2 * MIB)
    });
    assert_snapshot!(rendered(&report));
}

#[test]
fn memory_within_a_tolerance_is_allowed() {
    assert_snapshot!(rendered(&with(finding(
        FindingKind::Allowed,
        Kind::Linear,
        1,
        512
    ))));
}

#[test]
fn memory_allowed_by_an_entry_is_reported_with_its_reason_and_expiry() {
    assert_snapshot!(rendered(&with(Finding {
        allowed_by: Some(AllowedBy {
            stands_in: "gpu-leak-check.toml:12".to_owned(),
            reason: "a table for the whole process".to_owned(),
            owner: Some("the runtime team".to_owned()),
            expired: Some("2026-05-31".to_owned()),
        }),
        ..finding(FindingKind::Allowed, Kind::Linear, 1, 512)
    })));
}

#[test]
fn several_devices_share_their_columns() {
    let second = DeviceTable {
        place: Place::cuda(1),
        name: None,
        uuid: None,
        rows: vec![Row {
            layer: "allocator:gpu-leak-kernels".to_owned(),
            figure: Figure::Allocated,
            baseline: 1023,
            after: 1023 * MIB,
            peak: None,
        }],
        whole: None,
    };
    let elsewhere = Finding {
        place: Place::cuda(1),
        ..leak(Kind::Managed, 1, MIB)
    };
    let report = Report {
        devices: vec![device(), second],
        findings: vec![leak(Kind::Linear, 1, MIB), elsewhere],
        ..report(CheckStatus::Found(FindingKind::Leaked))
    };
    assert_snapshot!(rendered(&report));
}

#[test]
fn the_whole_device_is_shown_below_its_layers_with_its_known_parts() {
    let part = |purpose, bytes| Part { purpose, bytes };
    let whole = |baseline, after, parts: &[Part], unexplained, hints: &[&str]| DeviceTable {
        whole: Some(WholeDevice {
            second_run: baseline == 0,
            baseline,
            after,
            parts: parts.to_vec(),
            unexplained,
            hints: hints.iter().map(|hint| (*hint).to_owned()).collect(),
        }),
        ..device()
    };
    let known = [
        part(Purpose::Driver, 1 << 20),
        part(Purpose::PoolReserve, 31 << 20),
    ];
    let back = [part(Purpose::Driver, -4 << 20)];
    let report = Report {
        devices: vec![
            whole(500 * MIB, 532 * MIB, &known, 0, &[]),
            whole(
                500 * MIB,
                680 * MIB,
                &known,
                148 << 20,
                &["2 more modules loaded"],
            ),
            whole(500 * MIB, 496 * MIB, &back, 0, &[]),
            whole(0, 32 * MIB, &known, 0, &[]),
            whole(500 * MIB, 510 * MIB, &[], 10 << 20, &[]),
            whole(500 * MIB, 500 * MIB, &[], 0, &[]),
        ],
        ..report(CheckStatus::Clean)
    };
    assert_snapshot!(rendered(&report));
}

#[test]
fn nothing_to_measure_gives_the_reason_and_the_remedy() {
    let report = Report {
        reason: Some(Reason::new(
            Code::NoGpu,
            "no CUDA driver is loaded in this process and no other allocator reported",
            "run this test on a machine with a GPU, or report an allocator through `observe`",
        )),
        ..report(CheckStatus::NotMeasured)
    };
    assert_snapshot!(rendered(&report));
}

#[test]
fn an_inconclusive_check_says_why() {
    let report = Report {
        reason: Some(Reason::new(
            Code::Poisoned,
            "the context of cuda:0 was already in an error state, left by test `kernels::out_of_bounds`",
            "fix that test, or run this one in a process of its own",
        )),
        devices: vec![device()],
        ..report(CheckStatus::Inconclusive)
    };
    assert_snapshot!(rendered(&report));
}

#[test]
fn a_clean_check_is_short() {
    let report = Report {
        again: None,
        ..report(CheckStatus::Clean)
    };
    assert_snapshot!(rendered(&report));
}

#[test]
fn an_aborted_test_is_named_as_such() {
    assert_snapshot!(rendered(&report(CheckStatus::Aborted)));
}

#[test]
fn only_the_first_ten_findings_are_shown_one_by_one() {
    let many = |number| Finding {
        notes: vec![format!("number {number}")],
        ..leak(Kind::Linear, 1, MIB)
    };
    let report = Report {
        findings: (1..=14).map(many).collect(),
        ..report(CheckStatus::Found(FindingKind::Leaked))
    };
    let text = rendered(&report);
    assert!(
        text.contains("number 10\n") && !text.contains("number 11\n"),
        "{text}"
    );
    assert!(
        text.contains("\n… and 4 more findings, 4.00 MiB\n"),
        "{text}"
    );
}

#[test]
fn without_line_tables_the_report_says_how_to_get_them() {
    let bare = |function: &str| Frame {
        file: None,
        line: None,
        column: None,
        ..sample::frame(function, "", 0, 0)
    };
    let report = with(Finding {
        site: Site {
            frames: vec![bare("optim::Adam::step"), bare("train::epoch")],
            user: Some(0),
            ..sample::site()
        },
        ..leak(Kind::Linear, 1, MIB)
    });
    assert_snapshot!(rendered(&report));
}

#[test]
fn code_without_any_name_is_shown_by_library_and_offset() {
    let report = with(Finding {
        site: Site {
            frames: vec![Frame {
                module: Some("libtorch_cuda.so".into()),
                offset: Some(0x12_34ab),
                owner: Owner::Native,
                ..Frame::default()
            }],
            user: Some(0),
            ..sample::site()
        },
        ..leak(Kind::Linear, 1, MIB)
    });
    assert_snapshot!(rendered(&report));
}

#[test]
fn a_long_line_and_one_with_tabs_keep_their_marks() {
    let at = |line, column| Finding {
        site: Site {
            frames: vec![sample::frame(
                "optim::Adam::long",
                "src/optim.rs",
                line,
                column,
            )],
            user: Some(0),
            ..sample::site()
        },
        ..leak(Kind::Linear, 1, MIB)
    };
    let report = Report {
        findings: vec![at(14, 43), at(16, 146), at(16, 5), at(999, 1)],
        ..report(CheckStatus::Found(FindingKind::Leaked))
    };
    assert_snapshot!(rendered(&report));
}

#[test]
fn notes_and_a_long_wait_come_before_the_help() {
    let report = Report {
        notes: vec![
            "context 2 was destroyed in the test; its 3 allocations went with it".to_owned(),
        ],
        waited_ms: 12_340,
        ..with(leak(Kind::Linear, 1, MIB))
    };
    assert_snapshot!(rendered(&report));
}
