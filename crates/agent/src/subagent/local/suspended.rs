//! Suspended children: a call that waits for them is suspended too, and the run stores their state.

use std::collections::HashMap;

use provost_core::recovery::EffectKey;
use provost_core::{ApprovalId, ApprovalRequest, RunId, ToolCall};
use provost_tool::{State, ToolContext, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::LocalSpawner;
use super::table::{ChildKey, ChildRecord};
use crate::outcome::SuspendedRun;
use crate::subagent::{ChildLifetime, ChildReport, ChildStatus, SpawnRequest};

impl LocalSpawner {
    /// Removes and returns the stored children of this call after their approvals were decided. Denied calls do not
    /// run: the child continues and receives the reason. Children that had ended keep their results.
    pub(super) async fn take_suspended(
        &self,
        cx: &ToolContext,
        requests: &[SpawnRequest],
    ) -> Result<HashMap<u32, SuspendedChild>, ToolError> {
        if cx.state().is_empty() {
            return Ok(HashMap::new());
        }
        let name = |request: &SpawnRequest| state_name(cx.effect_key(), request.index);
        let mut saved = HashMap::new();
        let mut approvals = Vec::new();
        for request in requests {
            let Some(child) = cx.state().get::<SuspendedChild>(&name(request)) else { continue };
            if let SuspendedChild::AwaitingApproval(suspended) = &child {
                let agent =
                    self.parent()?.definition.resolve(&request.path).map_err(ToolError::Failed)?;
                approvals.push(ChildApproval::of(&agent.definition.name, suspended));
            }
            saved.insert(request.index, child);
        }
        if approvals.is_empty() {
            return Ok(saved);
        }
        let decision = request_approval(cx, &approvals).await;
        if !matches!(decision, Err(ToolError::NeedsApproval { .. })) {
            requests.iter().for_each(|request| drop(cx.state().remove(&name(request))));
        }
        match decision {
            Ok(()) => Ok(saved),
            Err(ToolError::Rejected(reason)) => Ok(saved
                .into_iter()
                .map(|(index, child)| (index, child.reject_all(&reason)))
                .collect()),
            Err(error) => Err(error),
        }
    }

    /// Requests an approval if one of these children waits for one, and stores all children of the call. Returns an
    /// error that suspends the call while the approval is not decided.
    pub(super) async fn request_approvals(
        &self,
        cx: &ToolContext,
        runs: &[RunId],
    ) -> Result<(), ToolError> {
        let approvals = self.save_suspended(cx, runs)?;
        if approvals.is_empty() { Ok(()) } else { request_approval(cx, &approvals).await }
    }

    /// Stores the children in the state of the run if one of them waits for an approval. Returns the approvals.
    fn save_suspended(
        &self,
        cx: &ToolContext,
        runs: &[RunId],
    ) -> Result<Vec<ChildApproval>, ToolError> {
        let table = self.table();
        let mut approvals = Vec::new();
        if !table.of_runs(runs).any(|child| child.suspended.is_some()) {
            return Ok(approvals);
        }
        for child in table.of_runs(runs) {
            let saved = match &child.suspended {
                Some(suspended) => {
                    approvals.push(ChildApproval::of(&child.report.agent, suspended));
                    SuspendedChild::AwaitingApproval(SuspendedRun::clone(suspended))
                }
                None => SuspendedChild::Finished(child.report.clone()),
            };
            cx.state().set(state_name(&child.key.effect, child.key.index), saved)?;
        }
        Ok(approvals)
    }

    /// Stores the background children of a suspended run, so that their task ids stay valid.
    pub(crate) fn save_background_tasks(&self, state: &State) -> Result<(), serde_json::Error> {
        let tasks: Vec<_> = self.table().background_tasks().map(BackgroundTaskRecord::of).collect();
        if tasks.is_empty() { Ok(()) } else { state.set(TASKS, tasks) }
    }

    /// Loads what [`save_background_tasks`](Self::save_background_tasks) stored.
    pub(crate) fn load_background_tasks(&self, state: &State) {
        let tasks = state.get::<Vec<BackgroundTaskRecord>>(TASKS).unwrap_or_default();
        state.remove(TASKS);
        for BackgroundTaskRecord { effect, index, report } in tasks {
            let key = ChildKey { effect, index };
            self.table().insert(ChildRecord::finished(key, ChildLifetime::Run, report));
        }
    }
}

/// Name of the state value with the background children.
const TASKS: &str = "provost.tasks";

/// The stored form of a background child.
#[derive(Serialize, Deserialize)]
struct BackgroundTaskRecord {
    effect: EffectKey,
    index: u32,
    report: ChildReport,
}

impl BackgroundTaskRecord {
    fn of(child: &ChildRecord) -> Self {
        let ChildKey { effect, index } = child.key.clone();
        let mut report = child.report.clone();
        let problem = match report.status {
            // The resumed run cannot wait for the child.
            ChildStatus::Running => {
                Some("it continues on its own, and its result is not available here")
            }
            ChildStatus::Cancelled => Some("its run was suspended"),
            ChildStatus::Completed | ChildStatus::Failed => None,
        };
        if let Some(problem) = problem {
            report.status = ChildStatus::Cancelled;
            report.error.get_or_insert_with(|| problem.to_owned());
        }
        Self { effect, index, report }
    }
}

/// Returns the name of the state value with a stored child.
fn state_name(effect: &EffectKey, index: u32) -> String {
    format!("provost.child.{effect}.{index}")
}

/// The stored form of a child of a suspended call.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SuspendedChild {
    /// The child has ended.
    #[serde(rename = "done")]
    Finished(ChildReport),
    /// The child waits for an approval.
    #[serde(rename = "waits")]
    AwaitingApproval(SuspendedRun),
}

