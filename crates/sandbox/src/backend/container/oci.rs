//! OCI configuration of a container: the file that an engine would otherwise write for runc or crun.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::engine::{self, ContainerCommand, ContainerSpec};
use super::host_rootfs::HostRootfs;
use super::{RootfsSource, TMP};
use crate::error::IsolationError;
use crate::linux::cgroup;
use crate::linux::layout::WORKSPACE;
use crate::linux::seccomp;
use crate::profile::ResourceLimits;

/// State directory of the runtime. Only root can create it, and all Provost processes share it, so that one process can
/// remove the containers of another.
const STATE_DIR: &str = "/run/provost-containers";
/// Period of the processor quota, in microseconds.
const PERIOD_US: u64 = 100_000;
/// Files of `/proc` that expose kernel memory or details of the machine.
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

/// Returns the state directory of the runtime. Only for root: the runtime needs privileges for namespaces and control
/// groups.
pub(super) fn state_dir() -> io::Result<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        let reason = "runc and crun need root to limit memory and processes: use podman";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(STATE_DIR)?;
    Ok(PathBuf::from(STATE_DIR))
}

/// Returns the state directory of a container.
pub(super) fn container_dir(name: &str) -> PathBuf {
    Path::new(STATE_DIR).join(name)
}

/// Returns the names of the containers in the state directory, including those whose creation was interrupted.
pub(super) fn container_names() -> Vec<String> {
    let entries = fs::read_dir(STATE_DIR).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Writes a file for a runtime. It contains values of variables; its directory denies access to other users.
pub(super) fn write(path: &Path, value: &Value) -> Result<(), IsolationError> {
    fs::write(path, value.to_string())
        .map_err(IsolationError::io("cannot write the description of the container"))
}

/// Returns the `process` section.
pub(super) fn process(spec: &ContainerSpec, command: &ContainerCommand) -> Value {
    let text = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
    let args: Vec<String> =
        std::iter::once(&command.program).chain(&command.args).map(text).collect();
    let env: Vec<String> =
        command.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let none: [&str; 0] = [];
    json!({
        "terminal": false,
        "user": { "uid": spec.user.0, "gid": spec.user.1 },
        "args": args,
        "env": env,
        "cwd": command.dir,
        "capabilities": { "bounding": none, "effective": none, "inheritable": none,
            "permitted": none, "ambient": none },
        "rlimits": rlimits(&spec.limits),
        "noNewPrivileges": true,
    })
}

/// Returns the `rlimits` section.
fn rlimits(limits: &ResourceLimits) -> Value {
    let limit = |name: &str, value: u64| json!({ "type": name, "hard": value, "soft": value });
    json!([
        limit("RLIMIT_NOFILE", limits.open_files),
        limit("RLIMIT_FSIZE", limits.file_bytes),
        limit("RLIMIT_CPU", limits.cpu_time.as_secs().max(1)),
        limit("RLIMIT_CORE", 0),
    ])
}

/// Returns the complete configuration.
pub(super) fn config(
    name: &str,
    spec: &ContainerSpec,
    command: &ContainerCommand,
    host_rootfs: Option<&HostRootfs>,
) -> Value {
    let limits = &spec.limits;
    let root = match (&spec.source, host_rootfs) {
        (RootfsSource::Rootfs(path), _) => Some(path.as_path()),
        (RootfsSource::Host, Some(host_rootfs)) => Some(host_rootfs.root()),
        // `check` rejects these combinations before a container is created.
        (RootfsSource::Host, None) | (RootfsSource::Image(_), _) => None,
    };
    let namespaces = ["pid", "network", "ipc", "uts", "mount", "cgroup"];
    let namespaces = namespaces.map(|kind| json!({ "type": kind }));
    let quota = u64::from(limits.cpu_percent.max(1)) * PERIOD_US / 100;
    json!({
        "ociVersion": "1.0.2",
        "process": process(spec, command),
        "root": { "path": root, "readonly": true },
        "hostname": "sandbox",
        "mounts": mounts(spec, host_rootfs),
        "linux": {
            "namespaces": namespaces,
            "cgroupsPath": format!("/{}/{}", cgroup::ROOT_NAME, engine::job(name)),
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

/// Returns the memory limit. Swap counts if the kernel can count it.
fn memory(limits: &ResourceLimits) -> Value {
    let counts_swap = Path::new("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists()
        || Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    match counts_swap {
        true => json!({ "limit": limits.memory_bytes, "swap": limits.memory_bytes }),
        false => json!({ "limit": limits.memory_bytes }),
    }
}

/// Returns the `mounts` section: system directories of a new container, the root of the machine if it is used, and the
/// workspace.
fn mounts(spec: &ContainerSpec, host_rootfs: Option<&HostRootfs>) -> Value {
    let of = |to: &str, kind: &str, options: &[&str]| json!({ "destination": to, "type": kind, "source": kind, "options": options });
    let size = format!("size={}", spec.limits.tmp_bytes);
    // The runtime applies the permissions of the mount point, whatever options are set here.
    let owner = (format!("uid={}", spec.user.0), format!("gid={}", spec.user.1));
    let mut mounts = vec![
        of("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        of("/dev", "tmpfs", &["nosuid", "noexec", "strictatime", "mode=755", "size=64k"]),
        of("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", &size]),
        of(TMP, "tmpfs", &["nosuid", "nodev", "mode=1777", &owner.0, &owner.1, &size]),
    ];
    let bind = |from: &Path, to: &Path, access: &str| {
        json!({ "destination": to, "type": "bind", "source": from,
            "options": ["bind", access, "nosuid", "nodev"] })
    };
    if let (RootfsSource::Host, Some(host_rootfs)) = (&spec.source, host_rootfs) {
        mounts.extend(host_rootfs.binds().iter().map(|(from, to)| bind(from, to, "ro")));
    }
    if let Some((outside, is_writable)) = &spec.workspace {
        let access = if *is_writable { "rw" } else { "ro" };
        mounts.push(bind(outside, Path::new(WORKSPACE), access));
    }
    Value::Array(mounts)
}
