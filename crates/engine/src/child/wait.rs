//! Waiting for children: the run is parked and costs a row until they have ended.
//!
//! A call that waits asks a question that no person answers: the end of the children does, in whose transaction the call gets
//! its result. Until then the run has neither a worker nor a slot.

use std::sync::Arc;
use std::time::Duration;

use provost_agent::child::WAIT_HINT;
use provost_agent::run::Feed;
use provost_agent::team::TeamWait;
use provost_core::limits::TOOL_OUTPUT_BYTES_MAX;
use provost_core::work::{EffectClass, ParkedFor, RunEvent, TaskEvent};
use provost_core::{
    ApprovalDecision, ApprovalId, ApprovalRequest, Event, EventKind, RunId, Timestamp, ToolCall,
    ToolResult,
};
use provost_store::row::run::{self, RunRow};
use provost_store::row::{approval as approval_row, task, timer};
use provost_store::{Hint, Tx};
use provost_tool::{FnTool, SpecError, ToolCx, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Family;
use super::report::{self, Report};
use crate::error::EngineError;
use crate::lease::Lease;
use crate::state::{move_run, move_task, run_state};
use crate::transactional::Transactional;
use crate::{approval, queue, team};

const DESCRIPTION: &str =
    "Waits until tasks that you started with spawn_task have ended, and returns what came of them.";
/// The timer that ends a wait.
pub(crate) const WAIT_OVER: &str = "child_wait";
/// How the payload of such a question is known.
const KIND: &str = "await_child";
/// Runs that one call may wait for.
const RUNS_MAX: usize = 64;

/// What is waited for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Await {
    /// The `run` ids that spawn_task returned.
    runs: Vec<String>,
    /// True to go on as soon as one of them has ended; else all must have.
    #[serde(default)]
    any: bool,
    /// Seconds to wait at most; what has not ended by then goes on.
    #[serde(default)]
    timeout_s: Option<u64>,
}

/// One call that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Wait {
    /// The call that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<ToolCall>,
    /// The question that stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    question: Option<ApprovalId>,
    kind: String,
    runs: Vec<RunId>,
    any: bool,
    timeout_ms: Option<u64>,
    /// When its time is over, once the run is parked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// What is waited for instead of the end of runs, if that is something of a team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    team: Option<TeamPart>,
    /// True if the call is made again when it is over; else it gets its result then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    again: bool,
}

/// Something of a team that is waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TeamPart {
    /// The run of its lead.
    lead: RunId,
    /// Whose messages; none, if it is the end of all members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mail_of: Option<String>,
}

/// What a parked run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Waits(Vec<Wait>);

pub(super) fn tool() -> Result<FnTool, SpecError> {
    let tool = tool_fn("await_tasks", DESCRIPTION, wait)?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Transactional)))
}

async fn wait(cx: ToolCx, args: Await) -> Result<Value, ToolError> {
    let (family, transactional) = (cx.dep::<Family>()?, cx.dep::<Transactional>()?);
    let wait = Arc::new(Wait::read(args)?);
    let lease = Arc::clone(&family.lease);
    let over = {
        let (lease, wait) = (Arc::clone(&lease), Arc::clone(&wait));
        family.store.read(move |tx| wait.look(tx, &lease)).await?
    };
    if !over {
        // The result comes with the end of the children; the tool itself never goes on from here.
        cx.confirm_with(WAIT_HINT, &*wait).await?;
    }
    let collected = transactional
        .commit(cx.effect_key(), move |tx| collect(tx, (&lease.namespace, &lease.session), &wait));
    Ok(shown(&collected.await?))
}

/// Makes a call wait for children and be made again when they have ended; returns at once if that has been.
pub(super) async fn wait_again(
    cx: &ToolCx,
    runs: Vec<RunId>,
    any: bool,
    timeout: Option<Duration>,
) -> Result<(), ToolError> {
    let millis = |timeout: Duration| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let timeout_ms = timeout.map(millis);
    cx.confirm_with(WAIT_HINT, Wait { any, timeout_ms, again: true, ..Wait::of(runs) }).await
}

/// Makes a call wait for something of its team and be made again when it has come; returns at once if that has been.
pub(crate) async fn wait_for_team(
    cx: &ToolCx,
    lead: RunId,
    until: TeamWait,
    timeout: Duration,
) -> Result<(), ToolError> {
    let timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    let mail_of = match until {
        TeamWait::Mail(name) => Some(name),
        TeamWait::AllOver => None,
    };
    let team = Some(TeamPart { lead, mail_of });
    cx.confirm_with(WAIT_HINT, Wait { team, timeout_ms, again: true, ..Wait::of(Vec::new()) }).await
}

/// The book of a run's team has changed: what the run waits for may have come.
pub(crate) fn team_changed(tx: &mut Tx<'_>, id: RunId) -> Result<(), EngineError> {
    let Some(mut run) = run::get(tx, id)? else { return Ok(()) };
    match Waits::of(&run)? {
        Some(Waits(waits)) if waits.iter().any(|wait| wait.team.is_some()) => {
            settle_waits(tx, &mut run)
        }
        _ => Ok(()),
    }
}

