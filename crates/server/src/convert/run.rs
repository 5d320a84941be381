//! Runs on the wire.

use provost_api::{
    Attempt, CancelOutcome, Cancelled, Fork, Forked, Problem, Replay, Run, Snapshot, Step, Time,
};
use provost_core::Money;
use provost_engine::{ForkEdit, ForkEdits, ReplayReport};
use provost_store::query::run_history::RunChange;
use provost_store::query::step::ShownStep;
use provost_store::table::work::attempt::AttemptRow;
use provost_store::table::work::run::RunRow;
use serde::Deserialize;

use super::{maybe_word, stored, word};
use crate::error;

/// What a run answered, as it is stored.
#[derive(Deserialize)]
struct Answered {
    #[serde(default)]
    text: Option<String>,
}

/// A run as it stands.
pub(crate) fn view(row: RunRow) -> Result<Run, Problem> {
    let answered: Option<Answered> = row.result.as_deref().map(stored).transpose()?;
    Ok(Run {
        id: row.id,
        namespace: row.namespace,
        task: row.task_id,
        ordinal: row.ordinal,
        session: row.session_id,
        agent: row.agent,
        agent_revision: row.agent_revision,
        status: word(&row.status)?,
        phase: word(&row.phase)?,
        outcome: maybe_word(row.outcome_code.as_ref())?,
        detail: row.detail,
        answer: answered.and_then(|answered| answered.text),
        parked_for: row.parked_for,
        class: row.class_key,
        policy: stored(&row.policy)?,
        attempt: row.attempt_no,
        epoch: row.epoch,
        worker: row.lease_owner,
        not_before: Time(row.not_before),
        deadline: row.deadline.map(Time),
        timeout_ms: row.timeout_ms,
        cancel_requested: row.cancel_requested.map(Time),
        parent: row.parent_run_id,
        depth: row.depth,
        forked_from: row.forked_from,
        forked_step: row.forked_step,
        usage: row.usage.as_deref().map(stored).transpose()?,
        cost: Money::from_micros(row.cost_micros),
        events: row.next_seq.saturating_sub(1),
        steps: row.next_step.saturating_sub(1),
        created: Time(row.created),
        started: row.started.map(Time),
        ended: row.ended.map(Time),
    })
}

/// One try of a run.
pub(crate) fn attempt(row: AttemptRow) -> Result<Attempt, Problem> {
    Ok(Attempt {
        number: row.attempt_no,
        strategy: word(&row.strategy)?,
        status: word(&row.status)?,
        epoch: row.epoch,
        provider: row.provider,
        model: row.model,
        execution: row.execution_id,
        worker: row.worker_id,
        started: Time(row.started),
        ended: row.ended.map(Time),
        outcome: maybe_word(row.outcome_code.as_ref())?,
        detail: row.detail,
    })
}

/// One step of the journal.
pub(crate) fn step(shown: ShownStep) -> Result<Step, Problem> {
    let ShownStep { row, message, result } = shown;
    Ok(Step {
        number: row.step,
        kind: word(&row.kind)?,
        state: word(&row.state)?,
        name: row.name,
        call_id: row.call_id,
        effect_class: maybe_word(row.effect_class.as_ref())?,
        effect_key: row.effect_key,
        tries: row.tries,
        epoch: row.epoch,
        message: message.map(|message| (*message).clone()),
        result,
        started: Time(row.started),
        ended: row.ended.map(Time),
    })
}

/// A change in the life of a run.
pub(crate) fn snapshot(change: RunChange) -> Result<Snapshot, Problem> {
    Ok(Snapshot {
        seq: change.seq,
        kind: change.kind,
        status: change.status,
        attempt: change.attempt_no,
        epoch: change.epoch,
        at: Time(change.at),
        error: change.error,
        data: change.body.as_deref().map(stored).transpose()?,
    })
}

/// What a request to cancel found.
pub(crate) fn cancelled(found: provost_engine::Cancelled) -> Cancelled {
    let outcome = match found {
        provost_engine::Cancelled::Now => CancelOutcome::Now,
        provost_engine::Cancelled::Requested => CancelOutcome::Requested,
        provost_engine::Cancelled::AlreadyTerminal => CancelOutcome::AlreadyTerminal,
    };
    Cancelled { outcome }
}

/// What is different in a fork.
pub(crate) fn fork_edits(fork: Fork) -> Result<ForkEdits, Problem> {
    let edit = match (fork.say, fork.instead) {
        (None, None) => ForkEdit::None,
        (Some(said), None) => ForkEdit::Say(said.into_parts()),
        (None, Some(said)) => ForkEdit::Instead(said.into_parts()),
        (Some(_), Some(_)) => {
            return Err(error::invalid("instead", "`say` is there, too: send one of them"));
        }
    };
    Ok(ForkEdits { edit, idempotency_key: fork.idempotency_key, by: None })
}

/// A fork that was made.
pub(crate) fn forked(forked: provost_engine::Forked) -> Forked {
    let provost_engine::Forked { task, run, session, deduped } = forked;
    Forked { task, run, session, deduped }
}

/// What a replay found.
pub(crate) fn replay(report: ReplayReport) -> Replay {
    Replay {
        consistent: report.is_consistent(),
        feeds: report.feeds,
        events: report.events,
        turns: report.turns,
        answer: report.answer,
        differences: report.differences,
    }
}
