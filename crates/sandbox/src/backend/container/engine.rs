//! Command lines of engines and runtimes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::host_rootfs::HostRootfs;
use super::{ContainerOptions, PullPolicy, RootfsSource, TMP, oci};
use crate::error::IsolationError;
use crate::linux::cgroup::Cgroup;
use crate::linux::layout::{self, WORKSPACE};
use crate::linux::scratch_dir::{JobDir, ScratchDir, is_orphaned};
use crate::linux::seccomp;
use crate::process::SetupCheck;
use crate::profile::ResourceLimits;
use crate::teardown::{CleanupCommand, READY_MARKER_FILE};

/// Prefix of the names of our containers.
const PREFIX: &str = "provost-";
/// Exit code of an engine that could not start a container.
const ENGINE_FAILED: i32 = 125;
/// File with the seccomp filter, shared by all containers.
const FILTER_FILE: &str = "filter.json";
/// File with the environment variables of the command, in the directory of its job.
const VARIABLES_FILE: &str = "variables";
/// Maximum length of a value in the environment file, in bytes.
const LINE_BYTES_MAX: usize = 32 << 10;
/// Environment variables that the engine inherits. It needs them to find its programs and files.
const INHERITED_ENV: [&str; 5] =
    ["PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "CONTAINER_HOST"];

/// Everything about a container except its command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerSpec {
    pub(super) source: RootfsSource,
    pub(super) limits: ResourceLimits,
    /// Workspace directory on the host, and whether it is writable.
    pub(super) workspace: Option<(PathBuf, bool)>,
    pub(super) user: (u32, u32),
}

/// Command of a container.
#[derive(Debug, Clone)]
pub(super) struct ContainerCommand {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) dir: PathBuf,
}

/// Command-line dialect of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EngineKind {
    Podman,
    Docker,
    /// runc or crun.
    Runtime,
}

/// A program that runs containers.
#[derive(Debug)]
pub(super) struct ContainerEngine {
    program: PathBuf,
    kind: EngineKind,
    args: Vec<String>,
    pull: PullPolicy,
    runtime: Option<String>,
    host_rootfs: Option<HostRootfs>,
    /// File with the seccomp filter.
    filter: PathBuf,
}

/// Adds the user, the working directory and the environment. The variables are written to a file: the environment of
/// the engine would affect the engine itself, and every user can read its command line.
fn add_program_args(
    command: &mut Command,
    spec: &ContainerSpec,
    inner_command: &ContainerCommand,
    file: &Path,
) -> Result<(), IsolationError> {
    command.arg(format!("--user={}:{}", spec.user.0, spec.user.1));
    command.arg(format!("--workdir={}", inner_command.dir.display()));
    let mut lines = String::new();
    for (name, value) in &inner_command.env {
        // The file format cannot express a line break, and engines limit the line length.
        if value.contains(['\n', '\r']) || value.len() > LINE_BYTES_MAX {
            command.args(["--env", &format!("{name}={value}")]);
        } else {
            lines.extend([name.as_str(), "=", value.as_str(), "\n"]);
        }
    }
    fs::write(file, lines)
        .map_err(IsolationError::io("cannot write the description of the container"))?;
    command.arg("--env-file").arg(file);
    Ok(())
}

/// Returns the container name of a job.
pub(super) fn name(dir: &JobDir) -> String {
    format!("{PREFIX}{}", dir.name())
}

/// Returns true if a container belongs to a Provost process that no longer exists.
fn is_abandoned(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(is_orphaned)
}

