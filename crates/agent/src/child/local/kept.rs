//! Children that wait for a person: their call waits with them, and what they had come to is kept with the run.

use std::collections::HashMap;

use provost_core::work::EffectKey;
use provost_core::{RunId, ToolCall};
use provost_tool::{ToolCx, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::LocalChildren;
use crate::child::{ChildAsk, ChildReport};
use crate::outcome::Suspended;

impl LocalChildren {
    /// What this call's children had come to when it was made to wait for a person, once that person has said yes.
    pub(super) async fn take_kept(
        &self,
        cx: &ToolCx,
        asks: &[ChildAsk],
    ) -> Result<HashMap<u32, Kept>, ToolError> {
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
        answered.map(|()| kept)
    }

    /// Children that wait for a person make their call wait, and the run with it. What the others gave is kept with the run.
    pub(super) async fn hand_up(&self, cx: &ToolCx, runs: &[RunId]) -> Result<(), ToolError> {
        let mut questions = Vec::new();
        let mut kept = Vec::new();
        for child in self.lock().iter_mut().filter(|child| runs.contains(&child.report.run)) {
            let keep = match child.suspended.take() {
                Some(suspended) => {
                    child.is_kept = true;
                    questions.push(Question::of(&child.report.agent, &suspended));
                    Kept::Waits(suspended)
                }
                None => Kept::Done(child.report.clone()),
            };
            kept.push((note_name(&child.key), keep));
        }
        if questions.is_empty() {
            return Ok(());
        }
        for (name, keep) in kept {
            cx.state().set(name, keep)?;
        }
        ask_all(cx, &questions).await
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

/// What a child wants to do, for the person who decides.
#[derive(Serialize)]
struct Question {
    agent: String,
    calls: Vec<ToolCall>,
}

impl Question {
    fn of(agent: &str, suspended: &Suspended) -> Self {
        let calls = suspended.approvals().into_iter().map(|request| request.call.clone());
        Self { agent: agent.to_owned(), calls: calls.collect() }
    }
}

/// Puts the questions of children to whoever answers those of the run above. Returns once they are approved.
async fn ask_all(cx: &ToolCx, questions: &[Question]) -> Result<(), ToolError> {
    let wants = |question: &Question| {
        let names: Vec<&str> = question.calls.iter().map(|call| call.name.as_str()).collect();
        format!("{} wants to call {}", question.agent, names.join(", "))
    };
    let hint: Vec<String> = questions.iter().map(wants).collect();
    cx.confirm_with(hint.join("; "), json!({ "children": questions })).await
}
