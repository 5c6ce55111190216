//! Tests of the page in a browser: that its console has no messages, that search and filters work,
//! and that it is accessible.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::browser::{Chromium, View};
use crate::support::{checked, checked_in, file_of, gpu_leak};

/// Writes the page of a run to a file next to the run.
fn page_of(run: &Path) -> PathBuf {
    let page = run.join("page.html");
    let options = ["--format=html".as_ref(), "--out".as_ref(), page.as_os_str()];
    let reported = gpu_leak(
        ["report".as_ref(), run.as_os_str()]
            .into_iter()
            .chain(options),
    );
    assert_eq!(reported.code, Some(1), "{reported:?}");
    page
}

const SAMPLE: [&str; 5] = [
    "keeps_a_tensor",
    "keeps_two_tensors",
    "keeps_more_each_round",
    "takes_too_much",
    "gives_back",
];

/// Writes a page with the results of real checks.
fn sample(base: &Path) -> PathBuf {
    page_of(&checked(base, "r", &SAMPLE))
}

/// Adds `count` verdicts to the run, each made from the text of the first one by `change`.
fn add(run: &Path, count: usize, change: impl Fn(usize, &str) -> String) {
    let file = file_of(run);
    let text = fs::read_to_string(&file).expect("the file");
    let mut lines = text.lines();
    let verdict = lines.find(|line| line.contains("\"record\":\"verdict\""));
    let verdict = verdict.expect("a verdict");
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .expect("the file");
    for at in 1..=count {
        writeln!(file, "{}", change(at, verdict)).expect("a line");
    }
}

#[track_caller]
fn assert_silent(view: &View) {
    assert_eq!(view.console(), [] as [&str; 0]);
}

#[test]
fn search_filters_and_folds_work_and_the_console_is_silent() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let base = tempfile::tempdir().expect("a directory");
    let page = sample(base.path());
    let view = chromium.open(&page, "");
    assert_eq!(view.shown(), "5 of 5 findings, 5 of 5 tests shown");
    assert_eq!(view.count("details[open]"), 0);

    // The search can be used with the keyboard alone.
    view.press("/");
    view.type_in("keeps_two_tensors");
    assert_eq!(view.shown(), "2 of 5 findings, 1 of 5 tests shown");
    view.press("Escape");
    assert_eq!(view.shown(), "5 of 5 findings, 5 of 5 tests shown");

    view.click("button[data-status=leaked]");
    assert_eq!(view.shown(), "2 of 5 findings, 3 of 5 tests shown");
    let pressed = "document.querySelector('button[data-status=leaked]').ariaPressed";
    assert_eq!(view.value(pressed), "false");
    view.click("button[data-status=leaked]");

    view.click("#unfold-shown");
    assert_eq!(view.count(".list > details[open]"), 10);
    view.click("#fold-all");
    assert_eq!(view.count("details[open]"), 0);

    // The keyboard unfolds a summary.
    view.value("document.querySelector('details.finding summary').focus() ?? null");
    view.press("Enter");
    assert_eq!(view.count("details.finding[open]"), 1);
    assert_silent(&view);
}

#[test]
fn a_link_opens_a_view_or_a_place() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let base = tempfile::tempdir().expect("a directory");
    let page = sample(base.path());
    let view = chromium.open(&page, "search=keeps_two&unfold");
    assert_eq!(view.shown(), "2 of 5 findings, 1 of 5 tests shown");
    assert_eq!(view.count(".list > details[open]"), 3);
    let view = chromium.open(&page, "status=over-budget");
    assert_eq!(view.shown(), "1 of 5 findings, 1 of 5 tests shown");
    let view = chromium.open(&page, "finding-2");
    assert_eq!(view.count("details[open]"), 1);
    assert_eq!(
        view.value("document.querySelector('details[open]').id"),
        "finding-2"
    );
    // A link in a test leads to its finding.
    view.click("#test-1 > summary");
    view.click("#test-1 .body a");
    let opened = "document.querySelector(location.hash + '.finding').open";
    assert_eq!(view.value(opened), true);
    assert_silent(&view);
}

