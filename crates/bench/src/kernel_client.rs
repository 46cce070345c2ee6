//! The Linux kernel's own client: small files that a guest copies, lists, reads and removes.
//!
//! The guest is that of `tests/guest`: User-Mode Linux with one processor, in which all of the
//! client's work is slow. That hides a part of the difference between servers.
//!
//! Guest and server share one processor, as the loads with one request at a time do
//! ([`crate::processor`]). The guest is two tasks of this machine, its kernel and its programs,
//! which wake each other at each of its system calls. With a free processor they end up on two, and
//! each wakes the other from a halt: that takes more time than all requests do, and happens more
//! often the less work the server has.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::load::fixture::{FILES_PER_DIRECTORY, Scale};
use crate::load::small_files::FILE_BYTES;
use crate::options::Options;
use crate::processor::Processors;
use crate::run::{Interrupt, fresh_directory, turn};
use crate::server::{Kind, SHARE, Server};
use crate::statistics::Summary;
use crate::table::Table;

/// The device of the guest, and the address of this end.
const LINK: &str = "ip tuntap add dev guest0 mode tap && ip addr add 10.99.0.1/24 dev guest0 && \
                    ip link set guest0 up";

/// The servers listen there as well.
const INTERFACES: &str = "interfaces = 127.0.0.1/8 10.99.0.1/24\n";

/// Works of the guest, in this order.
const WORKS: [&str; 4] = ["copy", "list", "read", "remove"];

/// Longest run of one guest, in seconds.
const LIMIT_SECONDS: u32 = 300;

/// Results of the kernel's client on all servers.
#[derive(Debug, Serialize)]
pub struct KernelClient {
    /// Number of files, of [`FILE_BYTES`] each.
    pub files: u32,
    /// Versions of the servers, in order.
    pub versions: Vec<String>,
    /// By work; the last row is the servers' processor time for all of them.
    pub rows: Vec<Row>,
}

/// One line of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Name of the work, as in the table.
    pub work: String,
    /// Seconds that it took with each server.
    pub seconds: Vec<Summary>,
    /// The second server's time to the first's, of the guests that ran one after the other.
    pub ratio: Option<Summary>,
}

/// Seconds of one guest: of each work, and the server's processor time.
type Sample = Vec<f64>;

/// Builds the guest unless it exists: needs a network with access to Debian's packages.
///
/// # Errors
///
/// A package cannot be downloaded, or the guest not built.
pub fn prepare() -> Result<()> {
    succeed(&mut Command::new(script("build.sh")), "building the guest")
}

/// Measures all servers in turn.
///
/// # Errors
///
/// A server or a guest does not start, or fails during a run.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    progress: &mut dyn Write,
) -> Result<KernelClient> {
    ensure!(options.own_network, "this needs a network of its own");
    succeed(Command::new("sh").args(["-c", LINK]), "making the guest's network")?;
    let directory = fresh_directory(options)?;
    let processors = Processors::new(options.cpu)?;
    let start = |kind: Kind| {
        let (place, program) = (directory.path().join(kind.name()), options.program(kind)?);
        let global = format!("{}{INTERFACES}", options.global(kind));
        Server::start_with(kind, &place, &program, &global)
    };
    let servers = options.kinds().into_iter().map(start).collect::<Result<Vec<Server>>>()?;
    let job = directory.path().join("guest");
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); servers.len()];
    for repetition in 0..options.repetitions() {
        for at in turn(servers.len(), repetition) {
            interrupt.check()?;
            let server = &servers[at];
            let number = repetition + 1;
            writeln!(progress, "[{number}/{}] {}", options.repetitions(), server.kind().name())?;
            // The guest inherits it.
            processors.apply(!options.all_processors, server)?;
            samples[at].push(measure(server, &job, options.scale())?);
        }
    }
    let column = |server: &Vec<Sample>, at: usize| server.iter().map(|it| it[at]).collect();
    let row = |(at, work): (usize, &str)| {
        let all: Vec<Vec<f64>> = samples.iter().map(|server| column(server, at)).collect();
        let summary = |it: &Vec<f64>| Summary::of(it.iter().copied()).context("nothing measured");
        let seconds = all.iter().map(summary).collect::<Result<Vec<Summary>>>()?;
        let ratio = match &all[..] {
            [ours, theirs] => Summary::of_ratios(ours, theirs, false),
            _ => None,
        };
        Ok(Row { work: work.to_owned(), seconds, ratio })
    };
    let works = WORKS.into_iter().chain(["the server's processor time"]);
    Ok(KernelClient {
        files: options.scale().copied_files,
        versions: servers.iter().map(|it| it.version().to_owned()).collect(),
        rows: works.enumerate().map(row).collect::<Result<Vec<Row>>>()?,
    })
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guest").join(name)
}

