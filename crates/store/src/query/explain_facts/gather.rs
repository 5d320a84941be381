//! Reads all facts in one transaction, so that they are consistent.

use std::path::PathBuf;

use crate::table::governance::{approval, budget as budget_row};
use crate::table::outbound::delivery;
use crate::table::scheduling::{concurrency_limit, execution_class, timer, worker};
use crate::table::work::run::{self, RunRow};
use crate::table::work::{
    attempt, input, run_dependency, run_event, run_join, run_step, session, task,
};
use crate::{Tx, is_unlocked};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{ApprovalState, RunPhase, StepKind, StepState};
use provost_core::scheduling::TimerKind;

use super::{
    ApprovalFacts, DeliveryFacts, Facts, RunFacts, SessionFacts, Subject, SubjectFacts,
    SystemFacts, TaskFacts, WorkerFacts,
};
use crate::query::QueryError;
use crate::query::task::find_task;

/// Maximum number of tasks of a session to read.
const TASKS_MAX: u64 = 20;
/// Number of the newest steps to read.
const STEPS_BATCH: u64 = 200;

/// Reads all facts about a subject. Fails if the subject does not exist.
pub(super) fn gather(
    tx: &mut Tx<'_>,
    system: &SystemFacts,
    namespace: &Namespace,
    subject: &Subject,
) -> Result<Facts, QueryError> {
    let mut system = SystemFacts { now: tx.now(), ..system.clone() };
    system.workers = live_workers(tx)?;
    let rows = match subject {
        Subject::Run(id) => {
            let row = run::find(tx, namespace.as_str(), *id)?;
            let row = row.ok_or_else(|| QueryError::not_found("run", id))?;
            SubjectFacts::Run(Box::new(run_facts(tx, &system, row)?))
        }
        Subject::Task(id) => {
            let task = find_task(tx, namespace, *id)?;
            let row = task.current_run_id.map(|id| run::get(tx, id)).transpose()?.flatten();
            let run = row.map(|row| run_facts(tx, &system, row)).transpose()?;
            SubjectFacts::Task(Box::new(TaskFacts { task, run }))
        }
        Subject::Approval(id) => {
            let row = approval::find(tx, namespace.as_str(), *id)?;
            let approval = row.ok_or_else(|| QueryError::not_found("approval", id))?;
            let run = run::get(tx, approval.run_id)?;
            SubjectFacts::Approval(Box::new(ApprovalFacts { approval, run }))
        }
        Subject::Session(id) => {
            SubjectFacts::Session(Box::new(session_facts(tx, &system, namespace, id)?))
        }
        Subject::Delivery(id) => {
            let row = delivery::find(tx, namespace.as_str(), *id)?;
            let delivery = row.ok_or_else(|| QueryError::not_found("delivery", id))?;
            SubjectFacts::Delivery(Box::new(DeliveryFacts { delivery }))
        }
    };
    Ok(Facts { subject: subject.clone(), system, rows })
}

/// Returns the workers that have not stopped, with their facts.
fn live_workers(tx: &mut Tx<'_>) -> Result<Vec<WorkerFacts>, QueryError> {
    let rows = worker::live(tx)?;
    rows.into_iter().map(|row| worker_facts(tx, row)).collect()
}

/// Adds the facts about a worker: whether its process is alive, its leased runs and its session filter.
fn worker_facts(tx: &mut Tx<'_>, row: worker::WorkerRow) -> Result<WorkerFacts, QueryError> {
    let is_alive = row.stopped.is_none() && !is_unlocked(&PathBuf::from(&row.lock_path))?;
    let leased_runs = run::leased_by(tx, row.id)?.len() as u64;
    let session_filter = row.session_filter.as_deref().map(serde_json::from_str).transpose()?;
    Ok(WorkerFacts { row, is_alive, leased_runs, session_filter })
}

/// Reads the facts about a run and about the other run that holds its session, if any.
fn run_facts(tx: &mut Tx<'_>, system: &SystemFacts, row: RunRow) -> Result<RunFacts, QueryError> {
    let holder = match row.phase.as_str() {
        "queued" => run::session_owner(tx, &row.namespace, &row.session_id)?,
        _ => None,
    };
    let id = row.id;
    let mut facts = single_run_facts(tx, system, row)?;
    if let Some(holder) = holder.filter(|holder| holder.id != id) {
        facts.holder = Some(Box::new(single_run_facts(tx, system, holder)?));
    }
    Ok(facts)
}