/// Returns the job of a container name.
pub(super) fn job(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

impl ContainerEngine {
    /// Finds the engine program of the options, prepares its files and determines its kind by its name. Fails with the
    /// reason if it is missing or does not support the root file system. Runs no container.
    pub(super) fn open(options: &ContainerOptions, scratch: &ScratchDir) -> Result<Self, String> {
        let program = layout::find_program(options.engine.as_os_str())
            .map_err(|error| format!("{error}; install podman, docker or runc"))?;
        let kind = match program.file_name().and_then(OsStr::to_str) {
            Some("docker") => EngineKind::Docker,
            Some("runc" | "crun") => EngineKind::Runtime,
            _ => EngineKind::Podman,
        };
        let mut args = options.engine_args.clone();
        if kind == EngineKind::Runtime {
            let root = oci::state_dir().map_err(|error| error.to_string())?;
            args.extend(["--root".to_owned(), root.to_string_lossy().into_owned()]);
        }
        let host_rootfs = match kind {
            EngineKind::Docker => None,
            EngineKind::Podman | EngineKind::Runtime => Some(
                HostRootfs::create_mount_points(scratch.path())
                    .map_err(|error| error.to_string())?,
            ),
        };
        // The default filters of the engines permit more calls and differ from each other.
        let filter = scratch.path().join(FILTER_FILE);
        oci::write(&filter, &seccomp::oci()).map_err(|error| error.to_string())?;
        let engine = Self {
            program,
            kind,
            args,
            pull: options.pull,
            runtime: options.runtime.clone(),
            host_rootfs,
            filter,
        };
        engine.check(&options.source)?;
        Ok(engine)
    }

    /// Fails if the engine does not support the root file system.
    pub(super) fn check(&self, source: &RootfsSource) -> Result<(), String> {
        let unsupported = |source_kind: &str, instead: &str| {
            Err(format!(
                "{} does not support this {source_kind}: use {instead}",
                self.program.display()
            ))
        };
        match (self.kind, source) {
            (EngineKind::Runtime, RootfsSource::Image(_)) => {
                unsupported("image", "podman, or a root file system")
            }
            (EngineKind::Docker, RootfsSource::Rootfs(_) | RootfsSource::Host) => {
                unsupported("root file system", "podman or runc, or an image")
            }
            (_, RootfsSource::Image(image)) if image.is_empty() || image.starts_with('-') => {
                Err("the image name is empty or starts with `-`".to_owned())
            }
            (_, RootfsSource::Rootfs(path)) if !path.is_absolute() || !path.is_dir() => {
                Err(format!("{} is not the absolute path of a root file system", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Returns how to detect whether the container was set up.
    pub(super) fn setup_check(&self) -> SetupCheck {
        match self.kind {
            EngineKind::Podman | EngineKind::Docker => SetupCheck::ExitCodeNot(ENGINE_FAILED),
            EngineKind::Runtime => SetupCheck::ReadyMarker,
        }
    }

    /// Returns the command that runs a program in a new container.
    pub(super) fn run(
        &self,
        name: &str,
        spec: &ContainerSpec,
        inner_command: &ContainerCommand,
        dir: &Path,
    ) -> Result<Command, IsolationError> {
        if self.kind == EngineKind::Runtime {
            self.bundle(name, spec, inner_command, dir)?;
            let mut command = self.command();
            command.arg("run").arg("--bundle").arg(dir);
            command.arg("--pid-file").arg(dir.join(READY_MARKER_FILE)).arg(name);
            return Ok(command);
        }
        let mut command = self.command();
        command.args(["run", "--rm", "-i", "--name", name]);
        self.add_run_args(&mut command, spec, inner_command, dir)?;
        Ok(command)
    }

    /// Returns the control groups that the engine does not clean up. A runtime that is killed during creation leaves
    /// them behind.
    pub(super) fn cgroups(&self, name: &str) -> Option<Cgroup> {
        (self.kind == EngineKind::Runtime).then(|| Cgroup::created_by_runtime(job(name)))
    }

    /// Returns the command that removes a container in any state.
    pub(super) fn cleanup_command(&self, name: &str) -> CleanupCommand {
        let words: &[&str] = match self.kind {
            // Without the option, podman waits ten seconds for the program to react to SIGTERM, which it has already
            // received.
            EngineKind::Podman => &["rm", "-f", "-v", "--time=0", name],
            EngineKind::Docker => &["rm", "-f", "-v", name],
            EngineKind::Runtime => &["delete", "--force", name],
        };
        let mut args = self.args.clone();
        args.extend(words.iter().map(|word| (*word).to_owned()));
        let dir = (self.kind == EngineKind::Runtime).then(|| oci::container_dir(name));
        CleanupCommand { program: self.program.clone(), args, dir }
    }

    /// Removes the containers of processes that no longer exist. Blocks until the engine has finished.
    pub(super) fn sweep(&self) {
        if self.kind == EngineKind::Runtime {
            // The runtime does not list containers whose creation was interrupted.
            let abandoned = oci::container_names().into_iter().filter(|name| is_abandoned(name));
            return abandoned.for_each(|name| self.cleanup_command(&name).run());
        }
        let words = ["ps", "-a", "--filter", "name=provost-", "--format", "{{.Names}}"];
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).args(words).stdin(Stdio::null()).stderr(Stdio::null());
        let Ok(listed) = command.output() else { return };
        let names = String::from_utf8_lossy(&listed.stdout);
        let abandoned = names.lines().map(str::trim).filter(|name| is_abandoned(name));
        abandoned.for_each(|name| self.cleanup_command(name).run());
    }

    /// Returns a command that runs the engine with only the inherited environment variables that it needs.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().current_dir("/");
        command
            .envs(INHERITED_ENV.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
        command
    }

    /// Adds the arguments for isolation, the root file system and the command. Writes the variables of the command to
    /// a file in `dir`.
    fn add_run_args(
        &self,
        command: &mut Command,
        spec: &ContainerSpec,
        inner_command: &ContainerCommand,
        dir: &Path,
    ) -> Result<(), IsolationError> {
        command.args(self.isolation_args(spec));
        add_program_args(command, spec, inner_command, &dir.join(VARIABLES_FILE))?;
        match &spec.source {
            RootfsSource::Image(image) => command.arg(self.pull()).arg(image),
            RootfsSource::Rootfs(path) => command.arg("--rootfs").arg(path),
            RootfsSource::Host => match &self.host_rootfs {
                Some(host_rootfs) => {
                    command.args(host_rootfs.volumes()).arg("--rootfs").arg(host_rootfs.root())
                }
                None => command,
            },
        };
        command.arg(&inner_command.program).args(&inner_command.args);
        Ok(())
    }

    /// Writes the configuration of a container for an OCI runtime to `dir`.
    fn bundle(
        &self,
        name: &str,
        spec: &ContainerSpec,
        inner_command: &ContainerCommand,
        dir: &Path,
    ) -> Result<(), IsolationError> {
        oci::write(
            &dir.join("config.json"),
            &oci::config(name, spec, inner_command, self.host_rootfs.as_ref()),
        )
    }

    /// Returns the engine's argument for the pull policy.
    fn pull(&self) -> &'static str {
        match self.pull {
            PullPolicy::Never => "--pull=never",
            PullPolicy::Missing => "--pull=missing",
            PullPolicy::Always => "--pull=always",
        }
    }

    /// Returns the arguments that isolate every container.
    fn isolation_args(&self, spec: &ContainerSpec) -> Vec<String> {
        let limits = &spec.limits;
        let cpus = f64::from(limits.cpu_percent.max(1)) / 100.0;
        let mut isolation_args = vec![
            "--network=none".to_owned(),
            "--read-only".to_owned(),
            "--cap-drop=ALL".to_owned(),
            "--security-opt=no-new-privileges".to_owned(),
            format!("--security-opt=seccomp={}", self.filter.display()),
            "--ipc=private".to_owned(),
            "--hostname=sandbox".to_owned(),
            "--log-driver=none".to_owned(),
            format!("--memory={}b", limits.memory_bytes),
            format!("--memory-swap={}b", limits.memory_bytes),
            format!("--cpus={cpus:.2}"),
            format!("--pids-limit={}", limits.pids),
            format!("--ulimit=nofile={0}:{0}", limits.open_files),
            format!("--ulimit=nproc={0}:{0}", limits.pids),
            format!("--ulimit=fsize={0}:{0}", limits.file_bytes),
            format!("--ulimit=cpu={0}:{0}", limits.cpu_time.as_secs().max(1)),
            "--ulimit=core=0:0".to_owned(),
            format!("--tmpfs={TMP}:rw,nosuid,nodev,mode=1777,size={}", limits.tmp_bytes),
        ];
        if let Some((outside, is_writable)) = &spec.workspace {
            let access = if *is_writable { "rw" } else { "ro" };
            // Docker rejects these options for a directory. No new privileges and no capabilities have the same effect.
            let options = if self.kind == EngineKind::Docker { "" } else { ",nosuid,nodev" };
            isolation_args
                .push(format!("--volume={}:{WORKSPACE}:{access}{options}", outside.display()));
        }
        if self.kind == EngineKind::Podman {
            // Commands have no need for information about the machine. Docker has no such option.
            isolation_args.push("--security-opt=mask=/sys".to_owned());
        }
        isolation_args.extend(self.runtime.iter().map(|runtime| format!("--runtime={runtime}")));
        isolation_args
    }
}
