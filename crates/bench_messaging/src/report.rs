//! Results: for a terminal and for programs.

use anyhow::Result;
use serde::Serialize;

use super::Carrier;
use super::histogram::Histogram;
use super::measurement::Measurement;
use super::options::MessagingOptions;
use super::workload::Workload;
use crate::machine::Machine;
use crate::statistics::Summary;
use crate::table::{Table, figure};

/// A workload over a carrier, with the results of each round.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) workload: Workload,
    pub(super) carrier: Carrier,
    rates: Vec<f64>,
    round_trips: Histogram,
}

/// Results of all workloads and carriers.
#[derive(Clone, Debug)]
pub(super) struct Report {
    rows: Vec<Row>,
    conditions: String,
}

/// A row of the table in figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    pub(super) workload: &'static str,
    pub(super) transport: &'static str,
    pub(super) pairs: usize,
    pub(super) message_bytes: usize,
    outstanding: usize,
    pub(super) messages_per_second: f64,
    messages_per_second_min: f64,
    messages_per_second_max: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    pub(super) ratio_to_samba: Option<f64>,
    pub(super) ratio_to_bare: Option<f64>,
}

impl Row {
    pub(super) fn new(workload: Workload, carrier: Carrier) -> Self {
        Self { workload, carrier, rates: Vec::new(), round_trips: Histogram::default() }
    }

    pub(super) fn add(&mut self, measurement: Measurement) {
        self.rates.push(measurement.messages_per_second);
        self.round_trips.merge(&measurement.round_trips);
    }
}

impl Report {
    pub(super) fn new(rows: Vec<Row>, options: &MessagingOptions) -> Self {
        let Machine { cpu, processors, kernel, load_average, .. } = Machine::this();
        let conditions = format!(
            "{cpu}, {processors} processors, Linux {kernel}, load average {load_average}; {} \
             rounds of {} s each, by turns.",
            options.rounds,
            figure(options.slice().as_secs_f64()),
        );
        Self { rows, conditions }
    }

    pub(super) fn conditions(&self) -> &str {
        &self.conditions
    }

    /// The rows in figures; the ratios are those of rounds, in which one came after the other.
    pub(super) fn lines(&self) -> Vec<Line> {
        self.rows.iter().filter_map(|row| self.line(row)).collect()
    }

    fn line(&self, row: &Row) -> Option<Line> {
        let rates = Summary::of(row.rates.iter().copied())?;
        let ratio_to = |carrier: Carrier| {
            let is_it = |other: &&Row| (other.workload, other.carrier) == (row.workload, carrier);
            let other = self.rows.iter().find(is_it)?;
            Some(Summary::of_ratios(&row.rates, &other.rates, true)?.median)
        };
        Some(Line {
            workload: row.workload.name,
            transport: row.carrier.name(),
            pairs: row.workload.pairs,
            message_bytes: row.workload.message_bytes(),
            outstanding: row.workload.outstanding,
            messages_per_second: rates.median,
            messages_per_second_min: rates.min,
            messages_per_second_max: rates.max,
            p50_us: row.round_trips.percentile_us(0.5),
            p99_us: row.round_trips.percentile_us(0.99),
            ratio_to_samba: ratio_to(Carrier::Samba),
            ratio_to_bare: ratio_to(Carrier::Bare),
        })
    }

    pub(super) fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(&self.lines())? + "\n")
    }

    pub(super) fn to_text(&self) -> String {
        format!("{}\n\n{}", self.conditions, self.table().to_text())
    }

    pub(super) fn to_markdown(&self) -> String {
        format!("{}\n\n{}", self.conditions, self.table().to_markdown())
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            "workload",
            "transport",
            "pairs",
            "bytes",
            "messages/s",
            "lowest",
            "highest",
            "× samba",
            "× bare",
            "p50 µs",
            "p99 µs",
        ]);
        let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
        for line in self.lines() {
            table.push(vec![
                line.workload.to_owned(),
                line.transport.to_owned(),
                line.pairs.to_string(),
                line.message_bytes.to_string(),
                figure(line.messages_per_second),
                figure(line.messages_per_second_min),
                figure(line.messages_per_second_max),
                or_dash(line.ratio_to_samba),
                or_dash(line.ratio_to_bare),
                or_dash(line.p50_us),
                or_dash(line.p99_us),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use messaging::TransportKind;

    use super::super::workload;
    use super::{Carrier, Histogram, Measurement, Report, Row};

    fn row(carrier: Carrier, rates: [f64; 3]) -> Row {
        let mut row = Row::new(workload::all()[0], carrier);
        for messages_per_second in rates {
            row.add(Measurement { messages_per_second, round_trips: Histogram::default() });
        }
        row
    }

    #[test]
    fn ratios_are_those_of_rounds() {
        let ours = Carrier::Ours(TransportKind::BUILT[0]);
        let rows = vec![
            row(ours, [60.0, 20.0, 400.0]),
            row(Carrier::Bare, [120.0, 40.0, 400.0]),
            row(Carrier::Samba, [10.0, 4.0, 100.0]),
        ];
        let lines = Report { rows, conditions: String::new() }.lines();
        assert_eq!((lines[0].messages_per_second, lines[0].messages_per_second_max), (60.0, 400.0));
        assert_eq!(lines[0].ratio_to_samba, Some(5.0));
        assert_eq!(lines[0].ratio_to_bare, Some(0.5));
        assert_eq!(lines[2].ratio_to_samba, Some(1.0));
    }
}
