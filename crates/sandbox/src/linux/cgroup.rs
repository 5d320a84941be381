//! Control groups: processes, memory and processor time of a whole job, counted by the kernel.
//!
//! Both forms of them are known: one tree for all (`cgroup.controllers` at its root), and one tree for each controller. What
//! cannot be made here, for want of rights or of a controller, is not counted, and the backend says so.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process};

use crate::limits::{FIRST_LOOK, KILL_GRACE, LOOK};
use crate::linux::scratch_dir::is_orphaned;
use crate::profile::Limits;

/// The directory of ours in a tree.
pub(crate) const OURS: &str = "provost";
/// The length of time that a share of the processors is counted in, in microseconds.
const PERIOD_US: u64 = 100_000;

/// What can be counted here.
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
    /// Looks what there is, and takes away what processes that are no more have left.
    pub(crate) fn find() -> Self {
        Self::find_in(Path::new("/sys/fs/cgroup"))
    }

    pub(crate) fn find_in(root: &Path) -> Self {
        if root.join("cgroup.controllers").exists() {
            return Self::unified(root);
        }
        let tree = |name: &str| {
            let ours = root.join(name).join(OURS);
            let is_there = root.join(name).join("cgroup.procs").exists();
            (is_there && can_make(&ours)).then(|| sweep(ours))
        };
        Self { pids: tree("pids"), memory: tree("memory"), cpu: tree("cpu"), is_unified: false }
    }

    fn unified(root: &Path) -> Self {
        let ours = root.join(OURS);
        if !can_make(&ours) {
            return Self::default();
        }
        let ours = sweep(ours);
        let has = |name: &str| {
            let word = format!("+{name}");
            let given = fs::write(root.join("cgroup.subtree_control"), &word)
                .and_then(|()| fs::write(ours.join("cgroup.subtree_control"), &word));
            given.is_ok().then(|| ours.clone())
        };
        Self { pids: has("pids"), memory: has("memory"), cpu: has("cpu"), is_unified: true }
    }

    pub(crate) fn counts_pids(&self) -> bool {
        self.pids.is_some()
    }

    pub(crate) fn counts_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub(crate) fn counts_cpu(&self) -> bool {
        self.cpu.is_some()
    }

    /// Makes the groups of one job. The name begins with its owner, so that others know when it is nobody's.
    pub(crate) fn make(&self, name: &str) -> io::Result<Cgroup> {
        let mut made = Cgroup { dirs: Vec::new() };
        for (dir, _) in self.dirs(name) {
            if !made.dirs.contains(&dir) {
                fs::create_dir(&dir)?;
                made.dirs.push(dir);
            }
        }
        Ok(made)
    }

    /// Sets the bounds of a job whose groups were made.
    pub(crate) fn bound(&self, name: &str, limits: &Limits) -> io::Result<()> {
        self.dirs(name).try_for_each(|(dir, kind)| self.limit(&dir, kind, limits))
    }

    fn dirs(&self, name: &str) -> impl Iterator<Item = (PathBuf, &'static str)> {
        let trees = [(&self.pids, "pids"), (&self.memory, "memory"), (&self.cpu, "cpu")];
        trees.into_iter().filter_map(move |(tree, kind)| Some((tree.as_ref()?.join(name), kind)))
    }

    fn limit(&self, dir: &Path, kind: &str, limits: &Limits) -> io::Result<()> {
        let quota = PERIOD_US * u64::from(limits.cpu_percent.max(1)) / 100;
        let memory = limits.memory_bytes.to_string();
        let put = |name: &str, text: &str| fs::write(dir.join(name), text);
        match (kind, self.is_unified) {
            ("pids", _) => put("pids.max", &limits.pids.to_string()),
            ("memory", true) => {
                put("memory.max", &memory)?;
                // Where memory is never swapped there is no such file.
                put("memory.swap.max", "0").or(Ok(()))
            }
            ("memory", false) => {
                // With what is swapped it is never less than without, not even for a moment.
                put("memory.memsw.limit_in_bytes", "-1").unwrap_or_default();
                put("memory.limit_in_bytes", &memory)?;
                put("memory.memsw.limit_in_bytes", &memory).or(Ok(()))
            }
            (_, true) => put("cpu.max", &format!("{quota} {PERIOD_US}")),
            (_, false) => {
                put("cpu.cfs_period_us", &PERIOD_US.to_string())?;
                put("cpu.cfs_quota_us", &quota.to_string())
            }
        }
    }
}

