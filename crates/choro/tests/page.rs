//! The page of `choro metrics`, as a browser shows it.

mod harness;

use std::cell::RefCell;
use std::fs;
use std::thread;
use std::time::Duration;

use harness::TestServer;
use harness::browser::{Browser, Key};
use harness::choro::wait_until;
use harness::metrics::Metrics;
use harness::slow_clients::{
    BLOCK, Busy, LARGE, SlowStorage, ask, connect, has_strace, name_of, receive, start, start_with,
};
use harness::smbtorture::progress;
use serde_json::Value;

/// Width and height of a window, in pixels.
const WINDOW: (u32, u32) = (1280, 1600);

/// All files of the page, with their types.
const FILES: [(&str, &str); 11] = [
    ("/", "text/html"),
    ("/page.css", "text/css"),
    ("/icon.svg", "image/svg+xml"),
    ("/page.js", "text/javascript"),
    ("/chart.js", "text/javascript"),
    ("/feed.js", "text/javascript"),
    ("/series.js", "text/javascript"),
    ("/tables.js", "text/javascript"),
    ("/theme.js", "text/javascript"),
    ("/units.js", "text/javascript"),
    ("/dygraph.js", "text/javascript"),
];

const CHARTS: [&str; 9] = [
    "throughput",
    "latency",
    "operations",
    "commands",
    "phases",
    "clients",
    "shares",
    "users",
    "classes",
];

const ARROW_LEFT: Key = ("ArrowLeft", 37);
const ENTER: Key = ("Enter", 13);
const ESCAPE: Key = ("Escape", 27);
const PLUS: Key = ("+", 187);

/// Counts the pixels of a chart in the color of a series, without those of the pointed values.
const INK: &str = "const ink = (id, slot) => {
    const color = getComputedStyle(document.querySelector(`#${id} .legend .s${slot} i`));
    const wanted = color.borderTopColor.match(/\\d+/g).map(Number);
    const canvas = document.querySelector(`#${id} .plot canvas`);
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const context = copy.getContext('2d', { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, copy.width, copy.height);
    let pixels = 0;
    for (let at = 0; at < data.length; at += 4) {
        const is = [0, 1, 2].every((part) => Math.abs(data[at + part] - wanted[part]) < 20);
        if (is && data[at + 3] > 150) pixels += 1;
    }
    return pixels;
};";

/// A server with two busy clients, and a browser that has opened the page.
struct Scene {
    browser: Browser,
    _busy: [Busy; 2],
    metrics: Metrics,
    _server: TestServer,
}

impl Scene {
    /// `None` where there is no browser.
    fn begin(window: (u32, u32)) -> Option<Self> {
        Self::of(["data", "slow"], window)
    }

    /// The same with other names of the shares.
    fn of(shares: [&str; 2], window: (u32, u32)) -> Option<Self> {
        let Some(mut browser) = Browser::start() else {
            progress("chromium is not installed: the page is seen by nobody");
            return None;
        };
        let server = start_with(shares);
        let metrics = Metrics::begin(&server);
        let read = |client: &mut _, file_id| {
            ask(client, file_id, 4, BLOCK);
            receive(client, 4);
        };
        let busy = shares.map(|share| Busy::begin(connect(&server, share), read));
        browser.visit(&format!("http://{}/", metrics.address), window);
        let mut scene = Self { browser, _busy: busy, metrics, _server: server };
        // A second has some pixels of a minute.
        scene.choose("span", "60");
        scene.wait_for_points(3, shares);
        Some(scene)
    }

    /// Chooses an entry of a list.
    fn choose(&mut self, list: &str, value: &str) {
        self.browser.value_of(&format!(
            "const it = document.getElementById('{list}'); it.value = '{value}'; \
             it.dispatchEvent(new Event('change'));"
        ));
    }

    /// Waits until the page has drawn some more seconds with a value.
    fn wait_for_points(&mut self, count: u64, shares: [&str; 2]) {
        let drawn = self.points() + count;
        wait_until(|| self.points() >= drawn, || "the server has no new points".to_owned());
        // A request that begins now gets them. It may follow one that has begun before.
        let answers = "performance.getEntriesByType('resource')\
                       .filter((it) => /(data|latest)\\.json$/.test(it.name)).length";
        let before = self.browser.number_of(answers);
        self.browser.wait_for(&format!("{answers} >= {before} + 3"));
        let names = "[...document.querySelectorAll('#shares .name')].map((it) => it.textContent)";
        self.browser.wait_for(&format!("{shares:?}.every((it) => {names}.includes(it))"));
    }