fn succeed(command: &mut Command, what: &str) -> Result<()> {
    let status = command.stdout(Stdio::null()).status().with_context(|| what.to_owned())?;
    ensure!(status.success(), "{what}: {status}");
    Ok(())
}

/// Boots a guest that does all of it once.
fn measure(server: &Server, job: &Path, scale: Scale) -> Result<Sample> {
    fs::create_dir(job).with_context(|| job.display().to_string())?;
    let destination = server.destination();
    let environment = format!(
        "PORT={}\nSHARE={SHARE}\nACCOUNT='{}'\nPASSWORD='{}'\nFILES={}\nBYTES={FILE_BYTES}\n\
         FILES_PER_DIRECTORY={FILES_PER_DIRECTORY}\n",
        destination.address.port(),
        destination.user,
        destination.password,
        scale.copied_files,
    );
    fs::write(job.join("env"), environment)?;
    let before = server.processes()?;
    let mut guest = Command::new(script("run.sh"));
    guest.arg(script("copy.sh")).arg(LIMIT_SECONDS.to_string()).arg(job);
    let end = succeed(&mut guest, "a guest");
    let printed = fs::read_to_string(job.join("stdout")).unwrap_or_default();
    let complaints = fs::read_to_string(job.join("stderr")).unwrap_or_default();
    end.with_context(|| format!("{}: {printed}{complaints}", server.kind().name()))?;
    let cpu = server.processes()?.cpu().saturating_sub(before.cpu());
    fs::remove_dir_all(job)?;
    seconds(&printed, cpu.as_secs_f64())
}

/// Returns the guest's times in the order of [`WORKS`], and the processor time.
fn seconds(printed: &str, cpu: f64) -> Result<Sample> {
    let of = |work: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(work)?.strip_prefix('\t'));
        line.and_then(|it| it.parse().ok()).with_context(|| format!("no {work} in: {printed}"))
    };
    let mut seconds = WORKS.into_iter().map(of).collect::<Result<Sample>>()?;
    seconds.push(cpu);
    Ok(seconds)
}

impl KernelClient {
    /// Renders the table in Markdown, for readers.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let what = format!("{} files, seconds", self.files);
        let version = |at: usize| self.versions.get(at).map_or("-", String::as_str);
        let mut table = Table::new([&what, version(0), version(1), "ratio"]);
        for row in &self.rows {
            let cell = |it: Option<&Summary>| it.map_or_else(|| "-".to_owned(), Summary::spread);
            let [first, second] = [0, 1].map(|at| cell(row.seconds.get(at)));
            table.push(vec![row.work.clone(), first, second, cell(row.ratio.as_ref())]);
        }
        table.to_markdown()
    }

    /// The same for programs.
    ///
    /// # Errors
    ///
    /// Never in fact: everything in it can be said in JSON.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn a_guests_times_are_found_by_name_and_a_missing_one_is_an_error() {
        let printed = "copy\t7.250000\nlist\t1.5\nread\t2.0\nremove\t3.0\n";
        assert_eq!(seconds(printed, 0.5).expect("all is there"), [7.25, 1.5, 2.0, 3.0, 0.5]);
        let error = seconds("copy\t1\nlist\t2\nremove\t3\n", 0.5).expect_err("no `read`");
        assert!(error.to_string().starts_with("no read in: "), "{error}");
    }
}
