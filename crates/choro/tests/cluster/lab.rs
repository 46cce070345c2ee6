//! The nodes, which `scripts/cluster_lab.sh` starts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Exit code of the script where a machine cannot have nodes.
const CANNOT: i32 = 77;

/// Longest wait for what takes seconds on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Time from one look at what nodes do to the next.
const INTERVAL: Duration = Duration::from_millis(50);

/// Waits for a condition of the nodes, for as long as they may need.
#[track_caller]
pub(crate) fn wait_until(mut condition: impl FnMut() -> bool, complaint: impl Fn() -> String) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "{}", complaint());
        std::thread::sleep(INTERVAL);
    }
}

/// Nodes in namespaces. All their processes end when it is dropped.
#[derive(Debug)]
pub(crate) struct Lab {
    directory: TempDir,
}

impl Lab {
    /// Starts nodes, and waits until they are healthy. `None` if this machine cannot have any; the
    /// reason is on standard error.
    pub(crate) fn start(count: usize) -> Option<Self> {
        let lab = Self { directory: tempfile::tempdir().expect("there is space") };
        let output = lab.script(&["up", &count.to_string()]).output().expect("bash is installed");
        match output.status.code() {
            Some(0) => Some(lab),
            Some(CANNOT) => {
                eprintln!("left out: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            _ => panic!("the nodes do not start: {}", shown(&output)),
        }
    }

    fn script(&self, arguments: &[&str]) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cluster_lab.sh");
        let mut command = Command::new("bash");
        command.arg(script).arg(self.directory.path()).args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs a command on a node.
    pub(crate) fn run(&self, node: usize, command: &[&str]) -> Output {
        let node = node.to_string();
        let arguments = [&["run", node.as_str()], command].concat();
        self.script(&arguments).output().expect("bash is installed")
    }

    /// Runs a command on a node, and returns its output.
    #[track_caller]
    pub(crate) fn ok(&self, node: usize, command: &[&str]) -> String {
        let output = self.run(node, command);
        assert!(output.status.success(), "node {node}: {command:?}: {}", shown(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs `kill`, `start` or `link` of the script.
    #[track_caller]
    pub(crate) fn act(&self, arguments: &[&str]) {
        let output = self.script(arguments).output().expect("bash is installed");
        assert!(output.status.success(), "{arguments:?}: {}", shown(&output));
    }

    /// Waits until a command on a node succeeds.
    #[track_caller]
    pub(crate) fn wait_for(&self, node: usize, command: &[&str]) {
        let succeeds = || self.run(node, command).status.success();
        wait_until(succeeds, || format!("node {node}: {command:?}: in vain"));
    }

    /// The socket of a node's ctdbd, from outside.
    pub(crate) fn socket(&self, node: usize) -> PathBuf {
        self.node(node).join("run/ctdb/ctdbd.socket")
    }

    /// The process id of a node's ctdbd.
    pub(crate) fn ctdbd(&self, node: usize) -> u32 {
        let file = self.node(node).join("run/ctdb/ctdbd.pid");
        let text = std::fs::read_to_string(file).expect("it runs");
        text.trim().parse().expect("a process id")
    }

    /// A path on a node below `/var/lib/ctdb`, from outside.
    pub(crate) fn path(&self, node: usize, path: &Path) -> PathBuf {
        let path = path.strip_prefix("/var/lib/ctdb").expect("ctdbd's files are there");
        self.node(node).join("var").join(path)
    }

    fn node(&self, node: usize) -> PathBuf {
        self.directory.path().join(format!("n{node}"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.script(&["down"]).status();
    }
}

fn shown(output: &Output) -> String {
    let text = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned());
    format!("{:?}: {}", output.status.code(), text.concat())
}
