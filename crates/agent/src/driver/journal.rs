//! The one way into the machine: written down first, if there is a journal, then taken in.

use std::sync::Arc;

use provost_core::EventKind;
use provost_model::ChatRequest;

use super::Driver;
use crate::context::{Estimate, count_request};
use crate::control::UserInput;
use crate::driver::shared_state;
use crate::error::Error;
use crate::journal::Effect;
use crate::run::{Fed, Feed, Step};

impl Driver {
    pub(super) fn feed(&mut self, feed: Feed) -> Result<Fed, Error> {
        if let Some(journal) = &self.cx.journal {
            journal.record(&feed)?;
        }
        Ok(self.run.apply(feed)?)
    }

    /// The next step. That a limit is used up is found here, and what is found by a clock is written down.
    pub(super) fn next_step(&mut self) -> Result<Step, Error> {
        let at = self.now();
        let at_model = self.run.is_at_model();
        let step = self.run.next_step(at);
        if let Some(journal) = &self.cx.journal
            && at_model
            && !matches!(step, Step::CallModel { .. })
        {
            journal.record(&Feed::LimitFound { at })?;
        }
        Ok(step)
    }

    /// Takes in what was said to the run where it is stored.
    pub(super) async fn hear_journal(&mut self) -> Result<(), Error> {
        let Some(journal) = self.cx.journal.clone() else { return Ok(()) };
        for message in journal.inputs().await? {
            let mut input = UserInput(message.parts.clone());
            self.hears = true;
            let checked = self.cx.check_message(&mut input).await;
            self.hears = false;
            let mut message = message;
            match checked {
                Ok(()) if input.0 == message.parts => {}
                Ok(()) => Arc::make_mut(&mut message).parts = input.0,
                // It was accepted and must not vanish: the model learns that it was there.
                Err(error) => {
                    let text = format!("[a message was withheld: {error}]");
                    Arc::make_mut(&mut message).parts = vec![provost_core::Part::text(text)];
                }
            }
            self.cx.queue.emit(EventKind::UserMessage { message: Arc::clone(&message) });
            self.feed(Feed::UserSaid { message })?;
        }
        Ok(())
    }

    /// Writes down that the model is about to be asked, and the most that it can cost.
    pub(super) async fn begin_model_call(
        &self,
        turn: u32,
        request: &ChatRequest,
    ) -> Result<(), Error> {
        let Some(journal) = &self.cx.journal else { return Ok(()) };
        let info = self.cx.model.info();
        let output_max = request.settings.max_tokens.or(info.max_output);
        let price = info.pricing.filter(|_| journal.is_budgeted()).zip(output_max);
        let cost_max = price.map(|(pricing, output)| {
            let ChatRequest { system, messages, tools, .. } = request;
            let input = count_request(&Estimate, system.as_deref(), messages, tools).total();
            pricing.cost(&provost_core::Usage { input, output, ..Default::default() })
        });
        let (provider, model) = (info.provider.clone(), info.model.clone());
        journal.begin(Effect::Model { turn, provider, model, cost_max }).await?;
        Ok(())
    }

    /// Writes down the run's own notes if a tool or hook changed them.
    pub(super) fn note_state(&mut self) -> Result<(), Error> {
        if self.cx.journal.is_none() {
            return Ok(());
        }
        let state = self.cx.state.snapshot();
        if state != *self.run.state() {
            let shared = shared_state::changes(&mut self.shared_base, &state);
            if !shared.is_empty() {
                self.cx.queue.emit(EventKind::StateChanged { changes: shared.clone() });
            }
            self.feed(Feed::Noted { state, shared })?;
        }
        Ok(())
    }
}
