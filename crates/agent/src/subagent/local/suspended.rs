//! Children that wait for an approval: their call waits with them, and the run stores how far they had come.

use std::collections::HashMap;

use provost_core::recovery::EffectKey;
use provost_core::{ApprovalId, ApprovalRequest, RunId, ToolCall};
use provost_tool::{State, ToolCx, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::LocalSpawner;
use super::table::{ChildKey, ChildRecord};
use crate::outcome::SuspendedRun;
use crate::subagent::{ChildLifetime, ChildReport, ChildStatus, SpawnRequest};

impl LocalSpawner {
    /// Takes the stored children of this call, once their approvals are decided. A denial denies the calls that they want to
    /// make: they continue and learn the reason. Children that had ended keep their results.
    pub(super) async fn take_suspended(
        &self,
        cx: &ToolCx,
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
            if let SuspendedChild::Waits(suspended) = &child {
                let agent =
                    self.parent()?.core.resolve(&request.path).map_err(ToolError::Failed)?;
                approvals.push(ChildApproval::of(&agent.core.name, suspended));
            }
            saved.insert(request.index, child);
        }
        if approvals.is_empty() {
            return Ok(saved);
        }
        let answered = ask_all(cx, &approvals).await;
        if !matches!(answered, Err(ToolError::NeedsApproval { .. })) {
            requests.iter().for_each(|request| drop(cx.state().remove(&name(request))));
        }
        match answered {
            Ok(()) => Ok(saved),
            Err(ToolError::Rejected(reason)) => {
                Ok(saved.into_iter().map(|(index, child)| (index, child.denied(&reason))).collect())
            }
            Err(error) => Err(error),
        }
    }

    /// Suspends the call if one of these children waits for an approval, and stores what the others returned.
    pub(super) async fn raise_approvals(
        &self,
        cx: &ToolCx,
        runs: &[RunId],
    ) -> Result<(), ToolError> {
        let approvals = self.save_suspended(cx, runs)?;
        if approvals.is_empty() { Ok(()) } else { ask_all(cx, &approvals).await }
    }

    fn save_suspended(&self, cx: &ToolCx, runs: &[RunId]) -> Result<Vec<ChildApproval>, ToolError> {
        let table = self.table();
        let mut approvals = Vec::new();
        if !table.of_runs(runs).any(|child| child.suspended.is_some()) {
            return Ok(approvals);
        }
        for child in table.of_runs(runs) {
            let saved = match &child.suspended {
                Some(suspended) => {
                    approvals.push(ChildApproval::of(&child.report.agent, suspended));
                    SuspendedChild::Waits(SuspendedRun::clone(suspended))
                }
                None => SuspendedChild::Done(child.report.clone()),
            };
            cx.state().set(state_name(&child.key.effect, child.key.index), saved)?;
        }
        Ok(approvals)
    }

    /// Stores the background children of a run that is suspended: their labels stay valid when it continues.
    pub(crate) fn save_labelled(&self, state: &State) -> Result<(), serde_json::Error> {
        let tasks: Vec<_> = self.table().labelled().map(BackgroundTaskRecord::of).collect();
        if tasks.is_empty() { Ok(()) } else { state.set(TASKS, tasks) }
    }

    /// Loads what [`save_labelled`](Self::save_labelled) stored.
    pub(crate) fn load_labelled(&self, state: &State) {
        let tasks = state.get::<Vec<BackgroundTaskRecord>>(TASKS).unwrap_or_default();
        state.remove(TASKS);
        for BackgroundTaskRecord { effect, index, report } in tasks {
            let key = ChildKey { effect, index };
            self.table().insert(ChildRecord::finished(key, ChildLifetime::Run, report));
        }
    }
}

/// The name of the state value with the background children.
const TASKS: &str = "provost.tasks";

/// A background child, as a suspended run stores it.
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
        let lost = match report.status {
            // The resumed run has no way to wait for it.
            ChildStatus::Running => Some("it goes on by itself, and its result is not known here"),
            ChildStatus::Cancelled => Some("its run was suspended"),
            ChildStatus::Completed | ChildStatus::Failed => None,
        };
        if let Some(lost) = lost {
            report.status = ChildStatus::Cancelled;
            report.error.get_or_insert_with(|| lost.to_owned());
        }
        Self { effect, index, report }
    }
}

/// The name of the state value with a stored child.
fn state_name(effect: &EffectKey, index: u32) -> String {
    format!("provost.child.{effect}.{index}")
}

/// A child of a suspended call, as the run stores it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SuspendedChild {
    /// It had ended.
    Done(ChildReport),
    /// It waits for an approval.
    Waits(SuspendedRun),
}

impl SuspendedChild {
    fn denied(self, reason: &str) -> Self {
        match self {
            Self::Waits(suspended) => Self::Waits(suspended.deny_all(reason)),
            done => done,
        }
    }
}

/// The calls that a child wants to make, for the person who decides.
#[derive(Serialize)]
struct ChildApproval {
    agent: String,
    calls: Vec<PendingToolCall>,
}

/// A call that a child wants to make.
#[derive(Serialize)]
struct PendingToolCall {
    /// Distinguishes the request from an earlier one about the same call.
    approval: ApprovalId,
    #[serde(flatten)]
    call: ToolCall,
    /// The text of the request besides the call; for a child of the child it names that child's calls.
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

/// Asks the approver of the parent run. Returns `Ok` once the calls are approved.
async fn ask_all(cx: &ToolCx, approvals: &[ChildApproval]) -> Result<(), ToolError> {
    let hint: Vec<String> = approvals.iter().map(ChildApproval::hint).collect();
    cx.confirm_with(hint.join("; "), json!({ "children": approvals })).await
}
