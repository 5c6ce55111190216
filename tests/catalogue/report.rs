//! Compares the report of a program with the program's row of the table.

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{
    CheckStatus, Confirmation, Finding, FindingKind, PassageKind, Report,
};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::fake::Fake;

use crate::table::{Held, Named, Row};

/// The number of locations in a finding that a reader is assumed to look at.
const MOST_LOCATIONS: usize = 12;

/// The number of columns and rows of a typical terminal.
const SCREEN: (usize, usize) = (80, 24);
/// Programs whose report fits on one screen together with the panic message.
const ON_ONE_SCREEN: &[&str] = &[
    "aside::collections::shapes",
    "aside::flow::record",
    "aside::ownership::batch",
    "aside::sharing::display",
    "aside::sharing::menu",
    "containers::metrics",
    "counting::shared",
    "handles::recorder",
    "sharing::scene",
    "statics::document",
];

/// The source files of the programs, by module.
const SOURCES: &[(&str, &str)] = &[
    ("aside::collections", include_str!("aside/collections.rs")),
    ("aside::flow", include_str!("aside/flow.rs")),
    ("aside::ownership", include_str!("aside/ownership.rs")),
    ("aside::sharing", include_str!("aside/sharing.rs")),
    ("branches", include_str!("branches.rs")),
    ("containers", include_str!("containers.rs")),
    ("counting", include_str!("counting.rs")),
    ("drops", include_str!("drops.rs")),
    ("handles", include_str!("handles.rs")),
    ("sharing", include_str!("sharing.rs")),
    ("statics", include_str!("statics.rs")),
];

/// A place in a report: a line, a function or both.
#[derive(Debug, Default)]
struct Location {
    function: Option<String>,
    line: Option<(String, u32)>,
}

/// Fails unless the report of this program agrees with its row.
pub(crate) fn assert_as_in(row: &Row) {
    let checked = run(row);
    let output = checked.output();
    let report = checked.report();
    assert_eq!(left(report), sorted(row.left.to_vec()), "{output}");
    let fails = row.left.iter().any(|(kind, ..)| kind.is_failure());
    assert_eq!(checked.child.status.success(), !fails, "{output}");
    if row.left.is_empty() {
        assert_eq!(report.status, CheckStatus::Clean, "{output}");
    }
    for finding in &report.findings {
        assert_true(finding, row, &output);
    }
    assert_eq!(named(&checked, row), row.named, "{output}");
    if ON_ONE_SCREEN.contains(&row.program) {
        let rows = rows(&checked.child.stderr);
        assert!((1..=SCREEN.1).contains(&rows), "{rows}\n{output}");
    }
}

/// Returns the number of rows on a screen from the panic message to the end of the report.
fn rows(printed: &str) -> usize {
    let lines = printed
        .lines()
        .skip_while(|line| !line.starts_with("thread '"));
    let mut is_over = false;
    let lines = lines.take_while(|line| {
        let is_part = !is_over;
        is_over = line.starts_with("again: ");
        is_part
    });
    lines
        .map(|line| line.chars().count().div_ceil(SCREEN.0).max(1))
        .sum()
}

fn run(row: &Row) -> Checked {
    let fake = Fake::new();
    let run = fake.run(&format!("{}::program", row.program));
    // This gives the search for holders enough time on any machine.
    checked::finish(run.env("GPU_LEAK_CHECK_HELD_BY", "600s"))
}

/// A finding: its kind, and the kind, number and bytes of its resources.
type Left = (FindingKind, Kind, u64, u64);

fn left(report: &Report) -> Vec<Left> {
    let findings = report.findings.iter();
    let left = findings.map(|finding| {
        let resource = finding.resource.expect("a kind of resource");
        (finding.kind, resource, finding.count, finding.bytes)
    });
    sorted(left.collect())
}

fn sorted(mut left: Vec<Left>) -> Vec<Left> {
    left.sort();
    left
}

/// Fails if the report makes a false statement about the cause of a finding.
fn assert_true(finding: &Finding, row: &Row, output: &str) {
    for others in &finding.siblings {
        let mut frees = locations(&others.freed_at).into_iter();
        let is_true = frees.any(|at| row.frees.iter().any(|free| is_in(&at, row, free)));
        assert!(is_true, "{}\n{output}", others.freed_at);
    }
    // If the finding has no siblings, a passage may show the free of a companion instead.
    let mut freed = finding
        .passages
        .iter()
        .filter(|_| !finding.siblings.is_empty());
    let freed = freed.find(|it| it.what == PassageKind::Freed);
    if let Some(freed) = freed {
        let at = Location {
            function: freed.frame.function.as_deref().map(str::to_owned),
            line: None,
        };
        let is_true = row.frees.iter().any(|free| is_in(&at, row, free));
        assert!(is_true, "{freed:?}\n{output}");
    }
    let holders = finding.holders.as_deref();
    match (row.held, holders) {
        (_, None) => {}
        (Held::Nowhere, Some(holders)) => assert_eq!(holders, [], "{output}"),
        (Held::By(name), Some(holders)) => {
            let is_it =
                |given: &Option<String>| given.as_deref().is_some_and(|it| it.ends_with(name));
            let is_true = !holders.is_empty() && holders.iter().all(|it| is_it(&it.root.name));
            assert!(is_true, "{output}");
        }
    }
    if finding.kind == FindingKind::Leaked {
        let again = Confirmation::by_second_run(finding.count, finding.bytes);
        assert_eq!(finding.confirmed, Some(again), "{output}");
    }
}

