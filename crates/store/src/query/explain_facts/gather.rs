//! Reading the facts: everything in one transaction, so that they fit each other.

use std::path::PathBuf;

use crate::table::governance::{approval, budget as budget_row};
use crate::table::outbound::delivery;
use crate::table::scheduling::{concurrency_limit, execution_class, timer, worker};
use crate::table::work::run::{self, RunRow};
use crate::table::work::{
    attempt, input, run_dependency, run_event, run_join, run_step, session, task,
};
use crate::{Tx, is_free};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{RunPhase, StepKind, StepState};

use super::{
    About, ApprovalFacts, DeliveryFacts, Facts, Here, Node, RunFacts, SessionFacts, Subject,
    TaskFacts,
};
use crate::query::task::find_task;
use crate::query::{QueryError, parse};

/// Tasks of a session that are looked at.
const TASKS_MAX: u64 = 20;
/// Steps that are read at once.
const STEPS_BATCH: u64 = 200;

/// Everything about a subject.
pub(super) fn gather(
    tx: &mut Tx<'_>,
    here: &Here,
    namespace: &Namespace,
    subject: &Subject,
) -> Result<Facts, QueryError> {
    let mut here = Here { now: tx.now(), ..here.clone() };
    here.nodes = nodes(tx)?;
    let about = match subject {
        Subject::Run(id) => {
            let row = run::find(tx, namespace.as_str(), *id)?;
            let row = row.ok_or_else(|| QueryError::not_found("run", id))?;
            About::Run(Box::new(run_facts(tx, &here, row)?))
        }
        Subject::Task(id) => {
            let task = find_task(tx, namespace, *id)?;
            let row = task.current_run_id.map(|id| run::get(tx, id)).transpose()?.flatten();
            let run = row.map(|row| run_facts(tx, &here, row)).transpose()?;
            About::Task(Box::new(TaskFacts { task, run }))
        }
        Subject::Approval(id) => {
            let row = approval::find(tx, namespace.as_str(), *id)?;
            let approval = row.ok_or_else(|| QueryError::not_found("approval", id))?;
            let run = run::get(tx, approval.run_id)?;
            About::Approval(Box::new(ApprovalFacts { approval, run }))
        }
        Subject::Session(id) => About::Session(Box::new(session_facts(tx, &here, namespace, id)?)),
        Subject::Delivery(id) => {
            let row = delivery::find(tx, namespace.as_str(), *id)?;
            let delivery = row.ok_or_else(|| QueryError::not_found("delivery", id))?;
            About::Delivery(Box::new(DeliveryFacts { delivery }))
        }
    };
    Ok(Facts { subject: subject.clone(), here, about })
}

fn nodes(tx: &mut Tx<'_>) -> Result<Vec<Node>, QueryError> {
    let rows = worker::live(tx)?;
    rows.into_iter().map(|row| node(tx, row)).collect()
}

fn node(tx: &mut Tx<'_>, row: worker::WorkerRow) -> Result<Node, QueryError> {
    let alive = row.stopped.is_none() && !is_free(&PathBuf::from(&row.lock_path))?;
    let carries = run::owned_by(tx, row.id)?.len() as u64;
    let focus = row.focus.as_deref().map(serde_json::from_str).transpose()?;
    Ok(Node { row, alive, carries, focus })
}

/// A run with the one that has its session, if that is another.
fn run_facts(tx: &mut Tx<'_>, here: &Here, row: RunRow) -> Result<RunFacts, QueryError> {
    let holder = match row.phase.as_str() {
        "queued" => run::holder(tx, &row.namespace, &row.session_id)?,
        _ => None,
    };
    let id = row.id;
    let mut facts = alone(tx, here, row)?;
    if let Some(holder) = holder.filter(|holder| holder.id != id) {
        facts.holder = Some(Box::new(alone(tx, here, holder)?));
    }
    Ok(facts)
}