impl Cgroup {
    /// The groups of a job that somebody else makes, in every tree there is.
    pub(crate) fn made_by_others(name: &str) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let trees = fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
        let trees = trees.map(|tree| tree.path()).chain([root.to_owned()]);
        Self { dirs: trees.map(|tree| tree.join(OURS).join(name)).collect() }
    }

    /// The files that a process writes `0` to, to be in the groups.
    pub(crate) fn doors(&self) -> Vec<PathBuf> {
        self.dirs.iter().map(|dir| dir.join("cgroup.procs")).collect()
    }

    /// Kills everything in the groups.
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

    /// Takes away those that nobody is in; true if none is left.
    pub(crate) fn remove_empty(&mut self) -> bool {
        self.dirs.retain(|dir| fs::remove_dir(dir).is_err() && dir.exists());
        self.dirs.is_empty()
    }

    /// Waits until nobody is in the groups, killing whoever is, and takes them away.
    pub(crate) fn remove(mut self) {
        self.clear();
    }

    fn clear(&mut self) {
        let until = Instant::now() + KILL_GRACE;
        // Whoever is just ending needs no more than a moment.
        let mut pause = FIRST_LOOK;
        loop {
            if self.remove_empty() {
                return;
            }
            if Instant::now() >= until {
                tracing::warn!("a control group of a sandbox stays: the next start takes it away");
                return self.dirs.clear();
            }
            self.kill();
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOK);
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if !self.remove_empty() {
            // A job that was given up while it started may be in them: its end is waited for, but not here.
            let mut left = Self { dirs: std::mem::take(&mut self.dirs) };
            std::thread::spawn(move || left.clear());
        }
    }
}

/// True if groups can be made here: somebody else's directory of the same name is none of ours.
fn can_make(ours: &Path) -> bool {
    fs::create_dir_all(ours).is_ok() && access(ours, Access::WRITE_OK).is_ok()
}

fn members(dir: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
}

/// Takes away what processes that are no more have left, with everybody who is still in it.
fn sweep(ours: PathBuf) -> PathBuf {
    let entries = fs::read_dir(&ours).into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        if entry.file_name().to_str().is_some_and(is_orphaned) {
            let left = Cgroup { dirs: vec![entry.path()] };
            left.kill();
            left.remove();
        }
    }
    ours
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files where the kernel would have them: what is written can be read back.
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
        let groups = Cgroups::find_in(root.path());
        assert!(groups.counts_pids() && groups.counts_memory() && groups.counts_cpu());
        let limits = Limits { pids: 7, memory_bytes: 1000, cpu_percent: 50, ..Limits::default() };
        let job = groups.make("1-2-3").unwrap();
        groups.bound("1-2-3", &limits).unwrap();
        let dir = root.path().join(OURS).join("1-2-3");
        let said = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!(said("pids.max"), "7");
        assert_eq!(said("memory.max"), "1000");
        assert_eq!(said("cpu.max"), "50000 100000");
        assert_eq!(job.doors(), [dir.join("cgroup.procs")]);
    }

    #[test]
    fn one_tree_for_each_controller_counts_what_is_there() {
        let root = tree(&["pids/cgroup.procs", "cpu/cgroup.procs"]);
        let groups = Cgroups::find_in(root.path());
        assert!(groups.counts_pids() && groups.counts_cpu() && !groups.counts_memory());
        let job = groups.make("1-2-0").unwrap();
        groups.bound("1-2-0", &Limits::default()).unwrap();
        assert_eq!(job.doors().len(), 2);
        let quota = job.dirs[1].join("cpu.cfs_quota_us");
        assert_eq!(fs::read_to_string(quota).unwrap(), "100000");
    }

    #[test]
    fn where_nothing_can_be_made_nothing_is_counted() {
        let root = tree(&["other/file"]);
        assert_eq!(Cgroups::find_in(root.path()), Cgroups::default());
        assert!(Cgroups::default().make("1-2-0").unwrap().doors().is_empty());
    }
}