#[test]
fn both_themes_are_accessible_at_any_width() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let base = tempfile::tempdir().expect("a directory");
    let page = sample(base.path());
    let mut pictures = Vec::new();
    for theme in ["light", "dark"] {
        let view = chromium.open(&page, &format!("theme={theme}&unfold"));
        view.value(
            "document.querySelectorAll('.stack').forEach((it) => { it.open = true; }) ?? null",
        );
        for (name, width) in [("wide", 1280), ("narrow", 390)] {
            view.resize(width, 900);
            let wider = "document.documentElement.scrollWidth - innerWidth";
            assert_eq!(view.value(wider), 0, "{theme}, {name}: nothing hangs out");
            pictures.push(view.screenshot(&format!("{theme}-{name}")));
            if let Some(violations) = view.inaccessible() {
                assert_eq!(violations, [] as [&str; 0], "{theme}, {name}");
            }
        }
        assert_silent(&view);
    }
    pictures.dedup();
    assert_eq!(pictures.len(), 4, "each looks different");

    let view = chromium.open(&page, "theme=light");
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = view.value(ground);
    view.click("#theme");
    assert_ne!(view.value(ground), light);
}

/// On a narrow screen a table scrolls and no name in it is broken. The page still shows what a
/// reader needs to locate a finding.
#[test]
fn names_stay_whole_on_a_narrow_screen_and_findings_show_their_facts() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let base = tempfile::tempdir().expect("a directory");
    let view = chromium.open(&sample(base.path()), "unfold");
    view.resize(375, 900);
    let broken = "[...document.querySelectorAll('td.name')].filter((cell) => { \
        const range = document.createRange(); \
        range.selectNode(cell.lastChild); \
        return range.getClientRects().length > 1; \
    }).map((cell) => cell.textContent).join()";
    assert!(view.count("td.name") > 10);
    assert_eq!(view.value(broken), "");
    let finding = view.text("details.finding[data-status=leaked]");
    for label in [
        "confirmed",
        "not one-time set-up",
        "when",
        "this line",
        "unknown: a static of its allocator refers to every block",
    ] {
        assert!(finding.contains(label), "{label}: {finding}");
    }
    let test = view.text("details.test[data-status=leaked]");
    assert!(
        test.contains("help: free it before the test ends"),
        "{test}"
    );
    let environment = view.text(".environment");
    for label in ["began", "UTC", "machine", "devices", "embedded:0"] {
        assert!(environment.contains(label), "{label}: {environment}");
    }
}

#[test]
fn a_timeline_is_a_picture_with_words_and_numbers() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let base = tempfile::tempdir().expect("a directory");
    let page = sample(base.path());
    let view = chromium.open(&page, "search=planted::keeps_a_tensor&unfold");
    let figure = "details.test:not([hidden]) figure";
    assert_eq!(view.count(figure), 1);
    // There are two runs: the judged run and the confirming run.
    assert_eq!(view.count(&format!("{figure} rect.run")), 2);
    assert_eq!(view.count(&format!("{figure} rect.again")), 1);
    assert_eq!(view.count(&format!("{figure} path.mark")), 1);
    let described = view.value(&format!(
        "document.querySelector({figure:?} + ' desc').textContent"
    ));
    let described = described.as_str().expect("text");
    let words = "judged run: allocated by allocator:gpu-leak-kernels: 0 B at the start, 1.00 KiB at the end, 1.00 KiB at the peak.";
    assert!(described.contains(words), "{described}");
    assert!(view.text(&format!("{figure} table")).contains("1.00 KiB"));

    let view = chromium.open(&page, "search=keeps_more_each_round&unfold");
    assert_eq!(view.count(&format!("{figure} rect.run")), 4, "a round each");
}

