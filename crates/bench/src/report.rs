//! Results of a run: for a terminal, a reader, and programs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::machine::Machine;
use crate::measure::Sample;
use crate::null_server::DataPath;
use crate::ratio_chart;
use crate::row::{Row, Unit};
use crate::server::Kind;
use crate::statistics::Summary;
use crate::table::{Table, figure};

/// Results of a whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Machine that the run was on.
    pub machine: Machine,
    /// The versions of the servers.
    pub versions: Vec<String>,
    /// Options of the run, in words.
    pub conditions: String,
    /// Results of each row, in order.
    pub rows: Vec<RowReport>,
    /// Rate of `cp -r` of the small files without a server, in files per second, if they were
    /// copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_copy: Option<Summary>,
}

/// Results of one row on all servers.
#[derive(Clone, Debug, Serialize)]
pub struct RowReport {
    /// Name of the row, for `--rows`.
    pub row: String,
    /// Unit of the servers' figures.
    pub unit: Unit,
    /// Whether client and server shared one processor.
    pub pinned: bool,
    /// Figures of Choro, if it was measured.
    pub choro: Option<Figures>,
    /// Figures of the other build, or of this one without io_uring, if compared with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Figures>,
    /// Figures of the null server, with files or without, if compared with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub null: Option<Figures>,
    /// Figures of Samba, if it was measured.
    pub samba: Option<Figures>,
    /// Choro to the other server; above 1, Choro is better.
    pub ratio: Option<Summary>,
    /// The same of the processor time of the servers.
    pub server_cpu_ratio: Option<f64>,
    /// Why there is nothing, if a measurement failed.
    pub failure: Option<String>,
}

/// The figures of one server.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// In the unit of the row.
    #[serde(flatten)]
    pub summary: Summary,
    /// Every sample, in the order of measurement.
    pub samples: Vec<f64>,
    /// Processor time of the server: seconds per GiB if the unit is MiB/s, else µs per operation.
    pub server_cpu: Option<f64>,
    /// Processor time of the server's busiest thread, as `server_cpu`.
    pub busiest_thread_cpu: Option<f64>,
    /// The capacity to that of one channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_one_channel: Option<Summary>,
    /// Processor time of the client in percent of the wall time.
    pub client_cpu_percent: Option<f64>,
}

impl Figures {
    fn of(samples: &[Sample]) -> Option<Self> {
        let cpu = || samples.iter().filter_map(|sample| sample.cpu);
        let median = |summary: Option<Summary>| summary.map(|summary| summary.median);
        Some(Self {
            summary: Summary::of(samples.iter().map(|sample| sample.figure))?,
            samples: samples.iter().map(|sample| sample.figure).collect(),
            server_cpu: median(Summary::of(cpu().map(|cpu| cpu.server))),
            busiest_thread_cpu: median(Summary::of(cpu().map(|cpu| cpu.busiest))),
            of_one_channel: Summary::of(samples.iter().filter_map(|it| it.of_one_channel)),
            client_cpu_percent: median(Summary::of(cpu().map(|cpu| cpu.client_percent))),
        })
    }
}

impl RowReport {
    /// The report of `row` from the samples of each server.
    #[must_use]
    pub fn new(row: &Row, samples: &[(Kind, Vec<Sample>)], failure: Option<String>) -> Self {
        let of = |wanted: Kind| {
            let samples = samples.iter().find(|(kind, _)| *kind == wanted)?;
            Figures::of(&samples.1)
        };
        let (choro, samba) = (of(Kind::Choro), of(Kind::Samba));
        let other = of(Kind::Other).or_else(|| of(Kind::Fallback));
        let null = [Kind::Null, Kind::Raw(DataPath::Pread), Kind::Raw(DataPath::Sendfile)]
            .into_iter()
            .find_map(of);
        let both = choro.as_ref().zip(other.as_ref().or(null.as_ref()).or(samba.as_ref()));
        let unit = row.unit();
        let ratio = both.and_then(|(choro, second)| {
            Summary::of_ratios(&choro.samples, &second.samples, unit.more_is_better())
        });
        let server_cpu_ratio = both
            .and_then(|(choro, second)| Some(second.server_cpu? / choro.server_cpu?))
            .filter(|ratio| ratio.is_finite());
        let pinned = row.is_pinned();
        let row = row.to_string();
        Self { row, unit, pinned, choro, other, null, samba, ratio, server_cpu_ratio, failure }
    }

