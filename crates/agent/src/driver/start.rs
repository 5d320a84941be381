//! Starts a run: hooks may change the message, deny the run or respond without a model call.

use std::sync::Arc;

use provost_core::RunSummary;
use serde_json::Map;

use super::{Driver, DriverContext, hook_error};
use crate::control::UserInput;
use crate::driver::finish::empty_summary;
use crate::error::Error;
use crate::hook::StartDecision;
use crate::outcome::{RunOutcome, RunResult};
use crate::run::RunInput;
use crate::run_builder::RunSource;

/// Result of starting a run.
pub(super) enum Entered {
    Ready(Box<Driver>),
    Over(Box<RunOutcome>),
}

pub(super) async fn enter(
    cx: &Arc<DriverContext>,
    mut source: RunSource,
    input: &str,
) -> Result<Entered, Error> {
    // Loaded first, so that hooks see the shared state.
    let base = cx.load_shared(&source).await?;
    let mut input = input.to_owned();
    if let RunSource::New(RunInput::Message { message }) = &mut source {
        let message = Arc::make_mut(message);
        let mut said = UserInput(std::mem::take(&mut message.parts));
        cx.check_message(&mut said).await?;
        input = said.text();
        message.parts = said.0;
    }
    if source.existing().is_none() {
        match cx.hooks.before_agent(&input).await.map_err(hook_error("before_agent"))? {
            StartDecision::Continue => {}
            StartDecision::Deny(reason) => {
                // `after_agent` hooks see this run too. There is no result to change, so their error is ignored.
                let ignored = cx.hooks.after_agent(&mut empty_summary(cx)).await;
                drop(ignored);
                return Ok(Entered::Over(Box::new(RunOutcome::Denied { reason })));
            }
            StartDecision::Respond(text) => {
                return Ok(Entered::Over(Box::new(answer_at_once(cx, text).await)));
            }
        }
    }
    Ok(Entered::Ready(Box::new(super::setup::open::open(cx, source, base).await?)))
}

async fn answer_at_once(cx: &DriverContext, text: String) -> RunOutcome {
    let summary = RunSummary { text: text.clone(), ..empty_summary(cx) };
    let ignored = cx.hooks.after_agent(&mut summary.clone()).await;
    drop(ignored);
    RunOutcome::Completed(RunResult {
        output: text,
        run_id: cx.run_id,
        summary,
        messages: Vec::new(),
        state: Map::new(),
    })
}