/// Reads the facts about a run, without those about the run that holds its session.
fn single_run_facts(
    tx: &mut Tx<'_>,
    system: &SystemFacts,
    row: RunRow,
) -> Result<RunFacts, QueryError> {
    let id = row.id;
    let missing = || QueryError::Unreadable(format!("the class of {id} is missing"));
    let class = execution_class::get(tx, &row.class_key)?.ok_or_else(missing)?;
    let first = run::first_due(tx, &row.namespace, &row.session_id)?.map(|first| first.id);
    let approvals = approval::of_run(tx, id)?;
    let is_pending = |approval: &approval::ApprovalRow| approval.state == ApprovalState::Pending;
    let (questions, settled) = approvals.into_iter().partition(is_pending);
    let last = run_event::last(tx, id)?;
    Ok(RunFacts {
        policy: row.execution_policy()?,
        task: task::get(tx, row.task_id)?,
        class,
        namespace_ceiling: concurrency_limit::get(tx, &format!("namespace:{}", row.namespace))?,
        pool_ceiling: concurrency_limit::get(tx, &format!("pool:{}", row.pool))?,
        holder: None,
        // The run that holds the session is first, regardless of its rank.
        first: first.filter(|first| *first != id && !row.holds_session),
        ahead_in_session: run::ahead_in_session(tx, &row)?,
        ahead_in_class: run::ahead_in_class(tx, &row)?,
        attempt: attempt::get(tx, id, row.attempt_no)?,
        owner: owner(tx, system, &row)?,
        open: run_step::open(tx, id)?,
        failed_call: failed_call(tx, &row)?,
        questions,
        settled,
        children: children(tx, &row)?,
        wait_over: timer::get(tx, TimerKind::ChildWait, &id.to_string())?
            .map(|timer| timer.fire_at),
        unread: input::pending_of_run(tx, id)?,
        last_event: last.map(|event| (event.kind, event.at)),
        budgets: budgets(tx, &row)?,
        deliveries: delivery::of_run(tx, id)?,
        run: row,
    })
}

/// Returns the worker that has leased a run. `None` if no worker has.
fn owner(
    tx: &mut Tx<'_>,
    system: &SystemFacts,
    row: &RunRow,
) -> Result<Option<WorkerFacts>, QueryError> {
    let Some(id) = row.lease_owner else { return Ok(None) };
    if let Some(known) = system.workers.iter().find(|worker| worker.row.id == id) {
        return Ok(Some(known.clone()));
    }
    worker::get(tx, id)?.map(|row| worker_facts(tx, row)).transpose()
}

/// Returns the last failed tool call of an ended run. `None` if there is none, or the run has not ended.
fn failed_call(tx: &mut Tx<'_>, row: &RunRow) -> Result<Option<run_step::RunStepRow>, QueryError> {
    if row.phase != RunPhase::Done {
        return Ok(None);
    }
    let after = row.next_step.saturating_sub(STEPS_BATCH);
    let steps = run_step::after(tx, row.id, after, STEPS_BATCH)?;
    let is_failed_call = |step: &run_step::RunStepRow| {
        step.kind == StepKind::ToolCall && step.state == StepState::Failed
    };
    Ok(steps.into_iter().rfind(is_failed_call))
}

/// Returns the runs that a parked run waits for.
fn children(tx: &mut Tx<'_>, row: &RunRow) -> Result<Vec<RunRow>, QueryError> {
    if row.phase != RunPhase::Parked {
        return Ok(Vec::new());
    }
    let mut children = Vec::new();
    for join in run_join::of_run(tx, row.id)? {
        for id in run_dependency::dependencies(tx, &join.id)? {
            children.extend(run::find(tx, &row.namespace, id)?);
        }
    }
    Ok(children)
}

/// Returns the budgets that apply to a run.
fn budgets(tx: &mut Tx<'_>, row: &RunRow) -> Result<Vec<budget_row::BudgetRow>, QueryError> {
    let mut known = Vec::new();
    for scope in budget_row::scopes_of_run(tx, row)? {
        known.extend(budget_row::get(tx, &row.namespace, &scope)?);
    }
    Ok(known)
}

/// Reads the facts about a session, its holder, its next run and its queue. Fails if the namespace has no such
/// session.
fn session_facts(
    tx: &mut Tx<'_>,
    system: &SystemFacts,
    namespace: &Namespace,
    name: &str,
) -> Result<SessionFacts, QueryError> {
    let namespace = namespace.as_str();
    let found = match session::get(tx, namespace, name)? {
        Some(row) => Some(row),
        None => session::by_key(tx, namespace, name)?,
    };
    let session = found.ok_or_else(|| QueryError::not_found("session", name))?;
    let holder = run::session_owner(tx, namespace, &session.id)?;
    let due = run::first_due(tx, namespace, &session.id)?;
    let next = match due {
        Some(next) => Some(next),
        None => run::first_waiting(tx, namespace, &session.id)?,
    };
    let filter = task::TaskFilter { session_id: Some(session.id.clone()), ..Default::default() };
    let (mut queued, mut aside) = (0, None);
    for task in task::list(tx, namespace, &filter, TASKS_MAX)? {
        for row in run::live_of_task(tx, task.id)? {
            match row.phase {
                RunPhase::Queued if !row.holds_session => queued += 1,
                RunPhase::Parked if !row.holds_session => aside = aside.or(Some(row)),
                RunPhase::Queued | RunPhase::Leased | RunPhase::Parked | RunPhase::Done => {}
            }
        }
    }
    let next = next.filter(|_| holder.is_none());
    let waiting = u64::from(next.is_some());
    Ok(SessionFacts {
        session,
        holder: holder.map(|row| single_run_facts(tx, system, row)).transpose()?,
        next: next.map(|row| run_facts(tx, system, row)).transpose()?,
        aside: aside.map(|row| single_run_facts(tx, system, row)).transpose()?,
        queued: queued.max(waiting),
    })
}
