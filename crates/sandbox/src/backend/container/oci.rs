//! Containers in the words of runtimes: what an engine would otherwise write for runc or crun.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::engine::{self, Launch, Shape};
use super::machine::Machine;
use super::{Source, TMP};
use crate::error::IsolationError;
use crate::linux::cgroup;
use crate::linux::layout::WORKSPACE;
use crate::linux::seccomp;
use crate::profile::Limits;

/// Where a runtime keeps what it knows of its containers: somewhere that only root can make, and that is the same for all of
/// our processes, so that one can take away what another has left.
const STATE_DIR: &str = "/run/provost-containers";
/// The length of time that a share of the processors is counted in, in microseconds.
const PERIOD_US: u64 = 100_000;
/// What shows the kernel's own memory, or more of the machine than a program needs.
const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/config.gz",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
];
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The directory of a runtime, for root only: it makes name spaces and groups that others cannot.
pub(super) fn state_dir() -> io::Result<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        let why = "runc and crun need root to bound memory and processes: use podman";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(STATE_DIR)?;
    Ok(PathBuf::from(STATE_DIR))
}

/// What a runtime knows of a container.
pub(super) fn container_dir(name: &str) -> PathBuf {
    Path::new(STATE_DIR).join(name)
}

/// The containers that a runtime knows, or has begun to make.
pub(super) fn known() -> Vec<String> {
    let entries = fs::read_dir(STATE_DIR).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Writes a file for a runtime. Values of variables are in it, so nobody else may read it: its directory sees to that.
pub(super) fn write(path: &Path, value: &Value) -> Result<(), IsolationError> {
    fs::write(path, value.to_string()).map_err(IsolationError::io("no container can be described"))
}

/// What runs.
pub(super) fn process(shape: &Shape, launch: &Launch) -> Value {
    let text = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
    let args: Vec<String> =
        std::iter::once(&launch.program).chain(&launch.args).map(text).collect();
    let env: Vec<String> =
        launch.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let none: [&str; 0] = [];
    json!({
        "terminal": false,
        "user": { "uid": shape.user.0, "gid": shape.user.1 },
        "args": args,
        "env": env,
        "cwd": launch.dir,
        "capabilities": { "bounding": none, "effective": none, "inheritable": none,
            "permitted": none, "ambient": none },
        "rlimits": rlimits(&shape.limits),
        "noNewPrivileges": true,
    })
}

fn rlimits(limits: &Limits) -> Value {
    let bound = |name: &str, value: u64| json!({ "type": name, "hard": value, "soft": value });
    json!([
        bound("RLIMIT_NOFILE", limits.open_files),
        bound("RLIMIT_FSIZE", limits.file_bytes),
        bound("RLIMIT_CPU", limits.cpu_time.as_secs().max(1)),
        bound("RLIMIT_CORE", 0),
    ])
}

/// A whole container.
pub(super) fn config(
    name: &str,
    shape: &Shape,
    launch: &Launch,
    machine: Option<&Machine>,
) -> Value {
    let limits = &shape.limits;
    let root = match (&shape.source, machine) {
        (Source::Rootfs(path), _) => Some(path.as_path()),
        (Source::Machine, Some(machine)) => Some(machine.root()),
        // It was refused before anything was made.
        (Source::Machine, None) | (Source::Image(_), _) => None,
    };
    let spaces = ["pid", "network", "ipc", "uts", "mount", "cgroup"];
    let spaces = spaces.map(|kind| json!({ "type": kind }));
    let quota = u64::from(limits.cpu_percent.max(1)) * PERIOD_US / 100;
    json!({
        "ociVersion": "1.0.2",
        "process": process(shape, launch),
        "root": { "path": root, "readonly": true },
        "hostname": "sandbox",
        "mounts": mounts(shape, machine),
        "linux": {
            "namespaces": spaces,
            "cgroupsPath": format!("/{}/{}", cgroup::OURS, engine::job(name)),
            "resources": {
                "devices": [{ "allow": false, "access": "rwm" }],
                "memory": memory(limits),
                "cpu": { "quota": quota, "period": PERIOD_US },
                "pids": { "limit": limits.pids },
            },
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            "seccomp": seccomp::oci(),
        },
    })
}

fn memory(limits: &Limits) -> Value {
    let counts_swap = Path::new("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists()
        || Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    match counts_swap {
        true => json!({ "limit": limits.memory_bytes, "swap": limits.memory_bytes }),
        false => json!({ "limit": limits.memory_bytes }),
    }
}

fn mounts(shape: &Shape, machine: Option<&Machine>) -> Value {
    let of = |to: &str, kind: &str, options: &[&str]| json!({ "destination": to, "type": kind, "source": kind, "options": options });
    let size = format!("size={}", shape.limits.tmp_bytes);
    // A runtime gives it the rights of the directory that it is mounted on, whatever is said here.
    let owner = (format!("uid={}", shape.user.0), format!("gid={}", shape.user.1));
    let mut mounts = vec![
        of("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        of("/dev", "tmpfs", &["nosuid", "noexec", "strictatime", "mode=755", "size=64k"]),
        of("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", &size]),
        of(TMP, "tmpfs", &["nosuid", "nodev", "mode=1777", &owner.0, &owner.1, &size]),
    ];
    let bind = |from: &Path, to: &Path, way: &str| {
        json!({ "destination": to, "type": "bind", "source": from,
            "options": ["bind", way, "nosuid", "nodev"] })
    };
    if let (Source::Machine, Some(machine)) = (&shape.source, machine) {
        mounts.extend(machine.binds().iter().map(|(from, to)| bind(from, to, "ro")));
    }
    if let Some((outside, is_writable)) = &shape.workspace {
        let way = if *is_writable { "rw" } else { "ro" };
        mounts.push(bind(outside, Path::new(WORKSPACE), way));
    }
    Value::Array(mounts)
}