    /// The figures that Choro's are compared with.
    const fn second(&self) -> &Option<Figures> {
        match (&self.other, &self.null) {
            (Some(_), _) => &self.other,
            (None, Some(_)) => &self.null,
            (None, None) => &self.samba,
        }
    }

    /// The cells of the table.
    #[must_use]
    pub fn cells(&self) -> Vec<String> {
        let nothing = || "-".to_owned();
        let figures = |server: &Option<Figures>| {
            server.as_ref().map_or_else(nothing, |figures| figures.summary.spread())
        };
        let cpu = |server: &Option<Figures>| {
            server.as_ref().and_then(|figures| figures.server_cpu).map_or_else(nothing, figure)
        };
        let busiest = |server: &Option<Figures>| {
            let figures = server.as_ref().and_then(|figures| figures.busiest_thread_cpu);
            figures.map_or_else(nothing, figure)
        };
        let client = |server: &Option<Figures>| {
            let percent = server.as_ref().and_then(|figures| figures.client_cpu_percent);
            percent.map_or_else(nothing, |percent| format!("{percent:.0} %"))
        };
        vec![
            self.row.clone(),
            self.unit.to_string(),
            figures(&self.choro),
            figures(self.second()),
            self.ratio.as_ref().map_or_else(nothing, Summary::spread),
            cpu(&self.choro),
            cpu(self.second()),
            self.server_cpu_ratio.map_or_else(nothing, figure),
            busiest(&self.choro),
            busiest(self.second()),
            client(&self.choro),
            client(self.second()),
        ]
    }
}

impl Report {
    /// The table of all rows.
    #[must_use]
    pub fn table(&self) -> Table {
        let is_other = self.rows.iter().any(|row| row.other.is_some());
        let is_null = self.rows.iter().any(|row| row.null.is_some());
        let second = match (is_other, is_null) {
            (true, _) => Kind::Other,
            (false, true) => Kind::Null,
            (false, false) => Kind::Samba,
        };
        let second = second.name();
        let mut table = Table::new([
            "row",
            "unit",
            "Choro",
            second,
            "ratio",
            "CPU Choro",
            &format!("CPU {second}"),
            "CPU ratio",
            "busiest, Choro",
            &format!("busiest, {second}"),
            "client, Choro",
            &format!("client, {second}"),
        ]);
        self.rows.iter().for_each(|row| table.push(row.cells()));
        table
    }

    /// Table of the gain from further channels for one client; `None` without such rows.
    #[must_use]
    pub fn channels(&self) -> Option<Table> {
        let nothing = || "-".to_owned();
        let mut table = Table::new(["capacity of the channels to that of one", "Choro", "Samba"]);
        for row in &self.rows {
            let of_one = |server: &Option<Figures>| server.as_ref()?.of_one_channel;
            let both = [&row.choro, row.second()].map(of_one);
            if both.iter().any(Option::is_some) {
                let cells = both.map(|it| it.as_ref().map_or_else(nothing, Summary::spread));
                table.push([vec![row.row.clone()], cells.to_vec()].concat());
            }
        }
        (!table.is_empty()).then_some(table)
    }

