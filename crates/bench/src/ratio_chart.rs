//! The table as a chart: a bar for each row, as long as Choro is better.

use std::fmt::Write;

use bench_messaging::chart::text;

use crate::report::Report;
use crate::table::figure;

const WIDTH: f64 = 900.0;
/// X coordinates of the bars: their left end, and the right end of the longest.
const BARS_X: f64 = 330.0;
const BARS_WIDTH: f64 = 440.0;
/// Distance between the tops of two bars.
const ROW_HEIGHT: f64 = 20.0;
const TOP: f64 = 60.0;

/// The chart, as SVG. Rows without a ratio are left out.
#[must_use]
pub fn draw(report: &Report) -> String {
    let rows = report.rows.iter().filter_map(|row| Some((row, row.ratio.as_ref()?)));
    let rows: Vec<_> = rows.collect();
    let longest = rows.iter().map(|(_, ratio)| ratio.max).fold(1.0, f64::max);
    let x = |ratio: f64| BARS_X + ratio / longest * BARS_WIDTH;
    let (mut body, mut y) = (String::new(), TOP);
    for (row, ratio) in &rows {
        text(&mut body, (10.0, y + 12.0), "", &row.row);
        let class = if ratio.median >= 1.0 { "ahead" } else { "behind" };
        let (width, height) = (x(ratio.median) - BARS_X, ROW_HEIGHT - 6.0);
        let (from, to, middle) = (x(ratio.min), x(ratio.max), y + height / 2.0);
        // Writing to a string cannot fail.
        let _ = writeln!(
            body,
            "<rect x=\"{BARS_X}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\" \
             class=\"{class}\"/>\
             <line x1=\"{from:.1}\" y1=\"{middle}\" x2=\"{to:.1}\" y2=\"{middle}\" \
             stroke=\"#222\"/>"
        );
        text(&mut body, (to + 8.0, y + 12.0), "", &figure(ratio.median));
        y += ROW_HEIGHT;
    }
    let (one, height) = (x(1.0), y + 20.0);
    let mut head = String::new();
    text(&mut head, (10.0, 26.0), "title", &report.versions.join(" to "));
    text(&mut head, (10.0, 46.0), "note", &report.conditions);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n<style>\n\
         text {{ font: 12px sans-serif; fill: #222 }}\n\
         .title {{ font-size: 15px; font-weight: bold }}\n\
         .note {{ font-size: 11px; fill: #666 }}\n\
         .ahead {{ fill: #2a6fbb }} .behind {{ fill: #d08a2e }}\n\
         </style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{head}{body}\
         <line x1=\"{one:.1}\" y1=\"{TOP}\" x2=\"{one:.1}\" y2=\"{y}\" stroke=\"#888\" \
         stroke-dasharray=\"4 3\"/>\n</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::machine::Machine;
    use crate::measure::Sample;
    use crate::report::{Report, RowReport};
    use crate::row;
    use crate::server::Kind;

    #[test]
    fn bars_of_rows_show_the_faster_server() {
        let sample = |figure| Sample { figure, ..Sample::default() };
        let of = |row: &row::Row, choro, samba| {
            let samples = [(Kind::Choro, vec![sample(choro)]), (Kind::Samba, vec![sample(samba)])];
            RowReport::new(row, &samples, None)
        };
        let all = row::all();
        let rows = vec![
            of(&all[0], 200.0, 100.0),
            of(&all[1], 50.0, 100.0),
            RowReport::new(&all[2], &[], Some("it failed".into())),
        ];
        let versions = vec!["one".to_owned(), "two <2>".to_owned()];
        let report = Report {
            machine: Machine::this(),
            versions,
            conditions: "none".into(),
            rows,
            local_copy: None,
        };
        let chart = draw(&report);
        assert!(chart.contains("one to two &lt;2&gt;"));
        // The longest bar, twice as far as even, and one that goes half of that way.
        assert!(chart.contains("width=\"440.0\" height=\"14\" class=\"ahead\""), "{chart}");
        assert!(chart.contains("width=\"110.0\" height=\"14\" class=\"behind\""), "{chart}");
        assert_eq!(chart.matches("<rect x=").count(), 2);
    }
}
