//! A page in headless Chromium: its console, its keyboard and links, and its appearance.
//!
//! Without Chromium these tests print a note and pass, unless `PAGE_TESTS=require` is set, as in
//! continuous integration. `AXE_CORE` is the path of `axe.min.js`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headless_chrome::browser::tab::point::Point;
use headless_chrome::protocol::cdp::types::Event;
use headless_chrome::protocol::cdp::{Emulation, Page};
use headless_chrome::{Browser, LaunchOptions, Tab};
use serde_json::Value;

/// Arguments that Chromium needs in containers, and that keep it from using the network.
const ARGUMENTS: [&str; 8] = [
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
];

/// The browser of one test.
pub(crate) struct Chromium {
    browser: Browser,
    _profile: tempfile::TempDir,
}

/// Whether a test must not be skipped.
fn is_required() -> bool {
    env::var_os("PAGE_TESTS").is_some_and(|value| value == "require")
}

impl Chromium {
    /// `None` if Chromium is not installed and not required.
    #[expect(clippy::print_stdout, reason = "says why nothing was tested")]
    pub(crate) fn start() -> Option<Self> {
        let Some(path) = installed() else {
            assert!(
                !is_required(),
                "PAGE_TESTS=require, and no chromium in PATH"
            );
            println!("skipped: chromium is not installed");
            return None;
        };
        let profile = tempfile::tempdir().expect("a directory");
        let options = LaunchOptions {
            path: Some(path),
            sandbox: false,
            user_data_dir: Some(profile.path().to_owned()),
            window_size: Some((1280, 900)),
            idle_browser_timeout: Duration::from_secs(300),
            args: ARGUMENTS.iter().map(AsRef::as_ref).collect(),
            ..LaunchOptions::default()
        };
        let browser = Browser::new(options).expect("chromium starts");
        Some(Self {
            browser,
            _profile: profile,
        })
    }

    /// Opens a page at `#hash`.
    pub(crate) fn open(&self, page: &Path, hash: &str) -> View {
        let tab = self.browser.new_tab().expect("a tab");
        tab.set_default_timeout(Duration::from_secs(120));
        let said = Arc::new(Mutex::new(Vec::new()));
        let console = Arc::clone(&said);
        let listener = move |event: &Event| {
            let entry = match event {
                Event::LogEntryAdded(event) => event.params.entry.text.clone(),
                Event::RuntimeConsoleAPICalled(event) => format!("{:?}", event.params.args),
                Event::RuntimeExceptionThrown(event) => event.params.exception_details.text.clone(),
                _ => return,
            };
            console.lock().expect("nobody panicked").push(entry);
        };
        tab.add_event_listener(Arc::new(listener)).expect("a tab");
        tab.enable_log().expect("a log");
        tab.enable_runtime().expect("a console");
        let view = View { tab, said };
        view.go(page, hash);
        view
    }
}

/// An open page.
pub(crate) struct View {
    tab: Arc<Tab>,
    said: Arc<Mutex<Vec<String>>>,
}

impl View {
    fn go(&self, page: &Path, hash: &str) {
        let address = format!("file://{}#{hash}", page.display());
        self.tab.navigate_to(&address).expect("an address");
        self.tab.wait_until_navigated().expect("the page loads");
    }

    /// The value of an expression in the page; promises are awaited.
    #[track_caller]
    pub(crate) fn value(&self, expression: &str) -> Value {
        let json = format!("Promise.resolve({expression}).then(JSON.stringify)");
        let object = self.tab.evaluate(&json, true).expect("an expression");
        match object.value {
            Some(Value::String(text)) => serde_json::from_str(&text).expect("JSON"),
            other => panic!("{expression}: {other:?}"),
        }
    }

    /// The text in which the page says how much it shows.
    #[track_caller]
    pub(crate) fn shown(&self) -> String {
        self.text("#shown")
    }

    /// The text of an element.
    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({selector:?}).innerText"));
        text.as_str().expect("text").to_owned()
    }

    /// How many elements match a selector.
    #[track_caller]
    pub(crate) fn count(&self, selector: &str) -> u64 {
        let count = self.value(&format!("document.querySelectorAll({selector:?}).length"));
        count.as_u64().expect("a number")
    }

    /// Presses a key in the focused element.
    pub(crate) fn press(&self, key: &str) {
        self.tab.press_key(key).expect("a key");
    }

    /// Types a text in the focused element.
    pub(crate) fn type_in(&self, text: &str) {
        self.tab.type_str(text).expect("text");
    }

    /// Clicks on an element.
    pub(crate) fn click(&self, selector: &str) {
        let element = self.tab.find_element(selector).expect("an element");
        element.click().expect("a click");
    }

    /// Clicks at this point of the window.
    pub(crate) fn click_at(&self, x: f64, y: f64) {
        self.tab.click_point(Point { x, y }).expect("a click");
    }

    /// Changes the width of the window, in pixels.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.tab
            .call_method(Emulation::SetDeviceMetricsOverride {
                width,
                height,
                device_scale_factor: 1.0,
                mobile: false,
                scale: None,
                screen_width: None,
                screen_height: None,
                position_x: None,
                position_y: None,
                dont_set_visible_size: None,
                screen_orientation: None,
                viewport: None,
                display_feature: None,
                device_posture: None,
            })
            .expect("a size");
    }

    /// A screenshot as PNG, which is also written to the directory that `SCREENSHOTS` names.
    pub(crate) fn screenshot(&self, name: &str) -> Vec<u8> {
        let format = Page::CaptureScreenshotFormatOption::Png;
        let image = self.tab.capture_screenshot(format, None, None, true);
        let image = image.expect("a picture");
        if let Some(directory) = env::var_os("SCREENSHOTS") {
            let file = PathBuf::from(directory).join(format!("{name}.png"));
            fs::write(file, &image).expect("a directory for screenshots");
        }
        image
    }

    /// The violations that axe-core finds, with the rule and the elements; none without axe-core.
    pub(crate) fn inaccessible(&self) -> Option<Vec<String>> {
        let Some(axe) = env::var_os("AXE_CORE") else {
            assert!(!is_required(), "PAGE_TESTS=require, and no AXE_CORE");
            return None;
        };
        let axe = fs::read_to_string(axe).expect("axe-core");
        self.tab.evaluate(&axe, false).expect("axe-core loads");
        let violations = self.value(
            "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => \
             `${id}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => \
             `${html} ${failureSummary}`).join(' ')}`))",
        );
        Some(serde_json::from_value(violations).expect("a list"))
    }

    /// All messages of the console.
    pub(crate) fn console(&self) -> Vec<String> {
        self.said.lock().expect("nobody panicked").clone()
    }
}

fn installed() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    env::split_paths(&path)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|file| file.is_file())
}
