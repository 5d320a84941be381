//! Waiting for the end of a run: woken by the hub, so that a thousand who wait cost nothing while nothing happens.

use std::time::Duration;

use provost_api::Problem;
use provost_core::work::{Namespace, RunStatus};
use provost_core::{RunId, TaskId};
use provost_store::row::run::RunRow;
use tokio::time::Instant;

use crate::app::App;
use crate::convert;
use crate::error::{self, of_engine};
use crate::live::{Topic, Wants};

/// Whose end is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whom {
    /// A run's.
    Run(RunId),
    /// Of the run that answers for a task now.
    Task(TaskId),
}

/// What waiting brought.
pub(crate) struct Brought {
    /// True if the run has not ended.
    pub(crate) timed_out: bool,
    pub(crate) row: RunRow,
}

/// Waits until the run has ended, but not longer than this. Everybody who waits gets the same end.
pub(crate) async fn wait(
    app: &App,
    namespace: &Namespace,
    whom: Whom,
    patience: Duration,
) -> Result<Brought, Problem> {
    let until = Instant::now() + patience;
    let row = look(app, namespace, whom).await?;
    if has_ended(&row)? {
        return Ok(Brought { timed_out: false, row });
    }
    let topic = match whom {
        Whom::Run(run) => Topic::Run(run),
        Whom::Task(task) => Topic::Task(task),
    };
    let hub = &app.shared.hub;
    let seat = hub.join(app.engine(), topic, Wants::Ends).await;
    loop {
        let row = look(app, namespace, whom).await?;
        if has_ended(&row)? {
            return Ok(Brought { timed_out: false, row });
        }
        if hub.is_closed() {
            return Err(error::draining());
        }
        if Instant::now() >= until {
            return Ok(Brought { timed_out: true, row });
        }
        // Whichever comes first: the row is read again in any case.
        drop(tokio::time::timeout_at(until, seat.changed()).await);
    }
}

async fn look(app: &App, namespace: &Namespace, whom: Whom) -> Result<RunRow, Problem> {
    let engine = app.engine();
    let run = match whom {
        Whom::Run(run) => run,
        Whom::Task(task) => {
            let task = engine.task(namespace, task).await.map_err(of_engine)?;
            let missing = || error::bug(&format!("{} has no run", task.id));
            task.current_run_id.ok_or_else(missing)?
        }
    };
    engine.run(namespace, run).await.map_err(of_engine)
}

fn has_ended(row: &RunRow) -> Result<bool, Problem> {
    Ok(convert::word::<RunStatus>(&row.status)?.is_terminal())
}
