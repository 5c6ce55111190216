//! Reports show names with control characters or markup as plain text.

use gpu_leak_check::ledger::{Kind, Layer, Place};
use gpu_leak_check::report::check_report::{
    AllowedBy, CheckStatus, Finding, Library, Reason, Report, Site,
};
use gpu_leak_check::report::{Code, headline};
use insta::assert_snapshot;

use super::sample::{self, MIB, device, leak, rendered, report, with};

/// Clears the screen, reverses text, opens a script, and returns to the beginning of the line.
const NAME: &str = "\x1b[2J\u{202e}<script>alert(1)</script>\r\u{9b}31m\0";

fn hostile(name: &str) -> Report {
    let mut device = device();
    device.name = Some(name.to_owned());
    device.rows[0].layer = name.to_owned();
    let finding = Finding {
        layer: Layer::allocator(name),
        place: Place::named(name),
        site: Site {
            frames: vec![
                sample::frame(name, name, 3, 7),
                sample::frame(name, name, 4, 7),
            ],
            user: Some(0),
            fingerprint: name.to_owned(),
            library: Some(Library {
                name: name.to_owned(),
                function: Some(name.to_owned()),
                file: Some(name.to_owned()),
                called_by: Some(name.to_owned()),
                known: Some(name.to_owned()),
            }),
        },
        allowed_by: Some(AllowedBy {
            owner: Some(name.to_owned()),
            expired: Some(name.to_owned()),
            stands_in: name.to_owned(),
            reason: name.to_owned(),
        }),
        foreign_thread: Some(name.to_owned()),
        holders: None,
        notes: vec![name.to_owned()],
        ..leak(Kind::Linear, 1, MIB)
    };
    Report {
        test: name.to_owned(),
        file: name.to_owned(),
        notes: vec![name.to_owned()],
        devices: vec![device],
        configured_by: Some(name.to_owned()),
        again: Some(name.to_owned()),
        ..with(finding)
    }
}

#[test]
fn nothing_in_a_name_reaches_the_terminal_as_a_command() {
    let text = rendered(&hostile(NAME));
    assert_snapshot!(text);
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
    assert!(!text.contains('\u{202e}'), "{text:?}");
}

#[test]
fn a_headline_stays_one_line() {
    let mut reports = vec![hostile("one\ntwo\x1b[2J")];
    reports.push(Report {
        reason: Some(Reason::new(Code::NoGpu, "one\ntwo\x1b[2J", "")),
        ..report(CheckStatus::NotMeasured)
    });
    for report in reports {
        let line = headline(&report);
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert!(line.contains("one\\u{a}two"), "{line}");
    }
}

#[test]
fn a_name_of_ten_thousand_characters_does_not_fill_the_screen() {
    let text = rendered(&hostile(&"n".repeat(10_000)));
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(text.len() < 10 * 1024, "{} bytes", text.len());
    assert!(longest < Some(1200), "{longest:?}");
}
