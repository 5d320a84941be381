//! Control groups: the kernel accounts for processes, memory and processor time of a whole job.
//!
//! Both versions are supported: a unified hierarchy (`cgroup.controllers` at its root), and one hierarchy per
//! controller. A controller that is missing or not writable is not used, and the backend reports that.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process};

use crate::limits::{KILL_GRACE, POLL_INTERVAL_MAX, POLL_INTERVAL_MIN};
use crate::linux::scratch_dir::is_orphaned;
use crate::profile::ResourceLimits;

/// Name of our directory in each hierarchy.
pub(crate) const ROOT_NAME: &str = "provost";
/// Period of the processor quota, in microseconds.
const PERIOD_US: u64 = 100_000;

/// The available controllers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cgroups {
    pids: Option<PathBuf>,
    memory: Option<PathBuf>,
    cpu: Option<PathBuf>,
    is_unified: bool,
}

/// The groups of one job.
#[derive(Debug)]
pub(crate) struct Cgroup {
    dirs: Vec<PathBuf>,
}

impl Cgroups {
    /// Detects the controllers of this machine and kills and removes the groups of processes that no longer exist.
    pub(crate) fn detect() -> Self {
        Self::detect_in(Path::new("/sys/fs/cgroup"))
    }

    /// Detects the controllers below a mounted hierarchy. Tries the unified hierarchy first, then one per controller.
    pub(crate) fn detect_in(root: &Path) -> Self {
        if root.join("cgroup.controllers").exists() {
            return Self::unified(root);
        }
        let tree = |name: &str| {
            let ours = root.join(name).join(ROOT_NAME);
            let is_there = root.join(name).join("cgroup.procs").exists();
            (is_there && can_create(&ours)).then(|| sweep(ours))
        };
        Self { pids: tree("pids"), memory: tree("memory"), cpu: tree("cpu"), is_unified: false }
    }

    /// Detects and enables the controllers of the unified hierarchy.
    fn unified(root: &Path) -> Self {
        let ours = root.join(ROOT_NAME);
        if !can_create(&ours) {
            return Self::default();
        }
        let ours = sweep(ours);
        let has = |name: &str| {
            let controller = format!("+{name}");
            let enabled = fs::write(root.join("cgroup.subtree_control"), &controller)
                .and_then(|()| fs::write(ours.join("cgroup.subtree_control"), &controller));
            enabled.is_ok().then(|| ours.clone())
        };
        Self { pids: has("pids"), memory: has("memory"), cpu: has("cpu"), is_unified: true }
    }

    /// Returns true if a group can limit the number of processes.
    pub(crate) fn counts_pids(&self) -> bool {
        self.pids.is_some()
    }

    /// Returns true if a group can limit memory.
    pub(crate) fn counts_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Returns true if a group can limit processor time.
    pub(crate) fn counts_cpu(&self) -> bool {
        self.cpu.is_some()
    }

    /// Creates the groups of a job. The name begins with the identity of the owning process, so that other processes
    /// can detect abandoned groups.
    pub(crate) fn create(&self, name: &str) -> io::Result<Cgroup> {
        let mut created = Cgroup { dirs: Vec::new() };
        for (dir, _) in self.dirs(name) {
            if !created.dirs.contains(&dir) {
                fs::create_dir(&dir)?;
                created.dirs.push(dir);
            }
        }
        Ok(created)
    }

    /// Sets the limits of a job.
    pub(crate) fn set_limits(&self, name: &str, limits: &ResourceLimits) -> io::Result<()> {
        self.dirs(name).try_for_each(|(dir, kind)| self.limit(&dir, kind, limits))
    }

    /// Returns the directory of a job in each hierarchy, with the name of the controller.
    fn dirs(&self, name: &str) -> impl Iterator<Item = (PathBuf, &'static str)> {
        let trees = [(&self.pids, "pids"), (&self.memory, "memory"), (&self.cpu, "cpu")];
        trees.into_iter().filter_map(move |(tree, kind)| Some((tree.as_ref()?.join(name), kind)))
    }

    /// Writes the limits of one controller of a job.
    fn limit(&self, dir: &Path, kind: &str, limits: &ResourceLimits) -> io::Result<()> {
        let quota = PERIOD_US * u64::from(limits.cpu_percent.max(1)) / 100;
        let memory = limits.memory_bytes.to_string();
        let write = |name: &str, text: &str| fs::write(dir.join(name), text);
        match (kind, self.is_unified) {
            ("pids", _) => write("pids.max", &limits.pids.to_string()),
            ("memory", true) => {
                write("memory.max", &memory)?;
                // The file does not exist if the kernel has no swap support.
                write("memory.swap.max", "0").or(Ok(()))
            }
            ("memory", false) => {
                // The limit with swap must never be lower than the limit without, so it is lifted first.
                write("memory.memsw.limit_in_bytes", "-1").unwrap_or_default();
                write("memory.limit_in_bytes", &memory)?;
                write("memory.memsw.limit_in_bytes", &memory).or(Ok(()))
            }
            (_, true) => write("cpu.max", &format!("{quota} {PERIOD_US}")),
            (_, false) => {
                write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
                write("cpu.cfs_quota_us", &quota.to_string())
            }
        }
    }
}

