//! Children that wait for a person: their call waits with them, and what they had come to is kept with the run.

use std::collections::HashMap;
use std::sync::Arc;

use provost_core::work::EffectKey;
use provost_core::{ApprovalId, ApprovalRequest, ToolCall};
use provost_tool::{State, ToolCx, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Child, LocalChildren};
use crate::child::{ChildAsk, ChildLife, ChildReport, ChildStatus};
use crate::outcome::Suspended;

impl LocalChildren {
    /// What this call's children had come to when it was made to wait for a person, once that person has answered. A no is one
    /// to the calls that they want to make: they are told so and go on, and the others keep what they had come to.
    pub(super) async fn take_kept(
        &self,
        cx: &ToolCx,
        asks: &[ChildAsk],
    ) -> Result<HashMap<u32, Kept>, ToolError> {
        if cx.state().is_empty() {
            return Ok(HashMap::new());
        }
        let name = |ask: &ChildAsk| note_name(&(cx.effect_key().clone(), ask.index));
        let mut kept = HashMap::new();
        let mut questions = Vec::new();
        for ask in asks {
            let Some(keep) = cx.state().get::<Kept>(&name(ask)) else { continue };
            if let Kept::Waits(suspended) = &keep {
                let agent = self.parent()?.core.below(&ask.place).map_err(ToolError::Failed)?;
                questions.push(Question::of(&agent.core.name, suspended));
            }
            kept.insert(ask.index, keep);
        }
        if questions.is_empty() {
            return Ok(kept);
        }
        let answered = ask_all(cx, &questions).await;
        if !matches!(answered, Err(ToolError::NeedsApproval { .. })) {
            asks.iter().for_each(|ask| drop(cx.state().remove(&name(ask))));
        }
        match answered {
            Ok(()) => Ok(kept),
            Err(ToolError::Rejected(reason)) => {
                let denied = |(index, keep): (u32, Kept)| (index, keep.denied(&reason));
                Ok(kept.into_iter().map(denied).collect())
            }
            Err(error) => Err(error),
        }
    }

    /// Children that wait for a person make their call wait, and the run with it. What the others gave is kept with the run.
    pub(super) async fn hand_up(&self, cx: &ToolCx, places: &[usize]) -> Result<(), ToolError> {
        let questions = self.keep(cx, places)?;
        if questions.is_empty() { Ok(()) } else { ask_all(cx, &questions).await }
    }

    /// Keeps these children with the run, if one of them waits for a person.
    fn keep(&self, cx: &ToolCx, places: &[usize]) -> Result<Vec<Question>, ToolError> {
        let mut questions = Vec::new();
        let mut known = self.lock();
        let waits =
            |place: &usize| known.at(*place).is_some_and(|child| child.ended.is_suspended());
        if !places.iter().any(waits) {
            return Ok(questions);
        }
        for place in places {
            let Some(child) = known.at_mut(*place) else { continue };
            let suspended = child.ended.more.as_mut().and_then(|more| more.suspended.take());
            let keep = match suspended {
                Some(suspended) => {
                    child.is_kept = true;
                    questions.push(Question::of(&child.started.agent, &suspended));
                    Kept::Waits(suspended)
                }
                None => Kept::Done(child.report()),
            };
            cx.state().set(note_name(&child.key), keep)?;
        }
        Ok(questions)
    }
}

impl LocalChildren {
    /// Notes what came of those with a label, for a run that is suspended: their names stay theirs when it goes on.
    pub(crate) fn keep_labelled(&self, state: &State) -> Result<(), serde_json::Error> {
        let known = self.lock();
        let labelled = known.iter().filter(|child| child.started.label.is_some());
        let tasks: Vec<Task> = labelled.map(Task::of).collect();
        drop(known);
        if tasks.is_empty() { Ok(()) } else { state.set(TASKS, tasks) }
    }

    /// Knows again what was noted.
    pub(crate) fn take_labelled(&self, state: &State) {
        let tasks = state.get::<Vec<Task>>(TASKS).unwrap_or_default();
        state.remove(TASKS);
        let known = |Task { effect, index, report }: Task| {
            Child::of_report((effect, index), ChildLife::Run, Arc::default(), report)
        };
        self.lock().extend(tasks.into_iter().map(known));
    }
}

/// Where a run notes its background work.
const TASKS: &str = "provost.tasks";

/// A child with a label, as a suspended run keeps it.
#[derive(Serialize, Deserialize)]
struct Task {
    effect: EffectKey,
    index: u32,
    report: ChildReport,
}

impl Task {
    fn of(child: &Child) -> Self {
        let (effect, index) = child.key.clone();
        let mut report = child.report();
        let lost = match report.status {
            // Nobody could wait for it here any more.
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

/// Where a run notes a child that waits for a person.
fn note_name((effect, index): &(EffectKey, u32)) -> String {
    format!("provost.child.{effect}.{index}")
}

/// A child of a call that waits, as the run keeps it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kept {
    /// It was over.
    Done(ChildReport),
    /// It waits for a person.
    Waits(Suspended),
}

impl Kept {
    fn denied(self, reason: &str) -> Self {
        match self {
            Self::Waits(suspended) => Self::Waits(suspended.deny_all(reason)),
            done => done,
        }
    }
}

/// What a child wants to do, for the person who decides.
#[derive(Serialize)]
struct Question {
    agent: String,
    calls: Vec<Wanted>,
}

/// A call that a child wants to make.
#[derive(Serialize)]
struct Wanted {
    /// Tells the question from an earlier one about the same call.
    approval: ApprovalId,
    #[serde(flatten)]
    call: ToolCall,
    /// What the question says beyond the call; where agents below want something it is that.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
}

impl Question {
    fn of(agent: &str, suspended: &Suspended) -> Self {
        let wanted = |request: &ApprovalRequest| {
            let ApprovalRequest { id, call, hint, payload, .. } = request.clone();
            Wanted { approval: id, call, hint, payload }
        };
        let calls = suspended.approvals().into_iter().map(wanted);
        Self { agent: agent.to_owned(), calls: calls.collect() }
    }

    fn hint(&self) -> String {
        let said = |wanted: &Wanted| match &wanted.hint {
            Some(hint) => format!("{} ({hint})", wanted.call.name),
            None => wanted.call.name.clone(),
        };
        let calls: Vec<String> = self.calls.iter().map(said).collect();
        format!("{} wants to call {}", self.agent, calls.join(", "))
    }
}

/// Puts the questions of children to whoever answers those of the run above. Returns once they are approved.
async fn ask_all(cx: &ToolCx, questions: &[Question]) -> Result<(), ToolError> {
    let hint: Vec<String> = questions.iter().map(Question::hint).collect();
    cx.confirm_with(hint.join("; "), json!({ "children": questions })).await
}
