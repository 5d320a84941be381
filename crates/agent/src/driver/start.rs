//! The way to the first step: hooks may change the message, refuse the run or answer at once.

use std::sync::Arc;

use provost_core::RunSummary;
use serde_json::Map;

use super::{Cx, Driver, hook_error};
use crate::control::UserInput;
use crate::driver::finish::empty_summary;
use crate::error::Error;
use crate::hook::Entry;
use crate::outcome::{Outcome, RunResult};
use crate::run::RunInput;
use crate::run_builder::RunSource;

/// How the way to the first step ended.
pub(super) enum Entered {
    Ready(Box<Driver>),
    Over(Box<Outcome>),
}

pub(super) async fn enter(
    cx: &Arc<Cx>,
    mut source: RunSource,
    input: &str,
) -> Result<Entered, Error> {
    // First, so that hooks see it.
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
            Entry::Go => {}
            Entry::Deny(reason) => {
                // Those who watch the end of agents see this one, too; there is nothing for them to change.
                let ignored = cx.hooks.after_agent(&mut empty_summary(cx)).await;
                drop(ignored);
                return Ok(Entered::Over(Box::new(Outcome::Denied { reason })));
            }
            Entry::Answer(text) => {
                return Ok(Entered::Over(Box::new(answer_at_once(cx, text).await)));
            }
        }
    }
    Ok(Entered::Ready(Box::new(super::setup::open::open(cx, source, base).await?)))
}

async fn answer_at_once(cx: &Cx, text: String) -> Outcome {
    let summary = RunSummary { text: text.clone(), ..empty_summary(cx) };
    let ignored = cx.hooks.after_agent(&mut summary.clone()).await;
    drop(ignored);
    Outcome::Done(RunResult {
        output: text,
        run_id: cx.run_id,
        summary,
        messages: Vec::new(),
        state: Map::new(),
    })
}
