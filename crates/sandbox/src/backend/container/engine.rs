//! The commands of engines and runtimes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::machine::Machine;
use super::{ContainerOptions, Pull, Source, TMP, oci};
use crate::error::IsolationError;
use crate::linux::cgroup::Cgroup;
use crate::linux::layout::{self, WORKSPACE};
use crate::linux::scratch_dir::{JobDir, Scratch, is_orphaned};
use crate::linux::seccomp;
use crate::process::SetUp;
use crate::profile::Limits;
use crate::teardown::{LastCommand, SIGN_FILE};

/// What the names of our containers begin with.
const PREFIX: &str = "provost-";
/// The code of an engine that could not start a container.
const ENGINE_FAILED: i32 = 125;
/// The file with the filter for calls, for all containers.
const FILTER_FILE: &str = "filter.json";
/// The file with the variables of a program, in the directory of its job.
const VARIABLES_FILE: &str = "variables";
/// Bytes of a variable that stands in it.
const LINE_BYTES_MAX: usize = 32 << 10;
/// What an engine gets of our own environment: it looks for its own programs and files.
const OWN: [&str; 5] = ["PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "CONTAINER_HOST"];

/// Everything about a container but what runs in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) source: Source,
    pub(super) limits: Limits,
    /// The workspace outside, and whether it may be changed.
    pub(super) workspace: Option<(PathBuf, bool)>,
    pub(super) user: (u32, u32),
}

/// What runs in a container.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) dir: PathBuf,
}

/// Whose words are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tongue {
    Podman,
    Docker,
    /// runc and crun.
    Runtime,
}

/// A program that runs containers.
#[derive(Debug)]
pub(super) struct Engine {
    program: PathBuf,
    tongue: Tongue,
    args: Vec<String>,
    pull: Pull,
    runtime: Option<String>,
    machine: Option<Machine>,
    /// The file with the filter for calls.
    filter: PathBuf,
}

/// Who runs, where, and with which variables. They stand in a file: in the environment of the engine they would count for
/// itself, outside, and everybody can read its command line.
fn inner(
    command: &mut Command,
    shape: &Shape,
    launch: &Launch,
    file: &Path,
) -> Result<(), IsolationError> {
    command.arg(format!("--user={}:{}", shape.user.0, shape.user.1));
    command.arg(format!("--workdir={}", launch.dir.display()));
    let mut lines = String::new();
    for (name, value) in &launch.env {
        // The file has no words for an end of a line, and engines read no long ones.
        if value.contains(['\n', '\r']) || value.len() > LINE_BYTES_MAX {
            command.args(["--env", &format!("{name}={value}")]);
        } else {
            lines.extend([name.as_str(), "=", value.as_str(), "\n"]);
        }
    }
    fs::write(file, lines).map_err(IsolationError::io("no container can be described"))?;
    command.arg("--env-file").arg(file);
    Ok(())
}

/// The name of the container of a job.
pub(super) fn name(dir: &JobDir) -> String {
    format!("{PREFIX}{}", dir.name())
}

/// True if a container is one of ours, of a process that is no more.
fn is_left(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(is_orphaned)
}