impl Cgroup {
    /// Returns the groups that a container runtime creates for a job, in every hierarchy, whether or not they exist.
    pub(crate) fn created_by_runtime(name: &str) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let trees = fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
        let trees = trees.map(|tree| tree.path()).chain([root.to_owned()]);
        Self { dirs: trees.map(|tree| tree.join(ROOT_NAME).join(name)).collect() }
    }

    /// Returns the files to which a process writes `0` to join the groups.
    pub(crate) fn procs_files(&self) -> Vec<PathBuf> {
        self.dirs.iter().map(|dir| dir.join("cgroup.procs")).collect()
    }

    /// Kills all processes in the groups.
    pub(crate) fn kill(&self) {
        for dir in &self.dirs {
            if fs::write(dir.join("cgroup.kill"), "1").is_ok() {
                continue;
            }
            for pid in members(dir) {
                kill_process(pid, Signal::KILL).unwrap_or_default();
            }
        }
    }

    /// Removes the empty groups. Returns true if none is left.
    pub(crate) fn remove_empty(&mut self) -> bool {
        self.dirs.retain(|dir| fs::remove_dir(dir).is_err() && dir.exists());
        self.dirs.is_empty()
    }

    /// Kills all processes in the groups and removes them. Blocks until the groups are empty, for a bounded time.
    pub(crate) fn remove(mut self) {
        self.kill_and_remove();
    }

    /// Kills the processes and removes the groups until none is left, for a bounded time. Logs a warning and gives up
    /// after that.
    fn kill_and_remove(&mut self) {
        let until = Instant::now() + KILL_GRACE;
        // A process that is already exiting needs very little time.
        let mut pause = POLL_INTERVAL_MIN;
        loop {
            if self.remove_empty() {
                return;
            }
            if Instant::now() >= until {
                tracing::warn!(
                    "cannot remove a control group of a sandbox; the next start removes it"
                );
                return self.dirs.clear();
            }
            self.kill();
            std::thread::sleep(pause);
            pause = (pause * 2).min(POLL_INTERVAL_MAX);
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if !self.remove_empty() {
            // The groups may contain a job that was dropped during its start. A separate thread waits for its end.
            let mut abandoned = Self { dirs: std::mem::take(&mut self.dirs) };
            std::thread::spawn(move || abandoned.kill_and_remove());
        }
    }
}

/// Returns true if groups can be created here. A directory of the same name that belongs to another user makes it
/// false.
fn can_create(ours: &Path) -> bool {
    fs::create_dir_all(ours).is_ok() && access(ours, Access::WRITE_OK).is_ok()
}

/// Returns the processes of a group. Empty if it cannot be read.
fn members(dir: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
}

/// Kills the processes of abandoned groups and removes these groups. Returns the directory.
fn sweep(ours: PathBuf) -> PathBuf {
    let entries = fs::read_dir(&ours).into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        if entry.file_name().to_str().is_some_and(is_orphaned) {
            let abandoned = Cgroup { dirs: vec![entry.path()] };
            abandoned.kill();
            abandoned.remove();
        }
    }
    ours
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates files in place of the kernel's control files. Their content can be read back.
    fn tree(names: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for name in names {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
        root
    }

    #[test]
    fn one_tree_for_all_is_written_as_the_kernel_reads_it() {
        let root = tree(&["cgroup.controllers", "cgroup.subtree_control"]);
        let groups = Cgroups::detect_in(root.path());
        assert!(groups.counts_pids() && groups.counts_memory() && groups.counts_cpu());
        let limits = ResourceLimits {
            pids: 7,
            memory_bytes: 1000,
            cpu_percent: 50,
            ..ResourceLimits::default()
        };
        let job = groups.create("1-2-3").unwrap();
        groups.set_limits("1-2-3", &limits).unwrap();
        let dir = root.path().join(ROOT_NAME).join("1-2-3");
        let content = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!(content("pids.max"), "7");
        assert_eq!(content("memory.max"), "1000");
        assert_eq!(content("cpu.max"), "50000 100000");
        assert_eq!(job.procs_files(), [dir.join("cgroup.procs")]);
    }

    #[test]
    fn one_tree_for_each_controller_counts_what_is_there() {
        let root = tree(&["pids/cgroup.procs", "cpu/cgroup.procs"]);
        let groups = Cgroups::detect_in(root.path());
        assert!(groups.counts_pids() && groups.counts_cpu() && !groups.counts_memory());
        let job = groups.create("1-2-0").unwrap();
        groups.set_limits("1-2-0", &ResourceLimits::default()).unwrap();
        assert_eq!(job.procs_files().len(), 2);
        let quota = job.dirs[1].join("cpu.cfs_quota_us");
        assert_eq!(fs::read_to_string(quota).unwrap(), "100000");
    }

    #[test]
    fn where_nothing_can_be_made_nothing_is_counted() {
        let root = tree(&["other/file"]);
        assert_eq!(Cgroups::detect_in(root.path()), Cgroups::default());
        assert!(Cgroups::default().create("1-2-0").unwrap().procs_files().is_empty());
    }
}
