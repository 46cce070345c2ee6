//! A browser without a window: Chromium, told what to do by its DevTools protocol.
//!
//! The protocol's messages are JSON objects that end with a zero byte, on descriptors 3 and 4.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::choro::wait_until;

/// A page in a browser. The browser ends with it.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last_id: u64,
    /// Session of the protocol for the one page; empty before there is one.
    session: String,
    /// Errors and warnings of the page: of its scripts, and of its policy.
    complaints: Vec<String>,
    _profile: TempDir,
}

/// A key, with the number that the browser needs for its own actions.
pub type Key = (&'static str, u32);

impl Browser {
    /// `None` where Chromium is not installed.
    pub fn start() -> Option<Self> {
        Command::new("chromium").arg("--version").output().ok()?;
        let profile = tempfile::tempdir().expect("there is space");
        let mut command = Command::new("sh");
        command.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"]);
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
        command.args(["--disable-dev-shm-usage", "--disable-background-networking"]);
        command.args(["--remote-debugging-pipe", "--hide-scrollbars"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.env("HOME", profile.path()).stderr(Stdio::null());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it is there");
        let to = child.stdin.take().expect("it is piped");
        let from = BufReader::new(child.stdout.take().expect("it is piped"));
        let (session, complaints) = (String::new(), Vec::new());
        let mut browser =
            Self { child, to, from, last_id: 0, session, complaints, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().expect("it is text").to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Opens a page in a window of this size.
    pub fn visit(&mut self, url: &str, (width, height): (u32, u32)) {
        self.resize((width, height));
        self.call("Page.navigate", json!({"url": url}));
        self.wait_for("document.readyState === 'complete'");
    }

    pub fn resize(&mut self, (width, height): (u32, u32)) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Prefers dark or light colors from here on.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Returns the value of a script; it must not fail.
    pub fn value_of(&mut self, script: &str) -> Value {
        // In a block, so that constants of one script are not in the way of the next.
        let script = format!("{{ {script} }}");
        let script = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", script.clone());
        assert!(answer["exceptionDetails"].is_null(), "{answer} of {script}");
        answer["result"]["value"].clone()
    }

    pub fn text_of(&mut self, script: &str) -> String {
        self.value_of(script).as_str().unwrap_or_default().to_owned()
    }

    pub fn number_of(&mut self, script: &str) -> f64 {
        self.value_of(script).as_f64().expect("it is a number")
    }

    /// Waits until a script returns true.
    pub fn wait_for(&mut self, script: &str) {
        let browser = std::cell::RefCell::new(self);
        wait_until(
            || browser.borrow_mut().value_of(script) == true,
            || {
                let mut browser = browser.borrow_mut();
                let page = browser.text_of("document.body.innerText");
                format!("{script} in\n{page}\n{:?}", browser.complaints)
            },
        );
    }

    pub fn move_mouse(&mut self, (x, y): (f64, f64)) {
        self.mouse("mouseMoved", (x, y));
    }

    pub fn click(&mut self, (x, y): (f64, f64)) {
        self.drag((x, y), (x, y));
    }

    /// Moves with the first button pressed.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.mouse("mouseMoved", from);
        self.mouse("mousePressed", from);
        self.mouse("mouseMoved", to);
        self.mouse("mouseReleased", to);
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let event = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": 1});
        self.call("Input.dispatchMouseEvent", event);
    }

    pub fn press(&mut self, (key, number): Key) {
        for kind in ["keyDown", "keyUp"] {
            let text = if key == "Enter" { "\r" } else { "" };
            let event =
                json!({"type": kind, "key": key, "windowsVirtualKeyCode": number, "text": text});
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// The middle of an element, scrolled into sight.
    pub fn middle_of(&mut self, selector: &str) -> (f64, f64) {
        let of = |part: &str| {
            format!(
                "(() => {{ const it = document.querySelector({selector:?}); \
                 it.scrollIntoView({{block: 'center'}}); \
                 const box = it.getBoundingClientRect(); return {part}; }})()"
            )
        };
        let x = self.number_of(&of("box.left + box.width / 2"));
        (x, self.number_of(&of("box.top + box.height / 2")))
    }

    /// Writes a picture of the whole page, as PNG.
    pub fn picture(&mut self, path: &Path) {
        let picture = json!({"format": "png", "captureBeyondViewport": true});
        let answer = self.call("Page.captureScreenshot", picture);
        let text = answer["data"].as_str().expect("it is text");
        std::fs::write(path, from_base64(text)).expect("there is space");
    }

    /// Asserts that the page has had nothing to complain about.
    pub fn assert_content(&self) {
        assert!(self.complaints.is_empty(), "{:?}", self.complaints);
    }

    /// Sends a command, and returns its result. Events that come meanwhile are kept.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let mut command = json!({"id": self.last_id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            command["sessionId"] = self.session.as_str().into();
        }
        self.to.write_all(format!("{command}\0").as_bytes()).expect("it runs");
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).expect("it runs");
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let mut message: Value = serde_json::from_slice(&bytes).expect("it is JSON");
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.keep(&message);
        }
    }

    fn keep(&mut self, event: &Value) {
        let of = &event["params"];
        let is_bad = |level: &Value| level == "error" || level == "warning" || level == "assert";
        let is_complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => is_bad(&of["type"]),
            Some("Log.entryAdded") => is_bad(&of["entry"]["level"]),
            _ => false,
        };
        if is_complaint {
            self.complaints.push(event.to_string());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its other processes end with this one.
        let _ = write!(self.to, "{}\0", json!({"id": 0, "method": "Browser.close"}));
        let mut rest = Vec::new();
        let _ = std::io::Read::read_to_end(&mut self.from, &mut rest);
        self.child.wait().expect("it ends");
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let six = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("it is not base64"),
    };
    let digits: Vec<u8> = text.trim_end_matches('=').bytes().map(six).collect();
    let groups = digits.chunks(4).flat_map(|group| {
        let bits = group.iter().enumerate();
        let bits = bits.fold(0_u32, |all, (at, digit)| all | u32::from(*digit) << (18 - 6 * at));
        bits.to_be_bytes().into_iter().skip(1).take(group.len() - 1)
    });
    groups.collect()
}