/// A click lists the allocations that were live at that call. Their total equals the value of the
/// curve, which is drawn from other data.
#[test]
fn a_click_on_the_curve_lists_what_was_live_there() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let base = tempfile::tempdir().expect("a directory");
    let ask = [("GPU_LEAK_CHECK_PEAKS", "true")];
    let run = checked_in(base.path(), "r", &["has_a_peak"], None, &ask);
    let page = run.join("page.html");
    let options = ["--format=html".as_ref(), "--out".as_ref(), page.as_os_str()];
    let reported = gpu_leak(
        ["report".as_ref(), run.as_os_str()]
            .into_iter()
            .chain(options),
    );
    assert_eq!(reported.code, Some(0), "{reported:?}");
    let text = fs::read_to_string(file_of(&run)).expect("the file");
    let is_verdict = |line: &&str| line.contains("\"record\":\"verdict\"");
    let verdict = text.lines().find(is_verdict).expect("a verdict");
    let verdict: Value = serde_json::from_str(verdict).expect("JSON");
    let curves = verdict["timeline"]["runs"][0]["curves"]
        .as_array()
        .expect("curves");
    let layer = "allocator:gpu-leak-kernels";
    let is_blocks = |it: &&Value| it["layer"] == layer && it["figure"] == "allocated";
    let blocks = curves.iter().find(is_blocks).expect("blocks");

    let view = chromium.open(&page, "unfold");
    // Before any click, the page shows the peak with its lines.
    let test = view.text("details.test");
    assert!(
        test.contains("the peak of 12.0 KiB in the layer allocator:gpu-leak-kernels"),
        "{test}"
    );
    let box_of = "document.querySelector('.moments')";
    let point_of = |call: u64| {
        let middle = format!(
            "(() => {{ const {{ runs: [run] }} = JSON.parse({box_of}.dataset.moments); \
             const svg = {box_of}.closest('figure').querySelector('.plot svg'); \
             svg.scrollIntoView({{ block: 'center' }}); \
             const x = run.left + run.width * ({call} + 0.5) / (run.calls + 1); \
             const point = new DOMPoint(x, 60).matrixTransform(svg.getScreenCTM()); \
             return [point.x, point.y]; }})()"
        );
        let point = view.value(&middle);
        [0, 1].map(|at| point[at].as_f64().expect("a coordinate"))
    };
    let mut clicked = 0;
    for point in blocks["points"].as_array().expect("points") {
        let (call, value) = (point[0].as_u64().expect("a call"), point[2].as_u64());
        let [x, y] = point_of(call);
        view.click_at(x, y);
        let live = view.text(".live");
        let value = value.expect("bytes").to_string();
        let value = match value.len() {
            4.. => format!(
                "{},{}",
                &value[..value.len() - 3],
                &value[value.len() - 3..]
            ),
            _ => value,
        };
        let title = format!("{value} bytes of {layer} were live after call {call} of");
        assert!(live.contains(&title), "{title}: {live}");
        // The bytes of the listed lines add up to the value of the curve.
        let sum = format!(
            "[...document.querySelectorAll('.live h3')].filter((it) => it.textContent.includes({layer:?})) \
             .flatMap((it) => [...(it.nextElementSibling?.querySelectorAll('tbody tr') ?? [])]) \
             .reduce((sum, row) => sum + Number(row.cells[0].textContent.replaceAll(',', '')), 0)"
        );
        assert_eq!(view.value(&sum), point[2], "call {call}: {live}");
        clicked += 1;
    }
    assert!(clicked >= 20, "{clicked} calls");

    // The slider has the same effect, with the keyboard alone.
    let set = format!("{box_of}.querySelector('input').focus() ?? null");
    view.value(&set);
    view.press("Home");
    let live = view.text(".live");
    assert!(
        live.contains("0 bytes of") && live.contains("before the first call"),
        "{live}"
    );
    view.press("ArrowRight");
    assert!(
        view.text(".live").contains("after call 1 of"),
        "{}",
        view.text(".live")
    );
    view.screenshot("moment");
    if let Some(violations) = view.inaccessible() {
        assert_eq!(violations, [] as [&str; 0]);
    }
    assert_silent(&view);
}

/// Returns a copy of the verdict whose finding is on another line, so that it is another finding.
fn at_another_line(verdict: &str, at: usize) -> String {
    let (before, frames) = verdict.split_once("\"frames\":").expect("a call site");
    let line = "planted.rs\",\"line\":";
    let frames = frames.replace(line, &format!("{line}{at}"));
    format!("{before}\"frames\":{frames}")
}

