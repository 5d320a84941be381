//! `await_tasks`, and what a call says that waits for other runs.

use std::sync::Arc;
use std::time::Duration;

use provost_agent::team::TeamWait;
use provost_core::RunId;
use provost_core::recovery::EffectClass;
use provost_core::usage::limits::TOOL_OUTPUT_BYTES_MAX;
use provost_store::Tx;
use provost_store::table::work::run::{self, RunRow};
use provost_tool::{FnTool, SpecError, ToolCx, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Family;
use super::report::{self, Report};
use crate::error::EngineError;
use crate::journal::transactional::TransactionalEffects;
use crate::run::lifecycle::run_state;
use crate::worker::lease::Lease;

const DESCRIPTION: &str =
    "Waits until tasks that you started with spawn_task have ended, and returns what came of them.";
/// Runs that one call may wait for.
const RUNS_MAX: usize = 64;

/// The arguments of `await_tasks`.
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

/// What a call waits for: the payload of the request that suspends its run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Wait {
    pub(super) runs: Vec<RunId>,
    /// True if the end of one run is enough.
    pub(super) any: bool,
    pub(super) timeout_ms: Option<u64>,
    /// A change of a team, if that is waited for and not the end of runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) team: Option<TeamPart>,
    /// True if the call is made again after the wait. It gets its result otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) again: bool,
}

/// A change of a team that is waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TeamPart {
    /// The run of its lead.
    pub(super) lead: RunId,
    /// The member that gets a message; none for the end of all members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mail_of: Option<String>,
}

pub(super) fn tool() -> Result<FnTool, SpecError> {
    let tool = tool_fn("await_tasks", DESCRIPTION, wait)?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Transactional)))
}

async fn wait(cx: ToolCx, args: Await) -> Result<Value, ToolError> {
    let (family, transactional) = (cx.dep::<Family>()?, cx.dep::<TransactionalEffects>()?);
    let wait = Arc::new(Wait::read(args)?);
    let lease = Arc::clone(&family.lease);
    let over = {
        let (lease, wait) = (Arc::clone(&lease), Arc::clone(&wait));
        family.store.read(move |tx| wait.is_over(tx, &lease)).await?
    };
    if !over {
        // The end of the runs gives the result. The tool itself does not continue from here.
        cx.wait_for_runs(&*wait)?;
    }
    let collected = transactional.commit(cx.effect_key(), move |tx| {
        collect(tx, &lease.namespace, &lease.session, &wait.runs)
    });
    Ok(shown(&collected.await?))
}

/// Suspends a call until runs have ended; the call is then made again. Returns at once if that has been.
pub(super) fn wait_again(
    cx: &ToolCx,
    runs: Vec<RunId>,
    any: bool,
    timeout: Option<Duration>,
) -> Result<(), ToolError> {
    let timeout_ms = timeout.map(millis);
    cx.wait_for_runs(Wait { runs, any, timeout_ms, team: None, again: true })
}

/// Suspends a call until something of its team has come; the call is then made again. Returns at once if that has been.
pub(crate) fn wait_for_team(
    cx: &ToolCx,
    lead: RunId,
    until: TeamWait,
    timeout: Duration,
) -> Result<(), ToolError> {
    let mail_of = match until {
        TeamWait::Message(name) => Some(name),
        TeamWait::AllFinished => None,
    };
    let (team, timeout_ms) = (Some(TeamPart { lead, mail_of }), Some(millis(timeout)));
    cx.wait_for_runs(Wait { team, timeout_ms, again: true, ..Wait::default() })
}

fn millis(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)
}

/// What the model sees.
pub(super) fn shown(reports: &[Report]) -> Value {
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
        Ok(Self { runs, any, timeout_ms, ..Self::default() })
    }

    /// Returns true if nothing must be waited for. Every run must be a child of the session of the lease.
    fn is_over(&self, tx: &mut Tx<'_>, lease: &Lease) -> Result<bool, EngineError> {
        let mut ended = 0;
        for id in &self.runs {
            let child = child_of(tx, &lease.namespace, &lease.session, *id)?.child;
            ended += usize::from(run_state(&child)?.is_terminal());
        }
        Ok(if self.any { ended > 0 } else { ended == self.runs.len() })
    }
}

/// The results of runs, for the result of the call. What a message has told already is not told again.
pub(super) fn collect(
    tx: &mut Tx<'_>,
    namespace: &str,
    session: &str,
    runs: &[RunId],
) -> Result<Vec<Report>, EngineError> {
    let mut reports = Vec::with_capacity(runs.len());
    for id in runs {
        let Kinship { child, parent } = child_of(tx, namespace, session, *id)?;
        let report = Report::of(tx, &child)?.cut(TOOL_OUTPUT_BYTES_MAX / 2 / runs.len());
        let told = run_state(&child)?.is_terminal() && report::take(tx, parent.task_id, &child)?;
        reports.push(if told { report.told() } else { report });
    }
    Ok(reports)
}

/// A child and the run that started it.
struct Kinship {
    child: RunRow,
    parent: RunRow,
}

/// Finds a child that a run of the session has started.
fn child_of(
    tx: &mut Tx<'_>,
    namespace: &str,
    session: &str,
    id: RunId,
) -> Result<Kinship, EngineError> {
    let unknown = || EngineError::not_found("task that you started", id);
    let child = run::find(tx, namespace, id)?.ok_or_else(unknown)?;
    let parent = child.parent_run_id.map(|parent| run::get(tx, parent)).transpose()?.flatten();
    match parent {
        Some(parent) if parent.session_id == session => Ok(Kinship { child, parent }),
        _ => Err(unknown()),
    }
}
