//! Lines of the screen of `choro top`.

use std::cmp::Reverse;

use clap::ValueEnum;

use crate::observation::{Interval, Row, percent};
use crate::report::duration;

/// Titles of further columns of clients.
const CLIENT_TITLES: &str = "  BUSY  TIME GOES TO                          USER";

/// Subject of the lines of the screen.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum View {
    Clients,
    Shares,
    Operations,
}

/// Sort order of the lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Order {
    Requests,
    /// Mean time of a request.
    Latency,
    Bytes,
    Name,
}

/// State of the screen: view, order and last interval.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) view: View,
    pub(super) order: Order,
    pub(super) interval: Interval,
}

impl Screen {
    /// Handles a key; unknown keys are ignored.
    pub(super) fn press(&mut self, key: char) {
        match key {
            'c' => self.view = View::Clients,
            's' => self.view = View::Shares,
            'o' => self.view = View::Operations,
            'r' => self.order = Order::Requests,
            'l' => self.order = Order::Latency,
            'b' => self.order = Order::Bytes,
            'n' => self.order = Order::Name,
            _ => {}
        }
    }

    /// Returns the rows of the view, sorted; equal ones by name.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = match self.view {
            View::Clients => self.interval.clients.iter().collect(),
            View::Shares => self.interval.shares.iter().collect(),
            View::Operations => self.interval.operations.iter().collect(),
        };
        rows.sort_by(|one, other| {
            let by_name = || one.name.cmp(&other.name);
            match self.order {
                Order::Requests => Reverse(one.requests).cmp(&Reverse(other.requests)),
                Order::Latency => Reverse(one.average_ns()).cmp(&Reverse(other.average_ns())),
                Order::Bytes => Reverse(one.bytes()).cmp(&Reverse(other.bytes())),
                Order::Name => by_name(),
            }
            .then_with(by_name)
        });
        rows
    }

    /// Returns the lines of the screen: `width` columns and `height` lines at most.
    pub(super) fn lines(&self, width: usize, height: usize) -> Vec<String> {
        let Interval { time, total, classes, .. } = &self.interval;
        let seconds = time.as_secs_f64();
        let mut lines = vec![
            format!(
                "choro top   {} requests/s   read {}/s   written {}/s   average {}   p99 {}",
                rate(total.requests, seconds),
                bytes(per_second(total.read_bytes, seconds)),
                bytes(per_second(total.written_bytes, seconds)),
                duration(total.average_ns()),
                duration(total.p99_ns),
            ),
            "c clients  s shares  o operations | r requests  l latency  b bytes  n name | q end"
                .to_owned(),
            String::new(),
        ];
        // The remark replaces the empty line, as the rows below are incomplete.
        if let (Some(remark), Some(line)) = (&self.interval.remark, lines.last_mut()) {
            *line = printable(remark, width);
        }
        let name = match self.view {
            View::Clients => "CLIENT",
            View::Shares => "SHARE",
            View::Operations => "OPERATION",
        };
        let of_clients = if self.view == View::Clients { CLIENT_TITLES } else { "" };
        lines.push(format!(
            "{name:24} {:>10} {:>10} {:>10} {:>9} {:>9}{of_clients}",
            "REQUESTS/s", "READ/s", "WRITTEN/s", "AVERAGE", "P99",
        ));
        lines.extend(self.rows().into_iter().map(|row| self.line(row, seconds)));
        if !classes.is_empty() {
            lines.push(String::new());
            lines.push(format!(
                "{:24} {:>10} {:>10} {:>10} {:>9} {:>9}",
                "CLASS", "REQUESTS/s", "READ/s", "WRITTEN/s", "HELD", "WAITING"
            ));
        }
        for class in classes {
            lines.push(format!(
                "{:24} {:>10} {:>10} {:>10} {:>9} {:>9}",
                printable(&class.name, 24),
                rate(class.operations, seconds),
                bytes(per_second(class.read_bytes, seconds)),
                bytes(per_second(class.written_bytes, seconds)),
                duration(class.throttled_ns.checked_div(class.throttled).unwrap_or(0)),
                class.waiting,
            ));
        }
        lines.truncate(height);
        lines.iter().map(|line| line.chars().take(width).collect()).collect()
    }

    fn line(&self, row: &Row, seconds: f64) -> String {
        let mut line = format!(
            "{:24} {:>10} {:>10} {:>10} {:>9} {:>9}",
            printable(&row.name, 24),
            rate(row.requests, seconds),
            bytes(per_second(row.read_bytes, seconds)),
            bytes(per_second(row.written_bytes, seconds)),
            duration(row.average_ns()),
            duration(row.p99_ns),
        );
        if self.view == View::Clients {
            let slowest = row.time_goes_to().unwrap_or_default();
            let busy = percent(row.busy_ns, row.worker_ns);
            line.push_str(&format!("  {busy:3.0}%  {slowest:36}  {}", printable(&row.user, 32)));
        }
        line
    }
}

