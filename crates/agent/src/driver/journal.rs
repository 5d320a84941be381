//! Journals every state change before it is applied to the run.

use std::sync::Arc;

use provost_core::EventKind;
use provost_model::ChatRequest;

use super::Driver;
use crate::context::{HeuristicCounter, count_request};
use crate::control::UserInput;
use crate::driver::shared_state;
use crate::error::Error;
use crate::journal::Effect;
use crate::run::{ApplyResult, JournalEntry, Step};

impl Driver {
    /// Writes an entry to the journal, and applies it to the run.
    pub(super) fn apply_entry(&mut self, feed: JournalEntry) -> Result<ApplyResult, Error> {
        if let Some(journal) = &self.cx.journal {
            journal.record(&feed)?;
        }
        Ok(self.run.apply(feed)?)
    }

    /// Returns the next step. A limit that the clock or usage exceeds is detected here and journaled, because a replay
    /// cannot detect it again.
    pub(super) fn next_step(&mut self) -> Result<Step, Error> {
        let at = self.now();
        let at_model = self.run.awaits_model();
        let step = self.run.next_step(at);
        if let Some(journal) = &self.cx.journal
            && at_model
            && !matches!(step, Step::CallModel { .. })
        {
            journal.record(&JournalEntry::LimitReached { at })?;
        }
        Ok(step)
    }

    /// Adds the user messages that the journal received to the run. A denied message is replaced by a note.
    pub(super) async fn add_journal_messages(&mut self) -> Result<(), Error> {
        let Some(journal) = self.cx.journal.clone() else { return Ok(()) };
        for message in journal.take_inputs().await? {
            let mut input = UserInput(message.parts.clone());
            self.is_reviewing_input = true;
            let checked = self.cx.check_message(&mut input).await;
            self.is_reviewing_input = false;
            let mut message = message;
            match checked {
                Ok(()) if input.0 == message.parts => {}
                Ok(()) => Arc::make_mut(&mut message).parts = input.0,
                // The message was accepted before, so it must not disappear: the model learns that it was withheld.
                Err(error) => {
                    let text = format!("[a message was withheld: {error}]");
                    Arc::make_mut(&mut message).parts = vec![provost_core::ContentPart::text(text)];
                }
            }
            self.cx.events.emit(EventKind::UserMessage { message: Arc::clone(&message) });
            self.apply_entry(JournalEntry::UserMessage { message })?;
        }
        Ok(())
    }

    /// Journals that a model call is about to start, with its maximum cost. Returns an error if the journal does not
    /// allow the call.
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
            let input =
                count_request(&HeuristicCounter, system.as_deref(), messages, tools).total();
            pricing.cost(&provost_core::Usage { input, output, ..Default::default() })
        });
        let (provider, model) = (info.provider.clone(), info.model.clone());
        journal.begin_effect(Effect::Model { turn, provider, model, cost_max }).await?;
        Ok(())
    }

    /// Journals the state of the run if a tool or hook changed it, and emits changed shared values.
    pub(super) fn record_state(&mut self) -> Result<(), Error> {
        if self.cx.journal.is_none() {
            return Ok(());
        }
        let state = self.cx.state.snapshot();
        if state != *self.run.state() {
            let shared = shared_state::take_changes(&mut self.shared_base, &state);
            if !shared.is_empty() {
                self.cx.events.emit(EventKind::StateChanged { changes: shared.clone() });
            }
            self.apply_entry(JournalEntry::StateChanged { state, shared })?;
        }
        Ok(())
    }
}
