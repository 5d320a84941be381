//! The thread that starts programs.
//!
//! A sandbox dies with the thread that started it, so that nothing outlives this process. A thread of the runtime may end
//! sooner than the process; this one ends when nobody can want it any more.

use std::io;
use std::sync::mpsc;
use std::thread;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::IsolationError;
use crate::linux::child_process::{Pipes, Process, Started};

/// Starts programs. It lives as long as anything that it has started.
#[derive(Debug)]
pub(crate) struct Spawner {
    orders: mpsc::Sender<Order>,
}

struct Order {
    command: Command,
    runtime: Handle,
    done: oneshot::Sender<io::Result<Child>>,
}

impl Spawner {
    pub(crate) fn open() -> Result<Self, IsolationError> {
        let (orders, taken) = mpsc::channel::<Order>();
        let work = move || {
            for Order { mut command, runtime, done } in taken {
                let _runtime = runtime.enter();
                // Nobody waits any more: the program is ended as its command says.
                drop(done.send(command.spawn()));
            }
        };
        let built = thread::Builder::new().name("sandbox-spawner".to_owned()).spawn(work);
        built.map_err(IsolationError::io("no thread for sandboxes"))?;
        Ok(Self { orders })
    }

    /// Starts a program.
    pub(crate) async fn spawn(&self, mut command: Command) -> Result<Child, IsolationError> {
        command.kill_on_drop(true);
        let (done, child) = oneshot::channel();
        let order = Order { command, runtime: Handle::current(), done };
        let gone = || IsolationError::Job("the thread that starts programs has ended".to_owned());
        self.orders.send(order).map_err(|_order| gone())?;
        let child = child.await.map_err(|_closed| gone())?;
        child.map_err(IsolationError::io("the sandbox cannot be started"))
    }

    /// Starts the program of a job.
    pub(crate) async fn start(&self, command: Command) -> Result<Started, IsolationError> {
        let mut child = self.spawn(command).await?;
        let pipes = Pipes::of(&mut child);
        Ok(Started { process: Process::Child(child), pipes })
    }
}