    /// Number of points that the server has.
    fn points(&self) -> u64 {
        let data: Value = serde_json::from_str(&self.metrics.get("/data.json").1).expect("JSON");
        let points = data["points"].as_array().expect("an array");
        points.last().map_or(0, |it| it["number"].as_u64().expect("a number") + 1)
    }

    /// Runs a script in which `ink` counts the pixels of a series.
    fn ink(&mut self, id: &str, slot: u32) -> u64 {
        let pixels = self.browser.value_of(&format!("{INK} ink({id:?}, {slot})"));
        pixels.as_u64().expect("a number")
    }

    /// Waits until a series is a line of some pixels.
    fn wait_for_line(&mut self, id: &str, slot: u32) {
        let scene = RefCell::new(self);
        wait_until(
            || scene.borrow_mut().ink(id, slot) > 5,
            || format!("{id} has {} pixels", scene.borrow_mut().ink(id, slot)),
        );
    }

    fn axis(&mut self, id: &str) -> String {
        let labels = format!("[...document.querySelectorAll('#{id} .dygraph-axis-label-x')]");
        self.browser.text_of(&format!("{labels}.map((it) => it.textContent).join()"))
    }

    fn pause(&mut self) {
        let button = self.browser.middle_of("#pause");
        self.browser.click(button);
        self.browser.wait_for("document.getElementById('pause').ariaPressed === 'true'");
    }
}

#[test]
fn each_chart_draws_activity_of_now() {
    let Some(mut scene) = Scene::begin(WINDOW) else { return };
    for (id, name) in [
        ("throughput", "read"),
        ("latency", "p99"),
        ("operations", "READ"),
        ("commands", "READ"),
        ("phases", "throttled"),
        ("clients", "127.0.0.1:"),
        ("shares", "data"),
        ("users", "tester"),
        ("classes", "gold"),
    ] {
        let legend =
            scene.browser.text_of(&format!("document.querySelector('#{id} ul').innerText"));
        assert!(legend.contains(name), "no {name} of {id} in {legend}");
        scene.wait_for_line(id, 0);
    }
    let read = "document.querySelector('#throughput .value').textContent";
    let value = scene.browser.text_of(read);
    assert!(value.ends_with("/s") && !value.starts_with('0'), "{value}");
    scene.browser.assert_content();
}

#[test]
fn a_name_in_the_legend_hides_its_line_and_shows_it_again() {
    let Some(mut scene) = Scene::begin(WINDOW) else { return };
    scene.wait_for_line("shares", 0);
    scene.pause();
    let selector = "#shares .legend button.s0";
    let button = scene.browser.middle_of(selector);
    scene.browser.click(button);
    let pressed = format!("document.querySelector('{selector}').ariaPressed");
    assert_eq!(scene.browser.text_of(&pressed), "false");
    assert_eq!(scene.ink("shares", 0), 0);
    // The same by the keyboard: the button has kept the focus.
    scene.browser.press(ENTER);
    assert_eq!(scene.browser.text_of(&pressed), "true");
    assert!(scene.ink("shares", 0) > 5);
    scene.browser.assert_content();
}

#[test]
fn a_drag_zooms_all_charts_and_the_button_shows_all_again() {
    let Some(mut scene) = Scene::begin(WINDOW) else { return };
    scene.pause();
    let whole = scene.axis("latency");
    let (x, y) = scene.browser.middle_of("#throughput .plot");
    scene.browser.drag((x, y), (x + 60.0, y));
    let zoomed = scene.axis("throughput");
    assert_ne!(zoomed, whole);
    for id in CHARTS {
        let width =
            scene.browser.number_of(&format!("document.querySelector('#{id} .plot').clientWidth"));
        let of_throughput = scene.browser.number_of("document.querySelector('.plot').clientWidth");
        // A chart of another width has other labels.
        if (width - of_throughput).abs() < 1.0 {
            assert_eq!(scene.axis(id), zoomed, "{id}");
        }
    }
    let reset = scene.browser.middle_of("#reset");
    scene.browser.click(reset);
    assert_eq!(scene.axis("latency"), whole);
    assert_eq!(scene.browser.value_of("document.getElementById('reset').disabled"), true);
    scene.browser.assert_content();
}

