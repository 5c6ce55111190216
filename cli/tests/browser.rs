//! Opens pages in headless Chromium, and gives tests access to their console, keyboard, links and
//! appearance.
//!
//! Chromium is controlled through its [own protocol][cdp], as JSON on a pipe. A library for it
//! would take longer to build than all other dependencies of these tests.
//!
//! Without Chromium, these tests print a note and pass, unless `PAGE_TESTS=require` is set, as in
//! continuous integration. `AXE_CORE` is the path of `axe.min.js`.
//!
//! [cdp]: https://chromedevtools.github.io/devtools-protocol/

use std::cell::{Cell, RefCell};
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// Chromium reads commands from file descriptor 3 and writes its answers to 4.
const ON_PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

/// Arguments that Chromium needs in containers, and that keep it from using the network.
const ARGUMENTS: [&str; 12] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--window-size=1280,900",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
];

/// How long Chromium may take to answer, on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The browser of one test.
pub(crate) struct Chromium {
    child: Child,
    commands: RefCell<ChildStdin>,
    messages: Receiver<Value>,
    /// The events that have arrived but have not been waited for yet.
    events: RefCell<Vec<Value>>,
    last_id: Cell<u64>,
    _profile: tempfile::TempDir,
}

/// Whether a test must fail, and not be skipped, if Chromium is missing.
fn is_required() -> bool {
    env::var_os("PAGE_TESTS").is_some_and(|value| value == "require")
}

impl Chromium {
    /// Starts Chromium, or returns `None` if Chromium is neither installed nor required.
    #[expect(clippy::print_stdout, reason = "prints why nothing was tested")]
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
        let mut child = Command::new("sh")
            .args(["-c", ON_PIPES])
            .arg(path)
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("chromium starts");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("JSON from chromium");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Some(Self {
            commands: RefCell::new(child.stdin.take().expect("a pipe")),
            child,
            messages,
            events: RefCell::default(),
            last_id: Cell::default(),
            _profile: profile,
        })
    }

    /// Opens a page at `#hash`.
    pub(crate) fn open(&self, page: &Path, hash: &str) -> View<'_> {
        let tab = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": tab["targetId"], "flatten": true });
        let session = self.call(None, "Target.attachToTarget", attach);
        let session = session["sessionId"].as_str().expect("a session").to_owned();
        let view = View {
            browser: self,
            session,
        };
        for domain in ["Log", "Runtime", "Page"] {
            view.call(&format!("{domain}.enable"), json!({}));
        }
        let address = format!("file://{}#{hash}", page.display());
        view.call("Page.navigate", json!({ "url": address }));
        view.wait_for("Page.loadEventFired");
        view
    }

    /// Sends a command and returns its result.
    #[track_caller]
    fn call(&self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        let mut command = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        let mut commands = self.commands.borrow_mut();
        write!(commands, "{command}\0").expect("chromium runs");
        loop {
            let mut message = self.receive();
            if message["id"] == id {
                assert_eq!(message["error"], Value::Null, "{method}");
                return message["result"].take();
            }
            self.events.borrow_mut().push(message);
        }
    }

    #[track_caller]
    fn receive(&self) -> Value {
        let message = self.messages.recv_timeout(PATIENCE);
        message.expect("chromium answers")
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Chromium writes to its profile until it ends.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct View<'browser> {
    browser: &'browser Chromium,
    session: String,
}