impl SuspendedChild {
    /// Rejects all pending approvals of a suspended child. A finished child is unchanged.
    fn reject_all(self, reason: &str) -> Self {
        match self {
            Self::AwaitingApproval(suspended) => {
                Self::AwaitingApproval(suspended.reject_all(reason))
            }
            finished @ Self::Finished(_) => finished,
        }
    }
}

/// The pending calls of a child, for the approver.
#[derive(Serialize)]
struct ChildApproval {
    agent: String,
    calls: Vec<PendingToolCall>,
}

/// A pending call of a child.
#[derive(Serialize)]
struct PendingToolCall {
    /// Distinguishes the request from an earlier request for the same call.
    approval: ApprovalId,
    #[serde(flatten)]
    call: ToolCall,
    /// Text of the request. For a grandchild, it names the calls of the grandchild.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
}

impl ChildApproval {
    fn of(agent: &str, suspended: &SuspendedRun) -> Self {
        let pending = |request: &ApprovalRequest| {
            let ApprovalRequest { id, call, hint, payload, .. } = request.clone();
            PendingToolCall { approval: id, call, hint, payload }
        };
        let calls = suspended.approvals().into_iter().map(pending);
        Self { agent: agent.to_owned(), calls: calls.collect() }
    }

    fn hint(&self) -> String {
        let name = |pending: &PendingToolCall| match &pending.hint {
            Some(hint) => format!("{} ({hint})", pending.call.name),
            None => pending.call.name.clone(),
        };
        let calls: Vec<String> = self.calls.iter().map(name).collect();
        format!("{} wants to call {}", self.agent, calls.join(", "))
    }
}

/// Requests one approval for all calls. Returns `Ok` if it is approved.
async fn request_approval(cx: &ToolContext, approvals: &[ChildApproval]) -> Result<(), ToolError> {
    let hint: Vec<String> = approvals.iter().map(ChildApproval::hint).collect();
    cx.confirm_with(hint.join("; "), json!({ "children": approvals })).await
}
