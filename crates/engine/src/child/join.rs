//! Joins: a parked run waits for other runs.
//!
//! A call that waits suspends its run with an internal request. The run gets a row in `run_join` for each such call,
//! and a row in `run_dependency` for each run that the call waits for. The end of a run marks its dependencies as done
//! in the same transaction, and the last one resumes the parked run. Until then the run has neither a worker nor a
//! slot.

use std::time::Duration;

use provost_agent::run::JournalEntry;
use provost_agent::team::TeamWait;
use provost_core::lifecycle::{JoinMode, RunPhase, RunTransition, TaskTransition, WaitReason};
use provost_core::scheduling::TimerKind;
use provost_core::{
    ApprovalDecision, ApprovalRequest, ApprovalRequestKind, Event, EventKind, RunId, ToolCall,
    ToolResult,
};
use provost_store::table::governance::approval as approval_row;
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::run_dependency::{self, RunDependencyRow};
use provost_store::table::work::run_join::{self, RunJoinRow};
use provost_store::table::work::task;
use provost_store::{Locked, Tx, Wakeup};

use super::wait::{self, ChildWait, TeamWaitTarget};
use crate::approval;
use crate::child::team;
use crate::error::EngineError;
use crate::run::lifecycle::{transition_run, try_transition_task};
use crate::submit::queue;

/// Returns true for a request that the end of other runs answers, not an approver.
pub(crate) fn is_internal_wait(request: &ApprovalRequest) -> bool {
    request.kind == ApprovalRequestKind::Runs
}

/// Removes the requests that only the engine answers from an event. Returns `None` if nothing is left of the event.
pub(crate) fn hide_internal_waits(mut event: Event) -> Option<Event> {
    match &mut event.kind {
        EventKind::ApprovalNeeded { request } if is_internal_wait(request) => return None,
        EventKind::Suspended { approvals } => {
            approvals.retain(|request| !is_internal_wait(request))
        }
        _ => {}
    }
    Some(event)
}

/// Stores the joins of a run that is being parked, one for each request.
pub(crate) fn park(
    tx: &mut Tx<'_>,
    run: &RunRow,
    requests: &[ApprovalRequest],
) -> Result<(), EngineError> {
    run_join::remove_of_run(tx, run.id)?;
    for request in requests {
        let wait: ChildWait = serde_json::from_value(request.payload.clone().unwrap_or_default())?;
        let call = serde_json::to_string(&request.call)?;
        insert(tx, run, request.id.to_string(), Some(call), wait)?;
    }
    set_timer(tx, run.id)
}

/// Stores the join of a lead that has its answer and waits for its members to end.
pub(crate) fn park_for_members(tx: &mut Tx<'_>, lead: &RunRow) -> Result<(), EngineError> {
    run_join::remove_of_run(tx, lead.id)?;
    let team = Some(TeamWaitTarget { lead: lead.id, mail_of: None });
    let wait = ChildWait { team, ..ChildWait::default() };
    insert(tx, lead, lead.id.to_string(), /*call*/ None, wait)
}

/// Stores a join with its dependencies. Runs that have ended, or that no longer exist, count as done.
fn insert(
    tx: &mut Tx<'_>,
    run: &RunRow,
    id: String,
    call: Option<String>,
    wait: ChildWait,
) -> Result<(), EngineError> {
    let ChildWait { mut runs, any, timeout_ms, team, again } = wait;
    if let Some(TeamWaitTarget { lead, .. }) = &team {
        // These dependencies only explain the wait. The state of the team ends it.
        runs = team::running_members(tx, *lead)?;
        runs.retain(|member| *member != run.id);
    }
    let until = timeout_ms.map(|millis| tx.now().after(Duration::from_millis(millis)));
    let (team_lead, mail_of) = match team {
        Some(TeamWaitTarget { lead, mail_of }) => (Some(lead), mail_of),
        None => (None, None),
    };
    let mode = if any { JoinMode::Any } else { JoinMode::All };
    let join = RunJoinRow { id, run_id: run.id, mode, until, call, again, team_lead, mail_of };
    join.insert(tx)?;
    for (position, depends_on) in (0..).zip(runs) {
        // A run that retention has removed counts as done.
        let done = !run::is_live(tx, depends_on)?;
        let join_id = join.id.clone();
        RunDependencyRow { join_id, place: position, depends_on, done }.insert(tx)?;
    }
    Ok(())
}

/// Sets the timer of a run to the first timeout of its joins. Removes it if none has a timeout.
fn set_timer(tx: &mut Tx<'_>, run: RunId) -> Result<(), EngineError> {
    let joins = run_join::of_run(tx, run)?;
    match joins.iter().filter_map(|join| join.until).min() {
        Some(at) => {
            timer::set(tx, TimerKind::ChildWait, &run.to_string(), at)?;
            tx.wake(Wakeup::Timer);
        }
        None => drop(timer::clear(tx, TimerKind::ChildWait, &run.to_string())?),
    }
    Ok(())
}

/// Marks the dependencies on a run that has ended as done, and ends the joins that are complete. Returns true if a
/// parked run waited for it.
pub(super) fn run_ended(tx: &mut Tx<'_>, ended: RunId) -> Result<bool, EngineError> {
    let mut waited = false;
    for id in run_dependency::complete(tx, ended)? {
        if let Some(mut run) = run::lock(tx, id)?
            && waits_for_joins(&run)
        {
            waited = true;
            settle(tx, &mut run)?;
        }
    }
    Ok(waited)
}