impl View<'_> {
    #[track_caller]
    fn call(&self, method: &str, parameters: Value) -> Value {
        self.browser.call(Some(&self.session), method, parameters)
    }

    fn is_event(&self, event: &Value, method: &str) -> bool {
        event["method"] == method && event["sessionId"] == self.session.as_str()
    }

    fn wait_for(&self, method: &str) {
        let mut events = self.browser.events.borrow_mut();
        while !events.iter().any(|event| self.is_event(event, method)) {
            events.push(self.browser.receive());
        }
    }

    /// Evaluates an expression in the page and returns its value. Promises are awaited.
    #[track_caller]
    pub(crate) fn value(&self, expression: &str) -> Value {
        let parameters = json!({
            "expression": expression,
            "awaitPromise": true,
            "returnByValue": true,
            "userGesture": true,
        });
        let mut answer = self.call("Runtime.evaluate", parameters);
        let exception = &answer["exceptionDetails"];
        assert_eq!(*exception, Value::Null, "{expression}");
        answer["result"]["value"].take()
    }

    /// Returns the text that says how many entries the page shows.
    #[track_caller]
    pub(crate) fn shown(&self) -> String {
        self.text("#shown")
    }

    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({selector:?}).innerText"));
        text.as_str().expect("text").to_owned()
    }

    #[track_caller]
    pub(crate) fn count(&self, selector: &str) -> u64 {
        let count = self.value(&format!("document.querySelectorAll({selector:?}).length"));
        count.as_u64().expect("a number")
    }

    /// Presses a key in the focused element.
    pub(crate) fn press(&self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "Home" => (36, ""),
            "ArrowRight" => (39, ""),
            character => (0, character),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let parameters = json!({
                "type": kind,
                "key": key,
                "windowsVirtualKeyCode": code,
                "text": text,
            });
            self.call("Input.dispatchKeyEvent", parameters);
        }
    }

    /// Types a text into the focused element.
    pub(crate) fn type_in(&self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        let middle = self.value(&format!(
            "(() => {{ const it = document.querySelector({selector:?}); \
             it.scrollIntoView({{ block: 'center' }}); \
             const {{ x, y, width, height }} = it.getBoundingClientRect(); \
             return [x + width / 2, y + height / 2]; }})()"
        ));
        let [x, y] = [0, 1].map(|at| middle[at].as_f64().expect("a coordinate"));
        self.click_at(x, y);
    }

    /// Clicks at this point of the window.
    pub(crate) fn click_at(&self, x: f64, y: f64) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let parameters = json!({
                "type": kind,
                "x": x,
                "y": y,
                "button": button,
                "clickCount": u8::from(button == "left"),
            });
            self.call("Input.dispatchMouseEvent", parameters);
        }
    }

    /// Changes the size of the window, in pixels.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let parameters = json!({
            "width": width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", parameters);
    }

    /// Takes a screenshot as PNG, which is also written to the directory that `SCREENSHOTS` names.
    pub(crate) fn screenshot(&self, name: &str) -> Vec<u8> {
        let image = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let image = image["data"].as_str().expect("a picture");
        let image = BASE64_STANDARD.decode(image).expect("base64");
        if let Some(directory) = env::var_os("SCREENSHOTS") {
            let file = PathBuf::from(directory).join(format!("{name}.png"));
            fs::write(file, &image).expect("a directory for screenshots");
        }
        image
    }

    /// Returns the violations that axe-core finds, with the rule and the elements. Returns `None`
    /// without axe-core.
    pub(crate) fn inaccessible(&self) -> Option<Vec<String>> {
        let Some(axe) = env::var_os("AXE_CORE") else {
            assert!(!is_required(), "PAGE_TESTS=require, and no AXE_CORE");
            return None;
        };
        let axe = fs::read_to_string(axe).expect("axe-core");
        self.value(&format!("{axe}; null"));
        let violations = self.value(
            "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => \
             `${id}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => \
             `${html} ${failureSummary}`).join(' ')}`))",
        );
        Some(serde_json::from_value(violations).expect("a list"))
    }

    /// Returns all messages of the console.
    pub(crate) fn console(&self) -> Vec<String> {
        const MESSAGES: [&str; 3] = [
            "Log.entryAdded",
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
        ];
        let events = self.browser.events.borrow();
        let messages = events
            .iter()
            .filter(|event| MESSAGES.iter().any(|method| self.is_event(event, method)));
        messages.map(|event| event["params"].to_string()).collect()
    }
}

fn installed() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    env::split_paths(&path)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|file| file.is_file())
}