/// What the model sees.
fn shown(reports: &[Report]) -> Value {
    json!({ "tasks": reports })
}

impl Wait {
    fn read(args: Await) -> Result<Self, ToolError> {
        let Await { runs, any, timeout_s } = args;
        if runs.is_empty() || runs.len() > RUNS_MAX {
            return Err(ToolError::Retry(format!("`runs` must name 1 to {RUNS_MAX} tasks")));
        }
        let runs: Result<Vec<RunId>, _> = runs.iter().map(|run| run.parse()).collect();
        let runs = runs.map_err(ToolError::retry)?;
        let timeout_ms = timeout_s.map(|seconds| seconds.saturating_mul(1000));
        Ok(Self { timeout_ms, any, ..Self::of(runs) })
    }

    /// A wait for all of these.
    fn of(runs: Vec<RunId>) -> Self {
        let kind = KIND.to_owned();
        let (call, question, timeout_ms, until) = (None, None, None, None);
        let team = None;
        Self { call, question, kind, runs, any: false, timeout_ms, until, team, again: false }
    }

    /// Is it over? Everything that is waited for must be a child of the run's own session.
    fn look(&self, tx: &mut Tx<'_>, lease: &Lease) -> Result<bool, EngineError> {
        for id in &self.runs {
            child_of(tx, (&lease.namespace, &lease.session), *id)?;
        }
        self.is_over(tx)
    }

    fn is_over(&self, tx: &mut Tx<'_>) -> Result<bool, EngineError> {
        if let Some(TeamPart { lead, mail_of }) = &self.team {
            let until = mail_of.clone().map_or(TeamWait::AllOver, TeamWait::Mail);
            return team::is_so(tx, *lead, &until);
        }
        // Each end looks here: of many, those that began last end last, and one that has not ended is enough to know.
        for id in self.runs.iter().rev() {
            // One that was removed long after its end does not come back.
            if run::is_live(tx, *id)? != self.any {
                return Ok(self.any);
            }
        }
        Ok(!self.any)
    }

    /// Is its time over? One that was kept without a moment has the only one there was.
    fn is_late(&self, now: Timestamp) -> bool {
        self.until.map_or(self.timeout_ms.is_some(), |until| until <= now)
    }
}

impl Waits {
    /// Those of the questions of a suspended run that the end of children answers.
    pub(crate) fn among(requests: &[ApprovalRequest]) -> Result<Self, EngineError> {
        let mut waits = Vec::new();
        for request in requests.iter().filter(|request| is_wait(request)) {
            let payload = request.payload.clone().unwrap_or_default();
            let wait: Wait = serde_json::from_value(payload)?;
            let (call, question) = (Some(request.call.clone()), Some(request.id));
            waits.push(Wait { call, question, ..wait });
        }
        Ok(Self(waits))
    }

    /// That of a lead that has its answer, for its members.
    pub(crate) fn for_members(lead: RunId) -> Self {
        let team = Some(TeamPart { lead, mail_of: None });
        Self(vec![Wait { team, ..Wait::of(Vec::new()) }])
    }

    /// Keeps them with a run that is parked now, and sets the timer of those that have one. The caller stores the row.
    pub(crate) fn keep(mut self, tx: &mut Tx<'_>, run: &mut RunRow) -> Result<(), EngineError> {
        let now = tx.now();
        for wait in &mut self.0 {
            wait.until = wait.timeout_ms.map(|millis| now.after(Duration::from_millis(millis)));
            if let Some(TeamPart { lead, .. }) = &wait.team {
                // For whoever asks why it waits.
                wait.runs = team::at_work(tx, *lead)?;
                wait.runs.retain(|member| *member != run.id);
            }
        }
        self.store(tx, run)
    }

    fn store(&self, tx: &mut Tx<'_>, run: &mut RunRow) -> Result<(), EngineError> {
        run.waits = if self.0.is_empty() { None } else { Some(serde_json::to_string(&self.0)?) };
        match self.0.iter().filter_map(|wait| wait.until).min() {
            Some(at) => {
                timer::set(tx, WAIT_OVER, &run.id.to_string(), at)?;
                tx.hint(Hint::Timer);
            }
            None => drop(timer::clear(tx, WAIT_OVER, &run.id.to_string())?),
        }
        Ok(())
    }

    /// What a run waits for, if it is parked for that.
    pub(super) fn of(run: &RunRow) -> Result<Option<Self>, EngineError> {
        // Other waits are ended by others, and then what was kept here says nothing any more.
        let parked = run.phase == "parked"
            && matches!(run.parked_for.as_deref(), Some("child" | "approval"));
        let kept = run.waits.as_deref().filter(|_| parked);
        Ok(kept.map(serde_json::from_str).transpose()?)
    }

    pub(super) fn contain(&self, child: RunId) -> bool {
        self.0.iter().any(|wait| wait.runs.contains(&child))
    }
}