#[test]
fn hostile_names_are_text() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["keeps_a_tensor"]);
    let hostile = [
        "<script>document.title='taken'</script>",
        "<img src=x onerror=document.title='taken'>",
        "]]>\\u001b[2J\\u202eevil",
        "\\\" onmouseover=\\\"document.title='taken'",
        &"long ".repeat(2_000),
    ];
    add(&run, hostile.len(), |at, verdict| {
        let name = hostile[at - 1];
        let verdict = verdict
            .replace("planted::keeps_a_tensor", name)
            .replace("embedded:0", "<b>embedded</b>")
            .replace("\"function\":\"", &format!("\"function\":\"{name}"));
        at_another_line(&verdict, at)
    });
    let view = chromium.open(&page_of(&run), "unfold");
    assert_silent(&view);
    assert_eq!(view.shown(), "6 of 6 findings, 6 of 6 tests shown");
    assert_eq!(view.count(".list > details[open]"), 12);
    let title = view.value("document.title");
    assert!(
        title
            .as_str()
            .expect("text")
            .starts_with("GPU leak check: 6 checked")
    );
    assert_eq!(
        view.count("img, b:not(.tiles b), [onmouseover], script:not(body > script)"),
        0
    );
    let text = view.text("main");
    for name in &hostile[..2] {
        assert!(text.contains(name), "{name} is shown as it is");
    }
    assert!(text.contains("\\u{1b}[2J\\u{202e}evil"), "spelled out");
    view.resize(390, 900);
    assert_eq!(
        view.value("document.documentElement.scrollWidth - innerWidth"),
        0
    );
    view.screenshot("hostile");
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "prints a measurement for interested readers"
)]
fn ten_thousand_findings_are_all_shown_and_searchable() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["keeps_a_tensor"]);
    add(&run, 9_999, |at, verdict| {
        let verdict = verdict.replace("planted::keeps_a_tensor", &format!("planted::test_{at}"));
        at_another_line(&verdict, at)
    });
    let page = page_of(&run);
    let text = fs::read_to_string(&page).expect("a page");
    assert_eq!(text.matches("<details class=\"finding\"").count(), 100);
    assert!(text.contains("Showing the first 100 of 10,000 findings."));
    // Each finding has a line of about 400 bytes that says what holds it.
    assert!(text.len() < 17 * 1024 * 1024, "{} bytes", text.len());
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let view = chromium.open(&page, "");
    assert_eq!(
        view.shown(),
        "10000 of 10000 findings, 10000 of 10000 tests shown"
    );
    // The first hundred findings are on the page, and a button lists more.
    assert_eq!(view.count("details.finding"), 100);
    let reported = "100 of 10000 are listed.List 100 more";
    assert_eq!(view.text("#findings-rest").replace('\n', ""), reported);
    view.click("#findings-rest button");
    assert_eq!(view.count("details.finding"), 200);
    let focused = "document.activeElement.parentElement.id";
    assert_eq!(view.value(focused), "finding-101");
    // Following a link to a finding that is not listed yet adds it to the list and opens it.
    view.value("(location.hash = 'finding-9999') && null");
    view.value("new Promise((done) => setTimeout(() => done(null)))");
    assert_eq!(view.count("#finding-9999[open] .stack pre"), 1);
    assert_eq!(view.count("details.finding"), 201);
    let filter = |text: &str| {
        let set = format!(
            "(() => {{ const begun = performance.now(); const it = document.getElementById('search'); \
             it.value = {text:?}; it.dispatchEvent(new Event('input')); document.body.offsetHeight; \
             return performance.now() - begun; }})()"
        );
        view.value(&set)
    };
    let (first, second) = (filter("test_77"), filter("test_777"));
    assert_eq!(
        view.shown(),
        "11 of 10000 findings, 11 of 10000 tests shown"
    );
    let loaded = view.value("performance.timing.loadEventEnd - performance.timing.navigationStart");
    println!(
        "{} bytes, loaded in {loaded} ms; the first search took {first} ms, the second {second} ms",
        text.len()
    );
    view.screenshot("ten-thousand");
    assert_silent(&view);
}
