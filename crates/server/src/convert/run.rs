//! Converts runs.

use provost_api::{
    Attempt, CancelOutcome, CancelReceipt, DateTime, ForkReceipt, ForkRequest, Problem,
    ReplayReport, Run, RunTransition, Step,
};
use provost_core::Money;
use provost_engine::{ForkEdit, ForkOptions};
use provost_store::query::run_history::RunChange;
use provost_store::query::step::StepView;
use provost_store::table::work::attempt::AttemptRow;
use provost_store::table::work::run::RunRow;
use serde::Deserialize;

use super::parse_json;
use crate::error;

/// Stored result of a run.
#[derive(Deserialize)]
struct StoredResult {
    #[serde(default)]
    text: Option<String>,
}

/// Converts a run.
pub(crate) fn view(row: RunRow) -> Result<Run, Problem> {
    let result: Option<StoredResult> = row.result.as_deref().map(parse_json).transpose()?;
    Ok(Run {
        id: row.id,
        namespace: row.namespace,
        task: row.task_id,
        ordinal: row.ordinal,
        session: row.session_id,
        agent: row.agent,
        agent_revision: row.agent_revision,
        status: row.status,
        phase: row.phase,
        outcome: row.outcome_code,
        detail: row.detail,
        answer: result.and_then(|result| result.text),
        parked_for: row.parked_for.map(|reason| reason.to_string()),
        class: row.class_key,
        policy: parse_json(&row.policy)?,
        attempt: row.attempt_no,
        epoch: row.epoch,
        worker: row.lease_owner,
        not_before: DateTime(row.not_before),
        deadline: row.deadline.map(DateTime),
        timeout_ms: row.timeout_ms,
        cancel_requested: row.cancel_requested.map(DateTime),
        parent: row.parent_run_id,
        depth: row.depth,
        forked_from: row.forked_from,
        forked_step: row.forked_step,
        usage: row.usage.as_deref().map(parse_json).transpose()?,
        cost: Money::from_micros(row.cost_micros),
        events: row.next_seq.saturating_sub(1),
        steps: row.next_step.saturating_sub(1),
        created: DateTime(row.created),
        started: row.started.map(DateTime),
        ended: row.ended.map(DateTime),
    })
}

/// Converts a run attempt.
pub(crate) fn attempt(row: AttemptRow) -> Result<Attempt, Problem> {
    Ok(Attempt {
        number: row.attempt_no,
        strategy: row.strategy,
        status: row.status,
        epoch: row.epoch,
        provider: row.provider,
        model: row.model,
        execution: row.execution_id,
        worker: row.worker_id,
        started: DateTime(row.started),
        ended: row.ended.map(DateTime),
        outcome: row.outcome_code,
        detail: row.detail,
    })
}

/// Converts a step.
pub(crate) fn step(shown: StepView) -> Result<Step, Problem> {
    let StepView { row, message, result } = shown;
    Ok(Step {
        number: row.step,
        kind: row.kind,
        state: row.state,
        name: row.name,
        call_id: row.call_id,
        effect_class: row.effect_class,
        effect_key: row.effect_key.map(Into::into),
        tries: row.tries,
        epoch: row.epoch,
        message: message.map(|message| (*message).clone()),
        result,
        started: DateTime(row.started),
        ended: row.ended.map(DateTime),
    })
}

/// Converts a state change of a run.
pub(crate) fn transition(change: RunChange) -> Result<RunTransition, Problem> {
    Ok(RunTransition {
        seq: change.seq,
        kind: change.kind,
        status: change.status,
        attempt: change.attempt_no,
        epoch: change.epoch,
        at: DateTime(change.at),
        error: change.error,
        data: change.body.as_deref().map(parse_json).transpose()?,
    })
}

/// Converts the outcome of a cancellation request.
pub(crate) fn cancel_receipt(outcome: provost_engine::CancelResult) -> CancelReceipt {
    let outcome = match outcome {
        provost_engine::CancelResult::Ended => CancelOutcome::Now,
        provost_engine::CancelResult::Requested => CancelOutcome::Requested,
        provost_engine::CancelResult::AlreadyEnded => CancelOutcome::AlreadyTerminal,
    };
    CancelReceipt { outcome }
}

/// Converts a fork request to edits of the engine.
pub(crate) fn fork_edits(fork: ForkRequest) -> Result<ForkOptions, Problem> {
    let edit = match (fork.message, fork.replace_last_message) {
        (None, None) => ForkEdit::None,
        (Some(message), None) => ForkEdit::Append(message.into_parts()),
        (None, Some(message)) => ForkEdit::ReplaceLast(message.into_parts()),
        (Some(_), Some(_)) => {
            return Err(error::invalid("instead", "it cannot be combined with `say`"));
        }
    };
    Ok(ForkOptions { edit, idempotency_key: fork.idempotency_key, by: None })
}

/// Converts the receipt of a fork.
pub(crate) fn fork_receipt(forked: provost_engine::ForkReceipt) -> ForkReceipt {
    let provost_engine::ForkReceipt { task, run, session, deduped } = forked;
    ForkReceipt { task, run, session, deduped }
}

/// Converts the result of a replay.
pub(crate) fn replay(report: provost_engine::ReplayReport) -> ReplayReport {
    ReplayReport {
        consistent: report.is_consistent(),
        feeds: report.entries,
        events: report.events,
        turns: report.turns,
        answer: report.answer,
        differences: report.differences,
    }
}