/// True for a question that the end of children answers and no person.
pub(crate) fn is_wait(request: &ApprovalRequest) -> bool {
    let kind = request.payload.as_ref().and_then(|payload| payload.get("kind"));
    request.hint.as_deref() == Some(WAIT_HINT) && kind.and_then(Value::as_str) == Some(KIND)
}

/// An event without the questions that no person answers; nothing, if it is about nothing else.
pub(crate) fn for_people(mut event: Event) -> Option<Event> {
    match &mut event.kind {
        EventKind::ApprovalNeeded { request } if is_wait(request) => return None,
        EventKind::Suspended { approvals } => approvals.retain(|request| !is_wait(request)),
        _ => {}
    }
    Some(event)
}

/// Ends the waits of a parked run whose children have ended.
pub(crate) fn settle_waits(tx: &mut Tx<'_>, run: &mut RunRow) -> Result<(), EngineError> {
    end_waits(tx, run, |tx, wait| wait.is_over(tx))
}

/// The time of a run's waits is over.
pub(crate) fn wait_is_over(tx: &mut Tx<'_>, id: RunId) -> Result<(), EngineError> {
    let Some(mut run) = run::get(tx, id)? else { return Ok(()) };
    end_waits(tx, &mut run, |tx, wait| Ok(wait.is_late(tx.now())))
}

fn end_waits(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    is_over: impl Fn(&mut Tx<'_>, &Wait) -> Result<bool, EngineError>,
) -> Result<(), EngineError> {
    let Some(Waits(waits)) = Waits::of(run)? else { return Ok(()) };
    let mut left = Vec::new();
    let mut ended = 0;
    for wait in waits {
        if !is_over(tx, &wait)? {
            left.push(wait);
            continue;
        }
        let feed = match (&wait.call, wait.question.filter(|_| wait.again)) {
            // A run that has its answer goes on from there.
            (None, _) => None,
            (_, Some(id)) => {
                Some(Feed::ApprovalDecided { id, decision: ApprovalDecision::Approve })
            }
            (Some(call), None) => {
                let reports = collect(tx, (&run.namespace, &run.session_id), &wait)?;
                let result = Box::new(ToolResult::text(call, shown(&reports).to_string()));
                Some(Feed::ToolFinished { result, fault: false, at: tx.now() })
            }
        };
        if let Some(feed) = feed {
            approval::feed_parked(tx, run, &feed)?;
        }
        ended += 1;
    }
    if ended == 0 {
        return Ok(());
    }
    let is_last = left.is_empty();
    Waits(left).store(tx, run)?;
    // With another wait, or a question to a person, still open the run would only be parked for it again.
    if is_last && approval_row::open_of_run(tx, run.id)?.is_empty() {
        wake(tx, run)?;
    }
    run.update(tx)?;
    queue::refresh(tx, &run.namespace, &run.session_id)
}

/// People have answered everything that a parked run asked, and it still waits for children. The caller stores the row.
pub(crate) fn waits_only_for_children(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
) -> Result<(), EngineError> {
    let why = ParkedFor::Child.as_str();
    run.parked_for = Some(why.to_owned());
    if let Some(mut task) = task::get(tx, run.task_id)? {
        task.waiting_for = Some(why.to_owned());
        task.update(tx)?;
    }
    Ok(())
}

fn wake(tx: &mut Tx<'_>, run: &mut RunRow) -> Result<(), EngineError> {
    move_run(run, RunEvent::Woken)?;
    let now = tx.now();
    queue::schedule(tx, run, now)?;
    if let Some(mut task) = task::get(tx, run.task_id)? {
        task.waiting_for = None;
        move_task(tx, &mut task, TaskEvent::InputDelivered)?;
        task.update(tx)?;
    }
    Ok(())
}

/// What came of the children, for the result of the call. What a message has told already is not told again.
fn collect(
    tx: &mut Tx<'_>,
    session: (&str, &str),
    wait: &Wait,
) -> Result<Vec<Report>, EngineError> {
    let mut reports = Vec::with_capacity(wait.runs.len());
    for id in &wait.runs {
        let (child, parent) = child_of(tx, session, *id)?;
        let report = Report::of(tx, &child)?.cut(TOOL_OUTPUT_BYTES_MAX / 2 / wait.runs.len());
        let told = run_state(&child)?.is_terminal() && report::take(tx, parent.task_id, &child)?;
        reports.push(if told { report.told() } else { report });
    }
    Ok(reports)
}

/// A child that a run of this session has started, and that run.
fn child_of(
    tx: &mut Tx<'_>,
    (namespace, session): (&str, &str),
    id: RunId,
) -> Result<(RunRow, RunRow), EngineError> {
    let unknown = || EngineError::not_found("task that you started", id);
    let child = run::find(tx, namespace, id)?.ok_or_else(unknown)?;
    let parent = child.parent_run_id.map(|parent| run::get(tx, parent)).transpose()?.flatten();
    match parent {
        Some(parent) if parent.session_id == session => Ok((child, parent)),
        _ => Err(unknown()),
    }
}
