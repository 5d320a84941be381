//! Collected messages: several messages become one turn. Each new message delays the turn again.

use provost_core::lifecycle::{InputKind, InputOutcome};
use provost_core::scheduling::InputMode;
use provost_store::table::work::input;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Locked, Tx};

use super::{InputReceipt, MessageOrigin, has_begun};
use crate::error::EngineError;
use crate::input::follow_up::{self, FollowUpContext};
use crate::input::route::RoutedInput;
use crate::submit::queue;

/// Joins the last waiting turn if it is collected in the same way. Otherwise starts a new turn.
pub(super) fn collect(
    tx: &mut Tx<'_>,
    routed: &mut RoutedInput<'_>,
    follow_up_context: &FollowUpContext,
) -> Result<InputReceipt, EngineError> {
    let outcome = InputOutcome::Collected;
    let due = routed.settings.due(InputMode::Collect, tx.now());
    if let Some(mut run) = joinable(tx, routed)? {
        let row = routed.insert(tx, outcome, Some(run.id))?;
        queue::schedule(tx, &mut run, due)?;
        run.save(tx)?;
        queue::refresh(tx, &run.namespace, &run.session_id)?;
        return Ok(routed.receipt(&row, run.id, outcome));
    }
    let row = routed.insert(tx, outcome, None)?;
    let command = routed.message.command;
    let start = follow_up::FollowUpRun {
        id: command.run_id.unwrap_or_else(|| tx.id()),
        not_before: due,
        command,
        rank: None,
    };
    let run = {
        let inputs = std::slice::from_ref(&row);
        follow_up::start(tx, &mut routed.task, follow_up_context, &start, inputs)?
    };
    Ok(routed.receipt(&row, run, outcome))
}

/// Returns the last waiting run of the task, if the message can join it. Joining an earlier run would overtake the
/// messages in between.
fn joinable(
    tx: &mut Tx<'_>,
    routed: &RoutedInput<'_>,
) -> Result<Option<Locked<RunRow>>, EngineError> {
    let live = run::lock_live_of_task(tx, routed.task.id)?;
    let Some(last) = live.into_iter().rfind(|run| !has_begun(run)) else { return Ok(None) };
    let origin = MessageOrigin::of_command(routed.message.command);
    let waiting = input::pending_of_run(tx, last.id)?;
    for row in &waiting {
        let collected = row.outcome == InputOutcome::Collected;
        if row.kind != InputKind::Summary
            && !(collected && MessageOrigin::of(row)?.can_merge(&origin))
        {
            return Ok(None);
        }
    }
    Ok((!waiting.is_empty()).then_some(last))
}