/// The job of the container of a name.
pub(super) fn job(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

impl Engine {
    /// Looks for the program.
    pub(super) fn open(options: &ContainerOptions, scratch: &Scratch) -> Result<Self, String> {
        let program = layout::find(options.engine.as_os_str())
            .map_err(|error| format!("{error}; install podman, docker or runc"))?;
        let tongue = match program.file_name().and_then(OsStr::to_str) {
            Some("docker") => Tongue::Docker,
            Some("runc" | "crun") => Tongue::Runtime,
            _ => Tongue::Podman,
        };
        let mut args = options.engine_args.clone();
        if tongue == Tongue::Runtime {
            let root = oci::state_dir().map_err(|error| error.to_string())?;
            args.extend(["--root".to_owned(), root.to_string_lossy().into_owned()]);
        }
        let machine = match tongue {
            Tongue::Docker => None,
            Tongue::Podman | Tongue::Runtime => {
                Some(Machine::lay_out(scratch.path()).map_err(|error| error.to_string())?)
            }
        };
        // That of an engine lets more through, and each engine something else.
        let filter = scratch.path().join(FILTER_FILE);
        oci::write(&filter, &seccomp::oci()).map_err(|error| error.to_string())?;
        let engine = Self {
            program,
            tongue,
            args,
            pull: options.pull,
            runtime: options.runtime.clone(),
            machine,
            filter,
        };
        engine.check(&options.source)?;
        Ok(engine)
    }

    /// Refuses what the engine cannot make a container of.
    pub(super) fn check(&self, source: &Source) -> Result<(), String> {
        let no = |what: &str, instead: &str| {
            Err(format!("{} takes no {what}: use {instead}", self.program.display()))
        };
        match (self.tongue, source) {
            (Tongue::Runtime, Source::Image(_)) => no("image", "podman, or a root file system"),
            (Tongue::Docker, Source::Rootfs(_) | Source::Machine) => {
                no("root file system", "podman or runc, or an image")
            }
            (_, Source::Image(image)) if image.is_empty() || image.starts_with('-') => {
                Err("the image has no name".to_owned())
            }
            (_, Source::Rootfs(path)) if !path.is_absolute() || !path.is_dir() => Err(format!(
                "there is no root file system at {}: name its whole path",
                path.display()
            )),
            _ => Ok(()),
        }
    }

    /// How it is known that a container was set up.
    pub(super) fn set_up(&self) -> SetUp {
        match self.tongue {
            Tongue::Podman | Tongue::Docker => SetUp::Unless(ENGINE_FAILED),
            Tongue::Runtime => SetUp::Signed,
        }
    }

    /// The command that runs a program in a container of its own.
    pub(super) fn run(
        &self,
        name: &str,
        shape: &Shape,
        launch: &Launch,
        dir: &Path,
    ) -> Result<Command, IsolationError> {
        if self.tongue == Tongue::Runtime {
            self.bundle(name, shape, launch, dir)?;
            let mut command = self.command();
            command.arg("run").arg("--bundle").arg(dir);
            command.arg("--pid-file").arg(dir.join(SIGN_FILE)).arg(name);
            return Ok(command);
        }
        let mut command = self.command();
        command.args(["run", "--rm", "-i", "--name", name]);
        self.whole(&mut command, shape, launch, dir)?;
        Ok(command)
    }

    /// The groups of a container that the engine does not look after itself: one that is killed while it makes them leaves them.
    pub(super) fn groups(&self, name: &str) -> Option<Cgroup> {
        (self.tongue == Tongue::Runtime).then(|| Cgroup::made_by_others(job(name)))
    }

    /// The command that takes a container away, whatever it does.
    pub(super) fn end(&self, name: &str) -> LastCommand {
        let words: &[&str] = match self.tongue {
            // It would wait ten seconds for a program that does not end when it is asked, which has been done already.
            Tongue::Podman => &["rm", "-f", "-v", "--time=0", name],
            Tongue::Docker => &["rm", "-f", "-v", name],
            Tongue::Runtime => &["delete", "--force", name],
        };
        let mut args = self.args.clone();
        args.extend(words.iter().map(|word| (*word).to_owned()));
        let dir = (self.tongue == Tongue::Runtime).then(|| oci::container_dir(name));
        LastCommand { program: self.program.clone(), args, dir }
    }

    /// Takes away the containers of processes that are no more. Blocks.
    pub(super) fn sweep(&self) {
        if self.tongue == Tongue::Runtime {
            // The runtime itself does not tell of one that it had only begun to make.
            let left = oci::known().into_iter().filter(|name| is_left(name));
            return left.for_each(|name| self.end(&name).run());
        }
        let words = ["ps", "-a", "--filter", "name=provost-", "--format", "{{.Names}}"];
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).args(words).stdin(Stdio::null()).stderr(Stdio::null());
        let Ok(told) = command.output() else { return };
        let names = String::from_utf8_lossy(&told.stdout);
        let left = names.lines().map(str::trim).filter(|name| is_left(name));
        left.for_each(|name| self.end(name).run());
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().current_dir("/");
        command.envs(OWN.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
        command
    }

    /// A container with its root and what it runs.
    fn whole(
        &self,
        command: &mut Command,
        shape: &Shape,
        launch: &Launch,
        dir: &Path,
    ) -> Result<(), IsolationError> {
        command.args(self.walls(shape));
        inner(command, shape, launch, &dir.join(VARIABLES_FILE))?;
        match &shape.source {
            Source::Image(image) => command.arg(self.pull()).arg(image),
            Source::Rootfs(path) => command.arg("--rootfs").arg(path),
            Source::Machine => match &self.machine {
                Some(machine) => {
                    command.args(machine.volumes()).arg("--rootfs").arg(machine.root())
                }
                None => command,
            },
        };
        command.arg(&launch.program).args(&launch.args);
        Ok(())
    }

    fn bundle(
        &self,
        name: &str,
        shape: &Shape,
        launch: &Launch,
        dir: &Path,
    ) -> Result<(), IsolationError> {
        oci::write(
            &dir.join("config.json"),
            &oci::config(name, shape, launch, self.machine.as_ref()),
        )
    }

    fn pull(&self) -> &'static str {
        match self.pull {
            Pull::Never => "--pull=never",
            Pull::Missing => "--pull=missing",
            Pull::Always => "--pull=always",
        }
    }

    /// What stands around every container.
    fn walls(&self, shape: &Shape) -> Vec<String> {
        let limits = &shape.limits;
        let cpus = f64::from(limits.cpu_percent.max(1)) / 100.0;
        let mut walls = vec![
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
        if let Some((outside, is_writable)) = &shape.workspace {
            let way = if *is_writable { "rw" } else { "ro" };
            // Docker takes no such words for a directory: no new privileges and no capabilities say as much.
            let how = if self.tongue == Tongue::Docker { "" } else { ",nosuid,nodev" };
            walls.push(format!("--volume={}:{WORKSPACE}:{way}{how}", outside.display()));
        }
        if self.tongue == Tongue::Podman {
            // What it says of the machine is no business of a program, and docker has no word for that.
            walls.push("--security-opt=mask=/sys".to_owned());
        }
        walls.extend(self.runtime.iter().map(|runtime| format!("--runtime={runtime}")));
        walls
    }
}
