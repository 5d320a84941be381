//! Feeding a run that no worker holds.

use provost_agent::run::Feed;
use provost_store::row::journal;
use provost_store::row::run::RunRow;
use provost_store::{Body, Tx};
use serde_json::json;

use crate::error::EngineError;
use crate::{event, record};

/// Feeds a run that no worker holds; the row is stored by the caller. A result goes to the step of its call.
pub(crate) fn feed_parked(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    feed: &Feed,
) -> Result<(), EngineError> {
    let record = record::feed(feed)?;
    let fed = journal::next_fed(tx, run.id)?;
    let result = match feed {
        Feed::ToolFinished { result, .. } => Some(result),
        _ => None,
    };
    let open = match result {
        Some(result) => journal::open_step_of(tx, run.id, &result.call_id)?,
        None => None,
    };
    let step = open.unwrap_or(run.next_step);
    let body = Body::new(record.body)?;
    let commit = journal::StepCommit {
        run_no: run.no,
        step,
        kind: record.kind.as_str(),
        epoch: run.epoch,
        fed,
        begun: open.is_some(),
        call_id: result.map(|result| result.call_id.as_str()),
        name: result.map(|result| result.name.as_str()),
        message_id: None,
        body: &body,
        saved: false,
    };
    journal::commit_step(tx, &commit)?;
    if open.is_none() {
        run.next_step += 1;
    }
    if let Some(result) = result {
        let body = json!({"step": step, "call_id": result.call_id});
        event::push(tx, run, "tool_finished", body)?;
    }
    Ok(())
}
