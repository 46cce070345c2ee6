//! Chart of the table: a bar for each row, in proportion to bare sockets.
//!
//! Bars and words only, so the server's program needs no library for it.

use std::fmt::Write;

use super::report::{Line, Report};
use crate::table::figure;

const WIDTH: f64 = 900.0;
/// X coordinate of the bars, and the length of a bar that equals bare sockets.
const BARS_X: f64 = 120.0;
const BARE_WIDTH: f64 = 460.0;
/// Distance between the tops of two bars.
const ROW_HEIGHT: f64 = 22.0;
const GROUP_GAP: f64 = 34.0;
const TOP: f64 = 66.0;

/// Renders the chart as SVG.
pub(super) fn draw(report: &Report) -> String {
    let lines = report.lines();
    let mut body = String::new();
    let mut y = TOP;
    let mut group = None;
    let longest = lines.iter().filter_map(|line| line.ratio_to_bare).fold(1.0, f64::max);
    let unit = BARE_WIDTH / longest;
    for line in &lines {
        let of = (line.workload, line.pairs, line.message_bytes);
        if group.replace(of) != Some(of) {
            y += GROUP_GAP;
            text(&mut body, (10.0, y - 10.0), "heading", &heading(line));
        }
        bar(&mut body, line, y, unit);
        y += ROW_HEIGHT;
    }
    let bare_x = BARS_X + unit;
    let height = y + 20.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n<style>\n\
         text {{ font: 13px sans-serif; fill: #222 }}\n\
         .title {{ font-size: 17px; font-weight: bold }}\n\
         .heading {{ font-weight: bold }}\n\
         .note {{ font-size: 11px; fill: #666 }}\n\
         .ours {{ fill: #2a6fbb }} .bare {{ fill: #bbb }} .samba {{ fill: #d08a2e }}\n\
         </style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"10\" y=\"26\" class=\"title\">Messages between processes, per second</text>\n\
         <text x=\"10\" y=\"46\" class=\"note\">{}</text>\n\
         <text x=\"10\" y=\"62\" class=\"note\">The line is what bare sockets do in each \
         workload, with a datagram for each message.</text>\n\
         {body}\
         <line x1=\"{bare_x}\" y1=\"{TOP}\" x2=\"{bare_x}\" y2=\"{y}\" stroke=\"#888\" \
         stroke-dasharray=\"4 3\"/>\n</svg>\n",
        escape(report.conditions()),
    )
}

fn heading(line: &Line) -> String {
    let pairs = if line.pairs == 1 { "pair" } else { "pairs" };
    format!("{}: {} {pairs} of processes, {} bytes", line.workload, line.pairs, line.message_bytes)
}

fn bar(body: &mut String, line: &Line, y: f64, unit: f64) {
    let class = match line.transport {
        "bare" | "samba" => line.transport,
        _ => "ours",
    };
    let width = line.ratio_to_bare.unwrap_or(0.0) * unit;
    let height = ROW_HEIGHT - 6.0;
    text(body, (20.0, y + 13.0), "", line.transport);
    // Writing to a string cannot fail.
    let _ = writeln!(
        body,
        "<rect x=\"{BARS_X}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\" \
         class=\"{class}\"/>"
    );
    let mut label = figure(line.messages_per_second);
    if let (Some(ratio), true) = (line.ratio_to_samba, line.transport != "samba") {
        let _ = write!(label, "  ({} × Samba)", figure(ratio));
    }
    text(body, (BARS_X + width + 8.0, y + 13.0), "", &label);
}

/// Appends words that begin at a place.
pub fn text(body: &mut String, (x, y): (f64, f64), class: &str, words: &str) {
    let _ = writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>",
        escape(words)
    );
}

fn escape(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn words_are_no_markup() {
        assert_eq!(escape("a < b & c"), "a &lt; b &amp; c");
    }
}