#[test]
fn the_pointer_shows_the_values_of_its_second_in_all_charts() {
    let Some(mut scene) = Scene::begin(WINDOW) else { return };
    scene.pause();
    let at = "[...document.querySelectorAll('.head .at')].map((it) => it.textContent)";
    let distinct = format!("[...new Set({at})].join()");
    assert_eq!(scene.browser.text_of(&distinct), "now");
    let (x, y) = scene.browser.middle_of("#throughput .plot");
    scene.browser.move_mouse((x + 200.0, y));
    let pointed = scene.browser.text_of(&distinct);
    assert_eq!(pointed.split(':').count(), 3, "one time of day: {pointed}");
    scene.browser.move_mouse((1.0, 1.0));
    assert_eq!(scene.browser.text_of(&distinct), "now");
    scene.browser.assert_content();
}

#[test]
fn the_keyboard_reads_values_and_zooms() {
    let Some(mut scene) = Scene::begin(WINDOW) else { return };
    scene.pause();
    let whole = scene.axis("latency");
    scene.browser.value_of("document.querySelector('#throughput .plot').focus()");
    scene.browser.press(ARROW_LEFT);
    let spoken = "document.getElementById('spoken').textContent";
    let first = scene.browser.text_of(spoken);
    assert!(first.contains(": read ") && first.contains(", written 0 B/s"), "{first}");
    scene.browser.press(ARROW_LEFT);
    assert_ne!(scene.browser.text_of(spoken), first);
    scene.browser.press(PLUS);
    assert_ne!(scene.axis("latency"), whole);
    scene.browser.press(ESCAPE);
    assert_eq!(scene.axis("latency"), whole);
    scene.browser.assert_content();
}

/// Contrast of two elements' colors, as WCAG 2 defines it.
const CONTRAST: &str = "const contrast = (one, other) => {
    const light = (color) => {
        const parts = color.match(/[\\d.]+/g).slice(0, 3).map((it) => it / 255);
        const linear = parts.map((it) => (
            it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4
        ));
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
};
const style = (selector) => getComputedStyle(document.querySelector(selector));";

#[test]
fn colors_follow_the_system_or_a_choice_and_have_contrast() {
    let Some(mut scene) = Scene::begin(WINDOW) else { return };
    let ground = "getComputedStyle(document.body).backgroundColor";
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        scene.browser.prefer(scheme);
        grounds.push(scene.browser.text_of(ground));
        let raised = "style('section').backgroundColor";
        for text in ["h2", ".head .at", "td", "thead th", ".legend button", ".legend .value"] {
            let contrast = format!("{CONTRAST} contrast(style('{text}').color, {raised})");
            let contrast = scene.browser.number_of(&contrast);
            assert!(contrast >= 4.5, "{text} in {scheme}: {contrast}");
        }
        for slot in 0..=8 {
            let line = format!(
                "{CONTRAST} (() => {{ const it = document.querySelector('.sample'); \
                 it.className = 'sample s{slot}'; \
                 return contrast(getComputedStyle(it).color, {raised}); }})()"
            );
            let contrast = scene.browser.number_of(&line);
            assert!(contrast >= 3.0, "series {slot} in {scheme}: {contrast}");
        }
    }
    assert_ne!(grounds[0], grounds[1]);
    scene.choose("theme", "light");
    assert_eq!(scene.browser.text_of(ground), grounds[0]);
    // The choice outlives the page.
    let url = format!("http://{}/", scene.metrics.address);
    scene.browser.visit(&url, WINDOW);
    scene.browser.wait_for("document.getElementById('theme').value === 'light'");
    assert_eq!(scene.browser.text_of(ground), grounds[0]);
    scene.browser.assert_content();
}

#[test]
fn nothing_is_wider_than_a_window_of_400_pixels() {
    let Some(mut scene) = Scene::begin((400, 900)) else { return };
    assert_eq!(scene.browser.number_of("document.documentElement.scrollWidth"), 400.0);
    let narrowest = "Math.min(...[...document.querySelectorAll('.plot canvas')]\
                     .map((it) => it.clientWidth))";
    assert!(scene.browser.number_of(narrowest) > 300.0);
    CHARTS.into_iter().for_each(|id| scene.wait_for_line(id, 0));
    scene.browser.resize(WINDOW);
    scene.browser.wait_for(&format!("{narrowest} > 500"));
    scene.browser.assert_content();
}

#[test]
fn names_with_markup_are_shown_as_text() {
    const NAME: &str = "<b onclick>loud";
    let Some(mut scene) = Scene::of(["data", NAME], WINDOW) else { return };
    let cells = "[...document.querySelectorAll('#shares td')].map((it) => it.textContent)";
    scene.browser.wait_for(&format!("{cells}.includes('{NAME}')"));
    let (x, y) = scene.browser.middle_of("#shares .plot");
    scene.browser.move_mouse((x + 100.0, y));
    assert_eq!(scene.browser.value_of("document.querySelector('b')"), Value::Null);
    scene.browser.assert_content();
}

