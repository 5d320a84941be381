//! The thread that starts programs.
//!
//! A sandbox dies together with the thread that started it, so that no sandbox outlives this process. A runtime thread
//! can end earlier than the process; this thread ends when its last handle is dropped.

use std::io;
use std::sync::mpsc;
use std::thread;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::IsolationError;
use crate::linux::child_process::{ChildProcess, StartedProcess, StdPipes};

/// Handle of the thread. It lives as long as the programs that it started.
#[derive(Debug)]
pub(crate) struct SpawnThread {
    requests: mpsc::Sender<SpawnRequest>,
}

/// A command to start, and the channel for the result.
struct SpawnRequest {
    command: Command,
    runtime: Handle,
    done: oneshot::Sender<io::Result<Child>>,
}

impl SpawnThread {
    /// Starts the thread.
    pub(crate) fn open() -> Result<Self, IsolationError> {
        let (requests, received) = mpsc::channel::<SpawnRequest>();
        let work = move || {
            for SpawnRequest { mut command, runtime, done } in received {
                let _runtime = runtime.enter();
                // The receiver is gone. Dropping the child kills it.
                drop(done.send(command.spawn()));
            }
        };
        let built = thread::Builder::new().name("sandbox-spawner".to_owned()).spawn(work);
        built.map_err(IsolationError::io("cannot start the thread for sandboxes"))?;
        Ok(Self { requests })
    }

    /// Starts a program on the thread and returns the child process.
    pub(crate) async fn spawn(&self, mut command: Command) -> Result<Child, IsolationError> {
        command.kill_on_drop(true);
        let (done, child) = oneshot::channel();
        let request = SpawnRequest { command, runtime: Handle::current(), done };
        let gone =
            || IsolationError::Invalid("the thread that starts programs has ended".to_owned());
        self.requests.send(request).map_err(|_order| gone())?;
        let child = child.await.map_err(|_closed| gone())?;
        child.map_err(IsolationError::io("cannot start the sandbox"))
    }

    /// Starts the root process of a job on the thread and takes its pipes.
    pub(crate) async fn start(&self, command: Command) -> Result<StartedProcess, IsolationError> {
        let mut child = self.spawn(command).await?;
        let pipes = StdPipes::of(&mut child);
        Ok(StartedProcess { process: ChildProcess::Spawned(child), pipes })
    }
}