fn alone(tx: &mut Tx<'_>, here: &Here, row: RunRow) -> Result<RunFacts, QueryError> {
    let id = row.id;
    let missing = || QueryError::Unreadable(format!("the class of {id} is missing"));
    let class = execution_class::get(tx, &row.class_key)?.ok_or_else(missing)?;
    let first = run::first_due(tx, &row.namespace, &row.session_id)?.map(|first| first.id);
    let asked = approval::of_run(tx, id)?;
    let (questions, settled) = asked.into_iter().partition(|asked| asked.state == "pending");
    let last = run_event::last(tx, id)?;
    Ok(RunFacts {
        policy: row.execution_policy()?,
        task: task::get(tx, row.task_id)?,
        class,
        namespace_ceiling: concurrency_limit::get(tx, &format!("namespace:{}", row.namespace))?,
        pool_ceiling: concurrency_limit::get(tx, &format!("pool:{}", row.pool))?,
        holder: None,
        // Whoever has the session goes first, whatever its rank.
        first: first.filter(|first| *first != id && !row.holds_session),
        ahead_in_session: run::ahead_in_session(tx, &row)?,
        ahead_in_class: run::ahead_in_class(tx, &row)?,
        attempt: attempt::get(tx, id, row.attempt_no)?,
        owner: owner(tx, here, &row)?,
        open: run_step::open(tx, id)?,
        failed_call: failed_call(tx, &row)?,
        questions,
        settled,
        children: children(tx, &row)?,
        wait_over: timer::get(tx, timer::CHILD_WAIT, &id.to_string())?.map(|timer| timer.fire_at),
        unread: input::waiting_for_run(tx, id)?,
        last_event: last.map(|event| (event.kind, event.at)),
        budgets: budgets(tx, &row)?,
        deliveries: delivery::of_run(tx, id)?,
        run: row,
    })
}

fn owner(tx: &mut Tx<'_>, here: &Here, row: &RunRow) -> Result<Option<Node>, QueryError> {
    let Some(id) = row.lease_owner else { return Ok(None) };
    if let Some(known) = here.nodes.iter().find(|node| node.row.id == id) {
        return Ok(Some(known.clone()));
    }
    worker::get(tx, id)?.map(|row| node(tx, row)).transpose()
}

/// The last tool call that did not work, if the run has ended.
fn failed_call(tx: &mut Tx<'_>, row: &RunRow) -> Result<Option<run_step::RunStepRow>, QueryError> {
    if row.phase != RunPhase::Done.as_str() {
        return Ok(None);
    }
    let after = row.next_step.saturating_sub(STEPS_BATCH);
    let steps = run_step::after(tx, row.id, after, STEPS_BATCH)?;
    let (tool, failed) = (StepKind::ToolCall.as_str(), StepState::Failed.as_str());
    Ok(steps.into_iter().rfind(|step| step.kind == tool && step.state == failed))
}

/// The runs that a parked run waits for.
fn children(tx: &mut Tx<'_>, row: &RunRow) -> Result<Vec<RunRow>, QueryError> {
    if row.phase != "parked" {
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

fn budgets(tx: &mut Tx<'_>, row: &RunRow) -> Result<Vec<budget_row::BudgetRow>, QueryError> {
    let mut known = Vec::new();
    for scope in budget_row::scopes_of_run(tx, row)? {
        known.extend(budget_row::get(tx, &row.namespace, &scope)?);
    }
    Ok(known)
}

fn session_facts(
    tx: &mut Tx<'_>,
    here: &Here,
    namespace: &Namespace,
    name: &str,
) -> Result<SessionFacts, QueryError> {
    let namespace = namespace.as_str();
    let found = match session::get(tx, namespace, name)? {
        Some(row) => Some(row),
        None => session::by_key(tx, namespace, name)?,
    };
    let session = found.ok_or_else(|| QueryError::not_found("session", name))?;
    let holder = run::holder(tx, namespace, &session.id)?;
    let due = run::first_due(tx, namespace, &session.id)?;
    let next = match due {
        Some(next) => Some(next),
        None => run::first_waiting(tx, namespace, &session.id)?,
    };
    let filter = task::TaskFilter { session_id: Some(session.id.clone()), ..Default::default() };
    let (mut queued, mut aside) = (0, None);
    for task in task::list(tx, namespace, &filter, TASKS_MAX)? {
        for row in run::live_of_task(tx, task.id)? {
            match parse::<RunPhase>(&row.phase)? {
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
        holder: holder.map(|row| alone(tx, here, row)).transpose()?,
        next: next.map(|row| run_facts(tx, here, row)).transpose()?,
        aside: aside.map(|row| alone(tx, here, row)).transpose()?,
        queued: queued.max(waiting),
    })
}