    /// Explains the columns of the tables.
    #[must_use]
    pub const fn legend() -> &'static str {
        "Medians (smallest–largest). A ratio above 1 is in Choro's favor; it is the median of the\n\
         ratios of the repetitions. CPU is the server's processor time: s/GiB where the unit is\n\
         MiB/s, else µs per operation; \"busiest\" is that of its busiest thread. \"client\" is\n\
         the client's processor time in percent of the wall time. With depth 1 client and server\n\
         share one processor. A capacity is the server's rate if each of its threads had a\n\
         processor of its own, without regard to the client: bytes for each second of processor\n\
         time of its busiest thread.\n"
    }

    /// Describes the machine's own results; empty if there are none.
    #[must_use]
    pub fn of_machine(&self) -> String {
        let of_copy = |files: &Summary| {
            format!("`cp -r` of the small files without a server: {} files/s.\n", files.spread())
        };
        self.local_copy.as_ref().map(of_copy).unwrap_or_default()
    }

    /// The rows that could not be measured.
    #[must_use]
    pub fn failures(&self) -> String {
        let failed = self.rows.iter().filter_map(|row| Some((row, row.failure.as_ref()?)));
        failed.map(|(row, failure)| format!("{}: {failure}\n", row.row)).collect()
    }

    /// The report as JSON.
    ///
    /// # Errors
    ///
    /// Never in fact: everything in it can be said in JSON.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The report as a page of Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let Machine { cpu, processors, memory_mib, kernel, tcp, date, load_average } =
            &self.machine;
        let versions = self.versions.join(" and ");
        format!(
            "# {versions}\n\n\
             {date}, {cpu}, {processors} processors, {memory_mib} MiB, Linux {kernel},\n\
             TCP {tcp}, load average {load_average} before the run.\n\
             {conditions}\n\n\
             {legend}{of_machine}\n{table}\n{channels}{failures}",
            conditions = self.conditions,
            legend = Self::legend(),
            of_machine = self.of_machine(),
            table = self.table().to_markdown(),
            channels = self.channels().map(|it| it.to_markdown() + "\n").unwrap_or_default(),
            failures = self.failures(),
        )
    }

    /// Writes both files and returns the path of the page.
    ///
    /// # Errors
    ///
    /// When the directory or a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<PathBuf> {
        fs::create_dir_all(directory).with_context(|| format!("{}", directory.display()))?;
        let stem = self.machine.file_stem();
        fs::write(directory.join(format!("{stem}.json")), self.to_json()?)?;
        fs::write(directory.join(format!("{stem}.svg")), ratio_chart::draw(self))?;
        let page = directory.join(format!("{stem}.md"));
        fs::write(&page, self.to_markdown())?;
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::RowReport;
    use crate::measure::{Cpu, Sample};
    use crate::row;
    use crate::server::Kind;

    #[test]
    fn a_row_has_both_servers_and_the_ratio_of_the_two() {
        let sample = |figure, server| Sample {
            figure,
            cpu: Some(Cpu { server, client_percent: 40.0, busiest: server / 2.0 }),
            of_one_channel: None,
        };
        let samples = [
            (Kind::Choro, vec![sample(200.0, 1.0), sample(240.0, 1.0), sample(220.0, 1.0)]),
            (Kind::Samba, vec![sample(100.0, 3.0), sample(80.0, 3.0), sample(110.0, 3.0)]),
        ];
        let report = RowReport::new(&row::all()[0], &samples, None);
        assert_eq!(
            report.cells(),
            [
                "read 64 KiB, depth 1, plain",
                "MiB/s",
                "220 (200–240)",
                "100 (80.0–110)",
                "2.00 (2.00–3.00)",
                "1.00",
                "3.00",
                "3.00",
                "0.50",
                "1.50",
                "40 %",
                "40 %"
            ]
        );
    }

    #[test]
    fn one_server_alone_has_no_ratio() {
        let samples = [(Kind::Samba, vec![Sample { figure: 7.0, ..Sample::default() }])];
        let cells = RowReport::new(&row::all()[0], &samples, None).cells();
        assert_eq!(cells[2..6], ["-", "7.00 (7.00–7.00)", "-", "-"]);
    }
}