/// Returns how precisely the report locates the mistake.
fn named(checked: &Checked, row: &Row) -> Named {
    let Some(owner) = row.owner else {
        return Named::Nowhere;
    };
    let mistake = (file(row), mark(row).expect("a marked line"));
    let mut named = Named::Nowhere;
    let mut before = "";
    for finding in &checked.report().findings {
        let block = block(&checked.child.stderr, finding, &mut before);
        let mut locations = locations(block);
        if let Some((frame, _)) = finding.shown_frames() {
            // The finding's own line is printed without its function.
            let file = frame.file.as_deref().map(str::to_owned);
            let line = file.zip(frame.line);
            let itself = locations.iter_mut().find(|location| location.line == line);
            let itself = itself.expect("the finding's line is printed");
            itself.function = frame.function.as_deref().map(str::to_owned);
        }
        for location in locations.iter().take(MOST_LOCATIONS) {
            if location.line.as_ref() == Some(&mistake) {
                return Named::Line;
            }
            if is_in(location, row, owner) {
                named = Named::Function;
            }
        }
    }
    named
}

/// Returns the paragraph about a finding in the printed report. The search for it begins at
/// `before`, which then becomes the text after that paragraph.
fn block<'a>(printed: &'a str, finding: &Finding, before: &mut &'a str) -> &'a str {
    let rest = match before.is_empty() {
        true => printed,
        false => *before,
    };
    let head = format!("{}: {}", finding.kind.name(), finding.what());
    let (_, block) = rest.split_once(&head).expect("each finding is printed");
    let (block, after) = block.split_once("\n\n").expect("a table follows");
    *before = after;
    block
}

/// Returns the locations in a text, in order.
fn locations(text: &str) -> Vec<Location> {
    // Reports quote source lines with this mark.
    let reported = text.lines().filter(|line| !line.contains(" | "));
    let mut file = String::new();
    let mut all = Vec::new();
    for line in reported {
        of_line(line, &mut file, &mut all);
    }
    all
}

/// Adds the locations in a line such as
/// `called by  Mesh::load (:17) ← mesh::show (tests/catalogue/support.rs:24)`. A location in the
/// file of the innermost quoted line is printed without that file.
fn of_line(text: &str, file: &mut String, all: &mut Vec<Location>) {
    // A wrapper's location may follow in a heading, so only the first one determines the file.
    let mut is_heading = text.starts_with("  -->") || text.starts_with("  :::");
    let mut before = 0;
    for part in text.split_inclusive([' ', ')']) {
        let place = part.trim_matches(|it: char| it.is_whitespace() || "(),".contains(it));
        let (named, rest) = place.split_once(':').unwrap_or((place, ""));
        let line = rest.split(':').next().and_then(|line| line.parse().ok());
        let is_whole = named.starts_with("tests/catalogue/");
        if let Some(line) = line.filter(|_| is_whole || named.is_empty()) {
            if is_whole && is_heading {
                named.clone_into(file);
                is_heading = false;
            }
            let at = if is_whole { named } else { file.as_str() };
            let called = function(&text[..before]);
            all.push(Location {
                function: called.filter(|_| part.starts_with('(')),
                line: Some((at.to_owned(), line)),
            });
        }
        before += part.len();
    }
}

/// Returns the function at the end of a text: `Mesh::load` or `<Mesh as Drop>::drop`.
fn function(text: &str) -> Option<String> {
    let text = text.trim_end();
    let start = match text.rfind(" as ") {
        Some(at) if !text[at + 4..].contains(' ') => text[..at].rfind('<')?,
        _ => text.rfind(' ').map_or(0, |at| at + 1),
    };
    Some(text[start..].to_owned())
}

/// Whether a location is in this function of a program. Reports give the path's last two parts.
fn is_in(location: &Location, row: &Row, function: &str) -> bool {
    let Some(name) = location.function.as_deref() else {
        return false;
    };
    let is_here = |(at, _): &(String, u32)| *at == file(row);
    if !location.line.as_ref().is_none_or(is_here) {
        return false;
    }
    let whole = format!("catalogue::{}::{function}", row.program);
    let parts: Vec<_> = whole.rsplit("::").take(2).collect();
    let short = format!("{}::{}", parts[1], parts[0]);
    // `<B as D>::drop` is written as `B::drop`.
    let name = match name
        .strip_prefix('<')
        .and_then(|name| name.split_once(" as "))
    {
        Some((of, name)) => {
            let (_, method) = name.rsplit_once(">::").unwrap_or_default();
            format!("{of}::{method}")
        }
        None => name.to_owned(),
    };
    let name = name.split("::{").next().unwrap_or_default();
    name == short || name == whole
}

/// Returns the file of a program, as reports name it.
fn file(row: &Row) -> String {
    let (module, _) = row.program.rsplit_once("::").expect("a module");
    format!("tests/catalogue/{}.rs", module.replace("::", "/"))
}

/// Returns the number of a program's marked line, or `None` if the program has no mistake.
pub(crate) fn mark(row: &Row) -> Option<u32> {
    let (module, program) = row.program.rsplit_once("::").expect("a module");
    let (_, source) = SOURCES
        .iter()
        .find(|(file, _)| *file == module)
        .expect("a file");
    let head = format!("mod {program} {{");
    let lines = source.lines().zip(1..);
    let inside = lines.skip_while(|(line, _)| *line != head);
    let inside = inside.take_while(|(line, _)| *line != "}");
    let mut marked = inside.filter(|(line, _)| line.ends_with(" // MISTAKE"));
    let first = marked.next();
    assert!(marked.next().is_none(), "{} has one mistake", row.program);
    first.map(|(_, number)| number)
}

/// Returns every program in the files.
pub(crate) fn names() -> Vec<String> {
    let programs = SOURCES.iter().flat_map(|(module, source)| {
        let heads = source.lines();
        let names = heads.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(" {"));
        names.map(move |name| format!("{module}::{name}"))
    });
    programs.collect()
}
