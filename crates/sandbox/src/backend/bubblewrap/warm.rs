//! Warm sandboxes: `bwrap` sandboxes that are set up before a command needs them.
//!
//! Most of the start time is the setup by `bwrap`. When a command with the same specification runs for the second time,
//! the pool therefore sets up a sandbox for the next one: the launcher waits inside for its order and then executes the
//! program.
//!
//! Invariant: a command sees the same sandbox as without warming, except for the readable launcher. A sandbox runs one
//! command. A replaced workspace directory or outdated copies of system files change the specification.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{BwrapBuilder, BwrapPlan, LAUNCHER_INSIDE, NAME, TMP};
use crate::backend::none::process_options;
use crate::command::SandboxCommand;
use crate::error::IsolationError;
use crate::launcher::WAIT_INSIDE_ARG;
use crate::launcher::fork_server::socket_pair;
use crate::launcher::order::{LaunchKind, LaunchOrder};
use crate::linux::child_process::{StartedProcess, StdPipes};
use crate::linux::layout;
use crate::linux::rootfs::Rootfs;
use crate::process::{ProcessOptions, SandboxedProcess, SetupCheck};
use crate::profile::{NetworkAccess, ResourceLimits};
use crate::teardown::Teardown;
use crate::warm::pool::WarmFactory;

/// Everything about a sandbox except the command.
#[derive(Debug, Clone)]
pub(super) struct SandboxSpec {
    /// Arguments of `bwrap`. They contain the path of the root file system.
    sandbox: Vec<String>,
    limits: ResourceLimits,
    /// Device and inode of the workspace, because its path can be reused.
    workspace: Option<(u64, u64)>,
    root: Arc<Rootfs>,
}

impl PartialEq for SandboxSpec {
    fn eq(&self, other: &Self) -> bool {
        (&self.sandbox, &self.limits, self.workspace)
            == (&other.sandbox, &other.limits, other.workspace)
    }
}

/// A sandbox in which the launcher waits.
#[derive(Debug)]
pub(super) struct WarmSandbox {
    /// Socket to the launcher. It is dropped first, which makes the launcher exit.
    command_line: OwnedFd,
    running: SandboxedProcess,
}

impl BwrapBuilder {
    /// Returns the specification of the command's sandbox. `None` if such a sandbox cannot be warm.
    pub(super) fn warm_spec(
        &self,
        job: &SandboxCommand,
        plan: &BwrapPlan,
    ) -> Result<Option<SandboxSpec>, IsolationError> {
        // The waiting launcher cannot do the other work inside: the relay and the process limit.
        let can_be_warm = self.fork_server.is_some()
            && self.cgroups.counts_pids()
            && matches!(job.profile.network, NetworkAccess::Off);
        if !can_be_warm {
            return Ok(None);
        }
        let workspace = plan.layout.host_workspace.as_ref().map(|dir| {
            let found = fs::metadata(dir).map(|found| (found.dev(), found.ino()));
            found.map_err(IsolationError::io("cannot use the workspace"))
        });
        // Time and output limits are not enforced by the sandbox, so they are not part of its specification.
        let (time, output_bytes) = (Duration::MAX, u64::MAX);
        let limits = ResourceLimits { time, output_bytes, ..job.profile.limits.clone() };
        let (sandbox, root) = (plan.sandbox.clone(), Arc::clone(&plan.root));
        Ok(Some(SandboxSpec { sandbox, limits, workspace: workspace.transpose()?, root }))
    }

    /// Sends a command to the launcher that waits in a warm sandbox. Fails if the sandbox has ended.
    pub(super) fn start_in_warm(
        &self,
        warm: WarmSandbox,
        job: &SandboxCommand,
        plan: &BwrapPlan,
    ) -> Result<SandboxedProcess, IsolationError> {
        let cannot = IsolationError::io("cannot start the sandbox");
        let Some(fork_server) = &self.fork_server else {
            return Err(cannot(io::ErrorKind::NotFound.into()));
        };
        let mut command_line: Vec<OsString> = vec![plan.layout.program.clone().into()];
        command_line.extend(job.args.iter().cloned());
        let env = layout::environment(job, plan.layout.workspace.as_deref(), Path::new(TMP));
        let order = LaunchOrder { kind: LaunchKind::Program, command_line, env };
        let started = fork_server.files(&job.input).and_then(|(files, pipes)| {
            order.send(warm.command_line.as_fd(), &files).map(|()| pipes)
        });
        let pipes = started.map_err(cannot)?;
        let WarmSandbox { command_line, mut running } = warm;
        running.connect(pipes, command_line);
        running.begin(ProcessOptions {
            setup_check: SetupCheck::StatusFile,
            ..process_options(job, NAME)
        });
        Ok(running)
    }

    /// Starts a sandbox in which the launcher waits for a command.
    async fn create_warm(&self, spec: SandboxSpec) -> Result<WarmSandbox, IsolationError> {
        let cannot = || IsolationError::io("cannot prepare a warm sandbox");
        let (Some(fork_server), Some(launcher)) = (&self.fork_server, &self.launcher) else {
            return Err(cannot()(io::ErrorKind::NotFound.into()));
        };
        let (first, resources) = fork_server.acquire(&spec.limits).await?;
        let (ours, theirs) = socket_pair().map_err(cannot())?;
        let files =
            fork_server.dev_null().and_then(|out| Ok([theirs, out, fork_server.dev_null()?]));
        let files = files.map_err(cannot())?;
        let mut command_line: Vec<OsString> = vec![self.bwrap.clone().into()];
        command_line
            .extend(spec.sandbox.into_iter().chain(self.support_mounts(None)).map(OsString::from));
        command_line.extend(["--", LAUNCHER_INSIDE].map(OsString::from));
        command_line.extend(launcher.args.iter().map(OsString::from));
        command_line.push(WAIT_INSIDE_ARG.into());
        // A program can read the environment of the first process in its namespace, so the launcher gets none.
        let kind = LaunchKind::Bwrap(self.bwrap_launch(&spec.limits, resources.dir.path()));
        let order = LaunchOrder { kind, command_line, env: BTreeMap::new() };
        let started = fork_server.assign(first, &order, &files, &spec.limits);
        let teardown = Teardown::of_sandbox(resources, Arc::clone(&self.spawn_thread));
        let teardown = Teardown { root: Some(spec.root), ..teardown };
        let process_options = ProcessOptions {
            backend: NAME,
            setup_check: SetupCheck::StatusFile,
            // The time limit starts when a command is assigned.
            time: Duration::ZERO,
            output_bytes_max: 0,
        };
        let started = started.map(|process| StartedProcess { process, pipes: StdPipes::default() });
        let running = SandboxedProcess::of_started(started, teardown, process_options)?;
        Ok(WarmSandbox { command_line: ours, running })
    }
}

impl WarmFactory for BwrapBuilder {
    type Spec = SandboxSpec;
    type Sandbox = WarmSandbox;

    fn create(
        self: Arc<Self>,
        spec: SandboxSpec,
    ) -> BoxFuture<'static, Result<WarmSandbox, IsolationError>> {
        async move { self.create_warm(spec).await }.boxed()
    }

    fn has_ended(warm: &WarmSandbox) -> bool {
        warm.running.has_ended()
    }
}
