//! Sandboxes that are set up before there is a job for them.
//!
//! Most of what starting takes is `bwrap` setting up. So where a job of a kind came for the second time, a sandbox is made for
//! the next one: our launcher waits in it for the order, as it waits outside for the others, and becomes the program.
//!
//! Invariant: what a program finds is what it would find without, but for a launcher that it can read. A sandbox is used once. One
//! whose workspace is another directory by now, or whose copies of system files are old, is of another shape.

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

use super::{LAUNCHER_INSIDE, NAME, Plan, TMP, Wrapper};
use crate::backend::none::terms;
use crate::command::Job;
use crate::error::IsolationError;
use crate::launcher::INSIDE;
use crate::launcher::fork_server::pair;
use crate::launcher::order::{Order, Work};
use crate::linux::child_process::{Pipes, Started};
use crate::linux::layout;
use crate::linux::rootfs::Root;
use crate::process::{Running, SetUp, Terms};
use crate::profile::{Limits, Network};
use crate::teardown::Remains;
use crate::warm::pool::Maker;

/// Everything about a sandbox but what runs in it.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    /// What stands around the program; the name of the root is in it.
    sandbox: Vec<String>,
    limits: Limits,
    /// Which directory the workspace is, whatever is called so.
    workspace: Option<(u64, u64)>,
    root: Arc<Root>,
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        (&self.sandbox, &self.limits, self.workspace)
            == (&other.sandbox, &other.limits, other.workspace)
    }
}

/// A sandbox in which our launcher waits.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Goes first: then whoever waits ends by itself.
    line: OwnedFd,
    running: Running,
}

impl Wrapper {
    /// The shape of a job's sandbox; nothing if none can wait for such a job.
    pub(super) fn shape(&self, job: &Job, plan: &Plan) -> Result<Option<Shape>, IsolationError> {
        // What must be done inside before the program starts is done by others than our launcher.
        let can_wait = self.starter.is_some()
            && self.cgroups.counts_pids()
            && matches!(job.profile.network, Network::Off);
        if !can_wait {
            return Ok(None);
        }
        let workspace = plan.place.outside.as_ref().map(|dir| {
            let found = fs::metadata(dir).map(|found| (found.dev(), found.ino()));
            found.map_err(IsolationError::io("the workspace cannot be used"))
        });
        // Neither is a matter of the sandbox.
        let (time, output_bytes) = (Duration::MAX, u64::MAX);
        let limits = Limits { time, output_bytes, ..job.profile.limits.clone() };
        let (sandbox, root) = (plan.sandbox.clone(), Arc::clone(&plan.root));
        Ok(Some(Shape { sandbox, limits, workspace: workspace.transpose()?, root }))
    }

    /// Starts a program in a sandbox that waits.
    pub(super) fn start_in(
        &self,
        waiting: Waiting,
        job: &Job,
        plan: &Plan,
    ) -> Result<Running, IsolationError> {
        let cannot = IsolationError::io("the sandbox cannot be started");
        let Some(starter) = &self.starter else {
            return Err(cannot(io::ErrorKind::NotFound.into()));
        };
        let mut line: Vec<OsString> = vec![plan.place.program.clone().into()];
        line.extend(job.args.iter().cloned());
        let env = layout::environment(job, plan.place.inside.as_deref(), Path::new(TMP));
        let order = Order { work: Work::Program, line, env };
        let started = starter
            .files(&job.input)
            .and_then(|(files, pipes)| order.send(waiting.line.as_fd(), &files).map(|()| pipes));
        let pipes = started.map_err(cannot)?;
        let Waiting { line, mut running } = waiting;
        running.connect(pipes, line);
        running.begin(Terms { set_up: SetUp::Told, ..terms(job, NAME) });
        Ok(running)
    }

    async fn set_up(&self, shape: Shape) -> Result<Waiting, IsolationError> {
        let cannot = || IsolationError::io("no sandbox can wait");
        let (Some(starter), Some(launcher)) = (&self.starter, &self.launcher) else {
            return Err(cannot()(io::ErrorKind::NotFound.into()));
        };
        let (first, room) = starter.take(&shape.limits).await?;
        let (ours, theirs) = pair().map_err(cannot())?;
        let files = starter.nothing().and_then(|out| Ok([theirs, out, starter.nothing()?]));
        let files = files.map_err(cannot())?;
        let mut line: Vec<OsString> = vec![self.bwrap.clone().into()];
        line.extend(shape.sandbox.into_iter().chain(self.ours(None)).map(OsString::from));
        line.extend(["--", LAUNCHER_INSIDE].map(OsString::from));
        line.extend(launcher.args.iter().map(OsString::from));
        line.push(INSIDE.into());
        // A program can read the environment of the first process it sees, which is none of its own here.
        let work = Work::Wrap(self.wrap(&shape.limits, room.dir.path()));
        let order = Order { work, line, env: BTreeMap::new() };
        let started = starter.hand(first, &order, &files, &shape.limits);
        let remains = Remains::of_sandbox(room, Arc::clone(&self.spawner));
        let remains = Remains { root: Some(shape.root), ..remains };
        let terms = Terms {
            backend: NAME,
            set_up: SetUp::Told,
            // Whoever starts a program in it says how long that may take.
            time: Duration::ZERO,
            output_bytes_max: 0,
        };
        let started = started.map(|process| Started { process, pipes: Pipes::default() });
        let running = Running::of_started(started, remains, terms)?;
        Ok(Waiting { line: ours, running })
    }
}

impl Maker for Wrapper {
    type Shape = Shape;
    type Waiting = Waiting;

    fn make(self: Arc<Self>, shape: Shape) -> BoxFuture<'static, Result<Waiting, IsolationError>> {
        async move { self.set_up(shape).await }.boxed()
    }

    fn has_ended(waiting: &Waiting) -> bool {
        waiting.running.has_ended()
    }
}