/// Ends the joins of a run whose condition is met by a change of its team.
pub(crate) fn team_changed(tx: &mut Tx<'_>, id: RunId) -> Result<(), EngineError> {
    let Some(mut run) = run::lock(tx, id)? else { return Ok(()) };
    let joins = run_join::of_run(tx, id)?;
    match joins.iter().any(|join| join.team_lead.is_some()) {
        true => settle(tx, &mut run),
        false => Ok(()),
    }
}

/// Ends the joins of a parked run that are complete. Resumes the run if nothing else is pending.
pub(crate) fn settle(tx: &mut Tx<'_>, run: &mut Locked<RunRow>) -> Result<(), EngineError> {
    end_joins(tx, run, is_complete)
}

/// Ends the joins of a run that have timed out.
pub(crate) fn time_out(tx: &mut Tx<'_>, id: RunId) -> Result<(), EngineError> {
    let Some(mut run) = run::lock(tx, id)? else { return Ok(()) };
    end_joins(tx, &mut run, |tx, join| Ok(join.until.is_some_and(|until| until <= tx.now())))
}

/// Returns true if the condition of the join is met.
fn is_complete(tx: &mut Tx<'_>, join: &RunJoinRow) -> Result<bool, EngineError> {
    if let Some(lead) = join.team_lead {
        let until = join.mail_of.clone().map_or(TeamWait::AllFinished, TeamWait::Message);
        return team::is_condition_met(tx, lead, &until);
    }
    let progress = run_dependency::progress(tx, &join.id)?;
    Ok(match join.mode {
        JoinMode::Any => progress.done > 0,
        JoinMode::All => progress.done == progress.total,
    })
}

/// Returns true if the run waits for its joins. Another reason may have resumed it.
fn waits_for_joins(run: &RunRow) -> bool {
    run.phase == RunPhase::Parked
        && matches!(run.parked_for, Some(WaitReason::Child | WaitReason::Approval))
}

/// Ends the joins that `is_finished` selects: appends their results to the journal of the parked run, and resumes the
/// run if nothing else is pending.
fn end_joins(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
    is_finished: impl Fn(&mut Tx<'_>, &RunJoinRow) -> Result<bool, EngineError>,
) -> Result<(), EngineError> {
    if !waits_for_joins(run) {
        return Ok(());
    }
    let joins = run_join::of_run(tx, run.id)?;
    let (mut open, mut ended) = (0, 0);
    for join in joins {
        if !is_finished(tx, &join)? {
            open += 1;
            continue;
        }
        if let Some(entry) = outcome(tx, run, &join)? {
            approval::append_while_parked(tx, run, &entry)?;
        }
        run_join::remove(tx, &join.id)?;
        ended += 1;
    }
    if ended == 0 {
        return Ok(());
    }
    set_timer(tx, run.id)?;
    // With another join or an approval still open, the run would only be parked again.
    if open == 0 && approval_row::open_of_run(tx, run.id)?.is_empty() {
        wake(tx, run)?;
    }
    run.save(tx)?;
    queue::refresh(tx, &run.namespace, &run.session_id)
}

/// Returns the journal entry that the end of a join appends to its run. `None` for a lead without a waiting call, which
/// continues from its answer.
fn outcome(
    tx: &mut Tx<'_>,
    run: &RunRow,
    join: &RunJoinRow,
) -> Result<Option<JournalEntry>, EngineError> {
    let Some(call) = &join.call else { return Ok(None) };
    if join.again {
        let id = join.request_id()?;
        return Ok(Some(JournalEntry::ApprovalDecided { id, decision: ApprovalDecision::Approve }));
    }
    let call: ToolCall = serde_json::from_str(call)?;
    let runs = run_dependency::dependencies(tx, &join.id)?;
    let reports = wait::collect(tx, &run.namespace, &run.session_id, &runs)?;
    let result = Box::new(ToolResult::text(&call, wait::result_for_model(&reports).to_string()));
    Ok(Some(JournalEntry::ToolFinished { result, invalid_arguments: false, at: tx.now() }))
}

/// Records that a parked run waits only for other runs, because all its approvals are decided. Saves the task; the
/// caller saves the run.
pub(crate) fn mark_waiting_for_children(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
) -> Result<(), EngineError> {
    run.parked_for = Some(WaitReason::Child);
    if let Some(mut task) = task::lock(tx, run.task_id)? {
        task.waiting_for = Some(WaitReason::Child);
        task.save(tx)?;
    }
    Ok(())
}

/// Requeues a run whose joins have ended, and its task.
fn wake(tx: &mut Tx<'_>, run: &mut Locked<RunRow>) -> Result<(), EngineError> {
    transition_run(run, RunTransition::Woken)?;
    let now = tx.now();
    queue::schedule(tx, run, now)?;
    if let Some(mut task) = task::lock(tx, run.task_id)? {
        task.waiting_for = None;
        let _applied = try_transition_task(tx, &mut task, TaskTransition::InputDelivered)?;
        task.save(tx)?;
    }
    Ok(())
}
