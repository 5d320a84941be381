//! No isolation: a program with a clean environment, a deadline and its own process group.
//!
//! It is for programs that the operator trusts. Only where a control group can be made are all its processes gone at the end.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::resource::IsolationMode;
use tokio::process::Command;

use crate::backend::{Backend, Holding, holdings};
use crate::command::{Input, Job};
use crate::error::IsolationError;
use crate::linux::child_process::Started;
use crate::linux::layout::{self, Place};
use crate::linux::process_tree;
use crate::linux::scratch_dir::Scratch;
use crate::process::{Running, SetUp, Terms};
use crate::profile::{Hold, Workspace};
use crate::teardown::{Leader, Remains};
use crate::warm::spawn_thread::Spawner;

const NAME: &str = "none";

/// Runs programs without isolation.
#[derive(Debug)]
pub struct Bare {
    spawner: Arc<Spawner>,
    scratch: Scratch,
}

impl Bare {
    /// Ready to run programs.
    pub fn open() -> Result<Self, IsolationError> {
        process_tree::check(IsolationMode::None)?;
        let scratch = Scratch::open().map_err(IsolationError::io("no directory for sandboxes"))?;
        Ok(Self { spawner: Arc::new(Spawner::open()?), scratch })
    }

    async fn begin(&self, job: Job) -> Result<Running, IsolationError> {
        let dir = self.scratch.job().map_err(IsolationError::io("no directory for a job"))?;
        let tmp = dir.path().to_owned();
        let place = Place::of(&job, None, &tmp)?;
        let mut command = Command::new(&place.program);
        command.args(&job.args).env_clear().envs(layout::environment(
            &job,
            place.inside.as_deref(),
            &tmp,
        ));
        command.current_dir(&place.dir).process_group(0);
        pipes(&mut command, &job.input);
        let Started { process, pipes } = self.spawner.start(command).await?;
        let spawner = Arc::clone(&self.spawner);
        let remains = Remains {
            leader: Leader::Program,
            cgroup: None,
            dir: Some(dir),
            root: None,
            last: None,
            entrance: None,
            spawner,
        };
        Running::new(process, pipes, remains, terms(&job, NAME))
    }
}

/// Pipes for a program, none for what it may not read.
pub(crate) fn pipes(command: &mut Command, input: &Input) {
    command.stdin(if *input == Input::Empty { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// How a job's program is told apart from its sandbox, where there is nothing to set up.
pub(crate) fn terms(job: &Job, backend: &'static str) -> Terms {
    let limits = &job.profile.limits;
    Terms {
        backend,
        set_up: SetUp::Always,
        time: limits.time,
        output_bytes_max: limits.output_bytes,
    }
}

impl Backend for Bare {
    fn name(&self) -> &'static str {
        NAME
    }

    fn mode(&self) -> IsolationMode {
        IsolationMode::None
    }

    fn holds(&self) -> Vec<Holding> {
        let told = |hold: Hold| match hold {
            Hold::Environment => (true, "a clean environment"),
            _ => (false, "nothing keeps it apart"),
        };
        holdings(told)
    }

    fn start(&self, job: Job) -> BoxFuture<'_, Result<Running, IsolationError>> {
        self.begin(job).boxed()
    }

    fn workspace(&self, workspace: &Workspace) -> Option<PathBuf> {
        workspace.dir().map(Path::to_owned)
    }
}
