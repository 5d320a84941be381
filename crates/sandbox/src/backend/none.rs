//! No isolation: a command with a clean environment, a time limit and its own process group.
//!
//! Only for programs that the operator trusts. All processes of a command are gone at its end only if a control group
//! can be created.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::resource::IsolationMode;
use tokio::process::Command;

use crate::backend::{GuaranteeStatus, SandboxBackend, guarantee_statuses};
use crate::command::{SandboxCommand, Stdin};
use crate::error::IsolationError;
use crate::linux::child_process::StartedProcess;
use crate::linux::layout::{self, SandboxLayout};
use crate::linux::process_tree;
use crate::linux::scratch_dir::ScratchDir;
use crate::process::{ProcessOptions, SandboxedProcess, SetupCheck};
use crate::profile::{Guarantee, WorkspaceMount};
use crate::teardown::{RootProcess, Teardown};
use crate::warm::spawn_thread::SpawnThread;

const NAME: &str = "none";

/// The backend without isolation.
#[derive(Debug)]
pub struct NoSandbox {
    spawn_thread: Arc<SpawnThread>,
    scratch: ScratchDir,
}

impl NoSandbox {
    /// Prepares the backend. Fails if the kernel does not list the children of a process.
    pub fn open() -> Result<Self, IsolationError> {
        process_tree::check_supported(IsolationMode::None)?;
        let scratch = ScratchDir::open()
            .map_err(IsolationError::io("cannot create the directory for sandboxes"))?;
        Ok(Self { spawn_thread: Arc::new(SpawnThread::open()?), scratch })
    }

    /// Starts a command as a process of this machine, with the environment of the command and a private directory for
    /// temporary files.
    async fn begin(&self, job: SandboxCommand) -> Result<SandboxedProcess, IsolationError> {
        let dir = self
            .scratch
            .create_job_dir()
            .map_err(IsolationError::io("cannot create the directory of a job"))?;
        let tmp = dir.path().to_owned();
        let layout = SandboxLayout::of(&job, None, &tmp)?;
        let mut command = Command::new(&layout.program);
        command.args(&job.args).env_clear().envs(layout::environment(
            &job,
            layout.workspace.as_deref(),
            &tmp,
        ));
        command.current_dir(&layout.dir).process_group(0);
        pipes(&mut command, &job.input);
        let StartedProcess { process, pipes } = self.spawn_thread.start(command).await?;
        let spawn_thread = Arc::clone(&self.spawn_thread);
        let teardown = Teardown {
            root_process: RootProcess::Program,
            cgroup: None,
            dir: Some(dir),
            root: None,
            cleanup: None,
            proxy: None,
            spawn_thread,
        };
        SandboxedProcess::new(process, pipes, teardown, process_options(&job, NAME))
    }
}

/// Creates the pipes of a command. Without input, its standard input is empty.
pub(crate) fn pipes(command: &mut Command, input: &Stdin) {
    command.stdin(if *input == Stdin::Empty { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// Returns the options of a command without a setup phase.
pub(crate) fn process_options(job: &SandboxCommand, backend: &'static str) -> ProcessOptions {
    let limits = &job.profile.limits;
    ProcessOptions {
        backend,
        setup_check: SetupCheck::NotNeeded,
        time: limits.time,
        output_bytes_max: limits.output_bytes,
    }
}

impl SandboxBackend for NoSandbox {
    fn name(&self) -> &'static str {
        NAME
    }

    fn mode(&self) -> IsolationMode {
        IsolationMode::None
    }

    fn guarantees(&self) -> Vec<GuaranteeStatus> {
        let status_of = |guarantee: Guarantee| match guarantee {
            Guarantee::Environment => (true, "a clean environment"),
            _ => (false, "no isolation"),
        };
        guarantee_statuses(status_of)
    }

    fn start(
        &self,
        job: SandboxCommand,
    ) -> BoxFuture<'_, Result<SandboxedProcess, IsolationError>> {
        self.begin(job).boxed()
    }

    fn workspace(&self, workspace: &WorkspaceMount) -> Option<PathBuf> {
        workspace.dir().map(Path::to_owned)
    }
}
