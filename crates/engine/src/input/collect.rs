//! Messages that become one turn: each one more makes all of them wait for another quiet while.

use provost_core::lifecycle::InputOutcome;
use provost_core::scheduling::InputMode;
use provost_store::table::work::input;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Locked, Tx};

use super::{InputReceipt, Origin, SUMMARY, has_begun};
use crate::error::EngineError;
use crate::input::follow_up::{self, Footing};
use crate::input::route::Arrival;
use crate::queue;

/// Joins the last waiting turn if that is collected in the same way, else begins one.
pub(super) fn collect(
    tx: &mut Tx<'_>,
    arrival: &mut Arrival<'_>,
    footing: &Footing,
) -> Result<InputReceipt, EngineError> {
    let outcome = InputOutcome::Collected;
    let due = arrival.settings.due(InputMode::Collect, tx.now());
    if let Some(mut run) = joinable(tx, arrival)? {
        let row = arrival.insert(tx, outcome, Some(run.id))?;
        queue::schedule(tx, &mut run, due)?;
        run.save(tx)?;
        queue::refresh(tx, &run.namespace, &run.session_id)?;
        return Ok(arrival.receipt(&row, run.id, outcome));
    }
    let row = arrival.insert(tx, outcome, None)?;
    let command = arrival.message.command;
    let start = follow_up::Start {
        id: command.run_id.unwrap_or_else(|| tx.id()),
        not_before: due,
        command,
        rank: None,
    };
    let run = {
        let inputs = std::slice::from_ref(&row);
        follow_up::start(tx, &mut arrival.task, footing, &start, inputs)?
    };
    Ok(arrival.receipt(&row, run, outcome))
}

/// Only the last one in the queue: joining an earlier one would overtake what came in between.
fn joinable(tx: &mut Tx<'_>, arrival: &Arrival<'_>) -> Result<Option<Locked<RunRow>>, EngineError> {
    let live = run::lock_live_of_task(tx, arrival.task.id)?;
    let Some(last) = live.into_iter().rfind(|run| !has_begun(run)) else { return Ok(None) };
    let origin = Origin::of_command(arrival.message.command);
    let waiting = input::waiting_for_run(tx, last.id)?;
    for row in &waiting {
        let collected = row.outcome == InputOutcome::Collected.as_str();
        if row.kind != SUMMARY && !(collected && Origin::of(row)?.can_merge(&origin)) {
            return Ok(None);
        }
    }
    Ok((!waiting.is_empty()).then_some(last))
}