/// Replaces commands to the terminal, which names of shares may have, and limits the length.
fn printable(text: &str, length_max: usize) -> String {
    process::printable(text).chars().take(length_max).collect()
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with a few digits")]
fn per_second(amount: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount as f64 / seconds } else { 0.0 }
}

fn rate(amount: u64, seconds: f64) -> String {
    format!("{:.0}", per_second(amount, seconds))
}

fn bytes(amount: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = amount;
    let mut unit = 0;
    while amount >= 1_024.0 && unit + 1 < units.len() {
        amount /= 1_024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && amount < 100.0);
    format!("{amount:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trace::Phase;

    use super::{Order, Screen, View, bytes};
    use crate::observation::{Interval, Row};
    use crate::report::duration;

    fn row(name: &str, requests: u64, ns: u64, read_bytes: u64) -> Row {
        Row { name: name.to_owned(), requests, ns, read_bytes, ..Row::default() }
    }

    fn screen() -> Screen {
        let slow = Row {
            phases: vec![(Phase::Sending, 750), (Phase::Storage, 250)],
            busy_ns: 1,
            worker_ns: 4,
            user: "some\u{1b}body".to_owned(),
            ..row("192.0.2.9:1", 1, 1_000, 5)
        };
        let clients = vec![row("192.0.2.1:1", 20, 200, 4_096), slow];
        let shares = vec![row("data", 21, 1_200, 4_101)];
        let time = Duration::from_secs(2);
        let interval = Interval { time, clients, shares, ..Interval::default() };
        Screen { view: View::Clients, order: Order::Requests, interval }
    }

    fn names(screen: &Screen) -> Vec<&str> {
        screen.rows().iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn each_key_sorts_by_its_column() {
        let mut screen = screen();
        for (key, first) in [
            ('n', "192.0.2.1:1"),
            ('l', "192.0.2.9:1"),
            ('b', "192.0.2.1:1"),
            ('l', "192.0.2.9:1"),
            ('r', "192.0.2.1:1"),
            ('?', "192.0.2.1:1"),
        ] {
            screen.press(key);
            assert_eq!(names(&screen)[0], first, "{key}");
        }
        screen.press('s');
        assert_eq!(names(&screen), ["data"]);
        screen.press('o');
        assert!(names(&screen).is_empty());
    }

    #[test]
    fn a_client_is_shown_with_the_cause_of_its_delay() {
        let lines = screen().lines(200, 50);
        let slow = lines.iter().find(|line| line.starts_with("192.0.2.9:1")).expect("a line");
        assert!(
            slow.contains("network or client (sending) 75 %") && slow.contains(" 25%"),
            "{slow}"
        );
        assert!(slow.contains("some?body"), "no control character reaches the terminal: {slow}");
        let fast = lines.iter().find(|line| line.starts_with("192.0.2.1:1")).expect("a line");
        assert!(fast.contains("2.0 KiB"), "a rate is what came in a second: {fast}");
    }

    #[test]
    fn missing_data_are_named_on_the_screen() {
        let mut screen = screen();
        screen.interval.remark = Some("clients and sessions are not known".to_owned());
        let lines = screen.lines(80, 24);
        assert_eq!(lines[2], "clients and sessions are not known");
        assert!(lines[3].starts_with("CLIENT "), "{lines:?}");
    }

    /// Whoever knows one of both finds the same figure in the other.
    #[test]
    fn the_page_has_the_titles_of_the_screen() {
        let page = include_str!("../metrics/page/tables.js").to_lowercase();
        let mut screen = screen();
        screen.interval.classes = vec![Default::default()];
        let lines = screen.lines(200, 50);
        let titles = lines.iter().filter(|line| line.contains("REQUESTS/s"));
        let titles: Vec<String> = titles.flat_map(|line| columns(line)).collect();
        assert_eq!(titles.len(), 9 + 6, "{titles:?}");
        for title in titles {
            assert!(page.contains(&format!("\"{}\"", title.to_lowercase())), "{title}");
        }
    }

    /// Titles of a line: words, but for one that has several.
    fn columns(line: &str) -> Vec<String> {
        let line = line.replace("TIME GOES TO", "TIME_GOES_TO");
        line.split_whitespace().map(|title| title.replace('_', " ")).collect()
    }

    #[test]
    fn nothing_goes_over_the_edge_of_a_small_terminal() {
        for (width, height) in [(0, 0), (1, 1), (20, 4), (80, 24)] {
            let lines = screen().lines(width, height);
            assert!(lines.len() <= height);
            assert!(lines.iter().all(|line| line.chars().count() <= width));
        }
    }

    #[test]
    fn amounts_and_times_have_units() {
        assert_eq!([bytes(0.0), bytes(1_023.0), bytes(1_536.0)], ["0 B", "1023 B", "1.5 KiB"]);
        assert_eq!(bytes(5e9), "4.7 GiB");
        let times = [999, 25_000, 1_500_000, 61_000_000_000].map(duration);
        assert_eq!(times, ["1.0 µs", "25 µs", "1.5 ms", "61.0 s"]);
    }
}
