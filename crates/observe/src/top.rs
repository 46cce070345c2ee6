//! `choro top`, which shows current activity.

mod screen;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::{cursor, event, execute, terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use settings::Settings;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::observation::{Interval, Observer, Snapshot};
use crate::report;
use screen::{Order, Screen, View};

/// Show current activity by client, share or operation, and the causes of delays.
///
/// Keys: view by client, share or operation (c, s, o); sort by requests, latency, bytes or name (r,
/// l, b, n); q or ^C ends. TIME GOES TO is the main delay of a client's requests: the network or
/// the client itself, the storage, a QoS limit, another client, or the server.
///
/// Needs permission to read the workers' pages, as `choro trace` does.
#[derive(Args, Debug)]
pub struct Top {
    /// Seconds between two updates of the screen.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Exit after N updates of the screen.
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Print a JSON object for each update, one a line, instead of the screen.
    #[arg(long)]
    json: bool,
    /// View that is shown at first.
    #[arg(long, value_enum, default_value_t = View::Clients)]
    by: View,
    /// Sort order that is used at first.
    #[arg(long, value_enum, default_value_t = Order::Requests)]
    sort: Order,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3_600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected a number of seconds from 0.1 to 3600".to_owned()),
    }
}

impl Top {
    pub fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        let settings = Settings::find(config)?;
        let mut observer = Observer::begin(&settings.directories.lock)?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The second one ends it at once.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
                .context("cannot receive signals")?;
        }
        if self.json {
            return self.print(&mut observer, &stop);
        }
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            bail!("standard output is not a terminal; use `choro top --json`");
        }
        let terminal = Terminal::take()?;
        let shown = self.show(&mut observer, &stop);
        drop(terminal);
        shown
    }

    fn is_last(&self, snapshots: u32) -> bool {
        self.count.is_some_and(|count| snapshots >= count)
    }

    fn print(&self, observer: &mut Observer, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut before = observer.read()?;
        for snapshots in 1.. {
            let until = before.at + self.interval;
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(left.min(Duration::from_millis(50)));
            }
            let now = observer.read()?;
            report::print(&format!("{}\n", Interval::between(&before, &now).json()))?;
            before = now;
            if self.is_last(snapshots) {
                break;
            }
        }
        Ok(())
    }

    fn show(&self, observer: &mut Observer, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut screen = Screen { view: self.by, order: self.sort, interval: Interval::default() };
        let mut before: Snapshot = observer.read()?;
        let mut snapshots = 0;
        draw(&screen)?;
        while !stop.load(Ordering::Relaxed) {
            let left = (before.at + self.interval).saturating_duration_since(Instant::now());
            // The next update of the screen notices a signal.
            match await_keys(left.min(Duration::from_millis(200)))? {
                Keys::None => {}
                Keys::Some => {
                    if take_keys(&mut screen)? {
                        return Ok(());
                    }
                    draw(&screen)?;
                }
                Keys::TerminalGone => return Ok(()),
            }
            if before.at.elapsed() < self.interval {
                continue;
            }
            let now = observer.read()?;
            screen.interval = Interval::between(&before, &now);
            before = now;
            draw(&screen)?;
            snapshots += 1;
            if self.is_last(snapshots) {
                break;
            }
        }
        Ok(())
    }
}

/// Keys that the terminal has for us.
enum Keys {
    None,
    Some,
    /// Nobody presses any: its window was closed.
    TerminalGone,
}

/// Waits for keys. crossterm would read a terminal that is gone for ever.
fn await_keys(timeout: Duration) -> anyhow::Result<Keys> {
    let stdin = io::stdin();
    let mut descriptors = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).context("the interval is too long")?;
    match poll(&mut descriptors, Some(&timeout)) {
        // The size of the terminal has changed, or this program is to end.
        Err(Errno::INTR) => return Ok(Keys::None),
        result => result.context("cannot wait for keys")?,
    };
    let events = descriptors[0].revents();
    let is_gone = events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
    Ok(match events.contains(PollFlags::IN) {
        _ if is_gone => Keys::TerminalGone,
        true => Keys::Some,
        false => Keys::None,
    })
}

/// Takes the keys that were pressed. Returns whether one of them ends the program.
fn take_keys(screen: &mut Screen) -> anyhow::Result<bool> {
    while event::poll(Duration::ZERO).context("cannot read keys")? {
        match event::read().context("cannot read keys")? {
            Event::Key(key) if is_end(key) => return Ok(true),
            Event::Key(KeyEvent { code: KeyCode::Char(key), kind, .. })
                if kind != KeyEventKind::Release =>
            {
                screen.press(key);
            }
            _ => {}
        }
    }
    Ok(false)
}

fn is_end(key: KeyEvent) -> bool {
    let is_control_c =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

fn draw(screen: &Screen) -> anyhow::Result<()> {
    // Some terminals do not report their size.
    let size = terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0);
    let (width, height) = size.unwrap_or((80, 24));
    let lines = screen.lines(width.into(), height.into());
    let mut text = Vec::new();
    for (row, line) in (0_u16..).zip(&lines) {
        execute!(text, cursor::MoveTo(0, row), terminal::Clear(terminal::ClearType::CurrentLine))?;
        text.extend_from_slice(line.as_bytes());
    }
    execute!(text, terminal::Clear(terminal::ClearType::FromCursorDown))?;
    let mut out = io::stdout().lock();
    out.write_all(&text)?;
    out.flush()?;
    Ok(())
}

/// A terminal in raw mode; dropping it restores the former mode.
struct Terminal;

impl Terminal {
    fn take() -> anyhow::Result<Self> {
        terminal::enable_raw_mode().context("cannot read keys from this terminal")?;
        let taken = Self;
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)
            .context("cannot draw on this terminal")?;
        Ok(taken)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A failure here has no reader any more.
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}