#[test]
fn a_paused_page_asks_its_server_for_nothing() {
    let Some(mut scene) = Scene::begin(WINDOW) else { return };
    scene.pause();
    let asked = "performance.getEntriesByType('resource').length";
    let before = scene.browser.number_of(asked);
    let number = scene.points();
    wait_until(|| scene.points() > number + 2, || "the server has no new points".to_owned());
    assert_eq!(scene.browser.number_of(asked), before);
    let button = scene.browser.middle_of("#pause");
    scene.browser.click(button);
    scene.browser.wait_for(&format!("{asked} > {before}"));
    scene.browser.assert_content();
}

#[test]
fn the_page_shows_why_each_of_three_clients_is_slow() {
    if !has_strace() {
        return progress("strace is not installed, and nothing else makes storage slow");
    }
    let Some(mut browser) = Browser::start() else {
        return progress("chromium is not installed: the page is seen by nobody");
    };
    let server = start();
    let metrics = Metrics::begin(&server);
    let [network, storage, limited] = ["data", "data", "slow"].map(|it| connect(&server, it));
    let names = [&network, &storage, &limited].map(|(client, _)| name_of(client));
    let _slow_storage = SlowStorage::begin(server.worker_of(&storage.0));
    let _busy = [
        // It asks, and takes its time to read.
        Busy::begin(network, |client, file_id| {
            ask(client, file_id, 24, LARGE);
            thread::sleep(Duration::from_millis(300));
            receive(client, 24);
        }),
        Busy::begin(storage, |client, file_id| {
            ask(client, file_id, 1, BLOCK);
            receive(client, 1);
        }),
        Busy::begin(limited, |client, file_id| {
            ask(client, file_id, 4, BLOCK);
            receive(client, 4);
        }),
    ];
    browser.visit(&format!("http://{}/", metrics.address), WINDOW);
    let reasons = ["network or client (sending)", "storage", "QoS limit (throttled)"];
    for (name, reason) in names.iter().zip(reasons) {
        let rows = "[...document.querySelectorAll('#clients tbody tr')]";
        let is_it =
            format!("it.textContent.includes('{name}') && it.textContent.includes('{reason}')");
        browser.wait_for(&format!("{rows}.some((it) => {is_it})"));
    }
    for text in ["data", "gold"] {
        let cells = "[...document.querySelectorAll('td')]";
        browser.wait_for(&format!("{cells}.some((it) => it.textContent === '{text}')"));
    }
    let pictures = tempfile::tempdir().expect("there is space");
    let picture = pictures.path().join("page.png");
    browser.picture(&picture);
    let bytes = fs::read(&picture).expect("the browser has drawn it");
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "{} bytes", bytes.len());
    browser.assert_content();
}

#[test]
fn the_page_asks_nobody_but_its_server() {
    let server = start();
    let metrics = Metrics::begin(&server);
    for (path, kind) in FILES {
        let (head, body) = metrics.get(path);
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains(kind), "{path}: {head}");
        let policy = "content-security-policy: default-src 'none'; script-src 'self'; ";
        assert!(head.contains(policy) && !head.contains("unsafe"), "{path}: {head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{path}: {head}");
        // A name of XML, and the first line of the library, which names its licence.
        let body = body.replace("http://www.w3.org/2000/svg", "");
        let (first, rest) = body.split_once('\n').expect("several lines");
        let body = if first.starts_with("/*! @license ") { rest } else { &body };
        assert!(!body.contains("http:") && !body.contains("https:"), "{path}");
    }
    let page = metrics.get("/").1;
    for inline in ["<script>", "<style", " style=", " onclick=", " onload=", "javascript:"] {
        assert!(!page.contains(inline), "{inline}");
    }
    for path in ["/data.json", "/latest.json"] {
        let (head, body) = metrics.get(path);
        assert!(head.contains("application/json") && body.contains("\"points\":["), "{head}");
        let (head, body) = metrics.get_as("rebound.example.org", path);
        assert!(head.starts_with("HTTP/1.1 421 "), "{head}");
        assert!(!body.contains("points"), "{body}");
    }
    let (head, _) = metrics.get("/nothing");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    let address = metrics.address.clone();
    let error = server.site().run(&["metrics", "--listen", &address]).fails(1);
    assert!(error.starts_with(&format!("choro: cannot listen on {address}")), "{error}");
    server.stop();
}
