//! The page in a browser, where one is: without a word on its console, with its filter and folds.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{checked, file_of, gpu_leak};

/// The browser, where it is installed.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

/// The page's content once its script has run with the view `hash`, and what its console says.
fn opened(browser: &Path, page: &Path, hash: &str) -> (String, Vec<String>) {
    let profile = tempfile::tempdir().expect("a folder");
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}#{hash}", page.display()))
        .output()
        .expect("the browser runs");
    let told = String::from_utf8_lossy(&output.stderr);
    let console = told.lines().filter(|line| line.contains("CONSOLE"));
    let console = console.map(str::to_owned).collect();
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        console,
    )
}

/// Writes the page of a run beside it.
fn page_of(run: &Path) -> PathBuf {
    let page = run.join("page.html");
    let options = ["--format=html".as_ref(), "--out".as_ref(), page.as_os_str()];
    let told = gpu_leak(
        ["report".as_ref(), run.as_os_str()]
            .into_iter()
            .chain(options),
    );
    assert_eq!(told.code, Some(1), "{told:?}");
    page
}

#[test]
#[expect(clippy::print_stdout, reason = "says why nothing was tested")]
fn search_filter_and_folds_work_and_the_console_is_silent() {
    let Some(browser) = browser() else {
        println!("skipped: chromium is not installed");
        return;
    };
    let base = tempfile::tempdir().expect("a folder");
    let run = checked(base.path(), "r", &["keeps_a_tensor", "keeps_two_tensors"]);
    let page = page_of(&run);
    let opened = |hash: &str| {
        let (content, console) = opened(&browser, &page, hash);
        assert_eq!(console, [] as [&str; 0]);
        content
    };
    let plain = opened("");
    assert!(plain.contains(">3 of 3 shown<"), "{plain}");
    assert_eq!(plain.matches("open=\"\"").count(), 0, "{plain}");
    assert!(opened("search=keeps_a_tensor").contains(">1 of 3 shown<"));
    assert!(opened("search=nowhere").contains(">0 of 3 shown<"));
    assert!(opened("verdict=retained").contains(">0 of 3 shown<"));
    let unfolded = opened("search=keeps_two&unfold");
    assert_eq!(unfolded.matches("open=\"\"").count(), 2, "{unfolded}");
}

#[test]
fn a_page_of_ten_thousand_findings_has_them_all_and_stays_small() {
    let base = tempfile::tempdir().expect("a folder");
    let run = checked(base.path(), "r", &["keeps_a_tensor"]);
    let file = file_of(&run);
    let text = fs::read_to_string(&file).expect("the file");
    let verdict = text
        .lines()
        .find(|line| line.contains("\"verdict\""))
        .expect("a verdict");
    let (before, after) = verdict
        .split_once("\"fingerprint\":\"1-")
        .expect("a fingerprint");
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .expect("the file");
    for at in 1..10_000 {
        writeln!(file, "{before}\"fingerprint\":\"1-{at}{after}").expect("a line");
    }
    let page = fs::read_to_string(page_of(&run)).expect("a page");
    assert_eq!(page.matches("<details").count(), 10_000);
    assert!(page.len() < 40 * 1024 * 1024, "{} bytes", page.len());
}
