//! The tool `await_tasks`, and the requests of calls that wait for other runs.

use std::sync::Arc;
use std::time::Duration;

use provost_agent::team::TeamWait;
use provost_core::RunId;
use provost_core::recovery::EffectClass;
use provost_core::usage::limits::TOOL_OUTPUT_BYTES_MAX;
use provost_store::Tx;
use provost_store::table::work::run::{self, RunRow};
use provost_tool::{FnTool, ToolContext, ToolError, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ChildToolContext;
use super::report::{self, ChildResult};
use crate::error::EngineError;
use crate::journal::transactional::TransactionalEffects;
use crate::worker::lease::Lease;

const DESCRIPTION: &str =
    "Waits until tasks that you started with spawn_task have ended, and returns their results.";
/// Maximum number of runs that one call may wait for.
const RUNS_MAX: usize = 64;

/// Arguments of `await_tasks`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AwaitArgs {
    /// The `run` ids that spawn_task returned.
    runs: Vec<String>,
    /// True to continue when one of the tasks has ended. Default: wait for all of them.
    #[serde(default)]
    any: bool,
    /// Maximum wait in seconds. Tasks that have not ended by then keep running.
    #[serde(default)]
    timeout_s: Option<u64>,
}

/// Wait of a call, as the payload of the request that suspends its run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct ChildWait {
    pub(super) runs: Vec<RunId>,
    /// True if the end of one run is enough.
    pub(super) any: bool,
    pub(super) timeout_ms: Option<u64>,
    /// Change of a team to wait for. `None` to wait for the end of runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) team: Option<TeamWaitTarget>,
    /// True if the call runs again after the wait. Otherwise the wait produces its result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) again: bool,
}

/// Change of a team that a call waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TeamWaitTarget {
    /// Run of the lead.
    pub(super) lead: RunId,
    /// Member that waits for a message. `None` to wait for the end of all members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mail_of: Option<String>,
}

/// Creates the tool `await_tasks`.
pub(super) fn tool() -> Result<FnTool, ToolSpecError> {
    let tool = tool_fn("await_tasks", DESCRIPTION, wait)?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Transactional)))
}

/// Returns the results of the runs if they have ended. Otherwise suspends the call until then.
async fn wait(cx: ToolContext, args: AwaitArgs) -> Result<Value, ToolError> {
    let (context, transactional) =
        (cx.dep::<ChildToolContext>()?, cx.dep::<TransactionalEffects>()?);
    let wait = Arc::new(ChildWait::read(args)?);
    let lease = Arc::clone(&context.lease);
    let satisfied = {
        let (lease, wait) = (Arc::clone(&lease), Arc::clone(&wait));
        context.store.read(move |tx| wait.is_satisfied(tx, &lease)).await?
    };
    if !satisfied {
        // The end of the runs produces the result. The tool itself does not continue from here.
        cx.wait_for_runs(&*wait)?;
    }
    let collected = transactional.commit(cx.effect_key(), move |tx| {
        collect(tx, &lease.namespace, &lease.session, &wait.runs)
    });
    Ok(result_for_model(&collected.await?))
}

/// Suspends a call until runs have ended, after which the call runs again. Returns at once if that condition is met.
pub(super) fn wait_and_repeat(
    cx: &ToolContext,
    runs: Vec<RunId>,
    any: bool,
    timeout: Option<Duration>,
) -> Result<(), ToolError> {
    let timeout_ms = timeout.map(millis);
    cx.wait_for_runs(ChildWait { runs, any, timeout_ms, team: None, again: true })
}

/// Suspends a call until its team has changed, after which the call runs again. Returns at once if that condition is
/// met.
pub(crate) fn wait_for_team(
    cx: &ToolContext,
    lead: RunId,
    until: TeamWait,
    timeout: Duration,
) -> Result<(), ToolError> {
    let mail_of = match until {
        TeamWait::Message(name) => Some(name),
        TeamWait::AllFinished => None,
    };
    let (team, timeout_ms) = (Some(TeamWaitTarget { lead, mail_of }), Some(millis(timeout)));
    cx.wait_for_runs(ChildWait { team, timeout_ms, again: true, ..ChildWait::default() })
}

/// Converts a timeout to milliseconds.
fn millis(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the result for the model.
pub(super) fn result_for_model(reports: &[ChildResult]) -> Value {
    json!({ "tasks": reports })
}

impl ChildWait {
    /// Parses the arguments of the tool. Fails with an error that lets the model retry the call.
    fn read(args: AwaitArgs) -> Result<Self, ToolError> {
        let AwaitArgs { runs, any, timeout_s } = args;
        if runs.is_empty() || runs.len() > RUNS_MAX {
            return Err(ToolError::Retry(format!("`runs` must name 1 to {RUNS_MAX} tasks")));
        }
        let runs: Result<Vec<RunId>, _> = runs.iter().map(|run| run.parse()).collect();
        let runs = runs.map_err(ToolError::retry)?;
        let timeout_ms = timeout_s.map(|seconds| seconds.saturating_mul(1000));
        Ok(Self { runs, any, timeout_ms, ..Self::default() })
    }

    /// Returns true if nothing must be waited for. Every run must be a child of the session of the lease.
    fn is_satisfied(&self, tx: &mut Tx<'_>, lease: &Lease) -> Result<bool, EngineError> {
        let mut ended = 0;
        for id in &self.runs {
            let child = child_of(tx, &lease.namespace, &lease.session, *id)?.child;
            ended += usize::from(child.state()?.is_terminal());
        }
        Ok(if self.any { ended > 0 } else { ended == self.runs.len() })
    }
}

/// Returns the results of runs for the result of the call. A result that a message contained already is not repeated.
pub(super) fn collect(
    tx: &mut Tx<'_>,
    namespace: &str,
    session: &str,
    runs: &[RunId],
) -> Result<Vec<ChildResult>, EngineError> {
    let mut reports = Vec::with_capacity(runs.len());
    for id in runs {
        let ChildAndParent { child, parent } = child_of(tx, namespace, session, *id)?;
        let report = ChildResult::of(tx, &child)?.truncated(TOOL_OUTPUT_BYTES_MAX / 2 / runs.len());
        let already_reported =
            child.state()?.is_terminal() && report::take_result(tx, parent.task_id, &child)?;
        reports.push(if already_reported { report.already_reported() } else { report });
    }
    Ok(reports)
}

/// A child and the run that started it.
struct ChildAndParent {
    child: RunRow,
    parent: RunRow,
}

/// Returns a child that a run of the session has started, with that run. Fails for any other run.
fn child_of(
    tx: &mut Tx<'_>,
    namespace: &str,
    session: &str,
    id: RunId,
) -> Result<ChildAndParent, EngineError> {
    let unknown = || EngineError::not_found("task that you started", id);
    let child = run::find(tx, namespace, id)?.ok_or_else(unknown)?;
    let parent = child.parent_run_id.map(|parent| run::get(tx, parent)).transpose()?.flatten();
    match parent {
        Some(parent) if parent.session_id == session => Ok(ChildAndParent { child, parent }),
        _ => Err(unknown()),
    }
}
