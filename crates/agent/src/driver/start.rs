//! Starts a run: hooks may change the message, deny the run or respond without a model call.

use std::sync::Arc;

use provost_core::RunSummary;

use super::{Driver, DriverContext, hook_error};
use crate::control::UserInput;
use crate::driver::finish::empty_summary;
use crate::error::Error;
use crate::hook::StartDecision;
use crate::outcome::{RunOutcome, RunResult};
use crate::run::RunInput;
use crate::run_builder::RunSource;

/// Result of starting a run.
pub(super) enum Started {
    Running(Box<Driver>),
    /// A hook ended the run before its first model call.
    Finished(Box<RunOutcome>),
}

/// Loads the state, calls the hooks and starts the driver. A hook can deny the run or respond without a model.
pub(super) async fn start(
    cx: &Arc<DriverContext>,
    mut source: RunSource,
    input: &str,
) -> Result<Started, Error> {
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
                return Ok(Started::Finished(Box::new(RunOutcome::Denied { reason })));
            }
            StartDecision::Respond(text) => {
                return Ok(Started::Finished(Box::new(respond_without_model(cx, text).await)));
            }
        }
    }
    Ok(Started::Running(Box::new(super::setup::open::open(cx, source, base).await?)))
}

/// Returns the outcome of a run whose response a hook provided.
async fn respond_without_model(cx: &DriverContext, text: String) -> RunOutcome {
    let summary = RunSummary { text, ..empty_summary(cx) };
    let ignored = cx.hooks.after_agent(&mut summary.clone()).await;
    drop(ignored);
    RunOutcome::Completed(RunResult::new(cx.run_id, summary, Vec::new()))
}
