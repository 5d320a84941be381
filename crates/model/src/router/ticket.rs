//! What one attempt holds while it is under way, and what becomes of it when the attempt ends, however it ends.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{Money, Usage};
use tokio::time::Instant;

use super::Shared;
use super::breaker::Pass;
use super::budget::{BudgetHold, BudgetWish};
use super::gate::Taken;
use super::react::{Fault, fault, was_refused};
use crate::tokens::count_request;
use crate::{ChatRequest, ModelError, ModelEvent};

/// Tokens of an answer whose length nobody bounds, as far as limits per minute are concerned; what it really was corrects it.
const ANSWER_TOKENS_GUESS: u64 = 1024;

/// No credential rests longer than this, whatever the provider asks for.
const COOL_MAX: Duration = Duration::from_secs(3600);

/// What an attempt is expected to use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Estimate {
    /// Tokens of the request, as counted.
    pub(super) counted: u64,
    /// Tokens of the request, corrected by what the provider reported before.
    pub(super) input: u64,
    /// Tokens of the request and of the answer.
    pub(super) total: u64,
}

impl Estimate {
    /// Counts the tokens of a request for one endpoint, if anybody wants to know.
    pub(super) fn of(shared: &Shared, endpoint: usize, request: &ChatRequest) -> Self {
        let place = &shared.places[endpoint];
        if !place.counts_tokens && !shared.ledger.is_bounded() {
            return Self::default();
        }
        let ChatRequest { system, messages, tools, .. } = request;
        let counted = count_request(&place.family, system.as_deref(), messages, tools).total();
        let input = place.correct(counted);
        let guess = place.info.max_output.unwrap_or(ANSWER_TOKENS_GUESS).min(ANSWER_TOKENS_GUESS);
        let answer = request.settings.max_tokens.unwrap_or(guess);
        Self { counted, input, total: input.saturating_add(answer) }
    }
}

/// How an attempt stands.
#[derive(Debug, Clone)]
enum Ending {
    /// Nothing was sent.
    Unsent,
    /// It is under way; given up now, it counts with all that was set aside.
    Sent,
    /// The answer is whole.
    Answered,
    Failed(ModelError),
}

/// One attempt. Dropping it settles everything.
pub(super) struct Ticket {
    shared: Arc<Shared>,
    pub(super) endpoint: usize,
    pub(super) lane: usize,
    pass: Option<Pass>,
    taken: Taken,
    estimate: Estimate,
    hold: Option<Box<dyn BudgetHold>>,
    usage: Option<Usage>,
    ending: Ending,
    /// True once the provider said anything.
    anything_came: bool,
}

impl Ticket {
    pub(super) fn new(
        shared: Arc<Shared>,
        (endpoint, lane): (usize, usize),
        pass: Pass,
        taken: Taken,
        estimate: Estimate,
    ) -> Self {
        let (hold, usage, ending) = (None, None, Ending::Unsent);
        let (pass, anything_came) = (Some(pass), false);
        Self { shared, endpoint, lane, pass, taken, estimate, hold, usage, ending, anything_came }
    }

    /// Sets aside what the attempt may cost.
    pub(super) async fn pay(&mut self, request: &ChatRequest) -> Result<(), ModelError> {
        let ledger = Arc::clone(&self.shared.ledger);
        if !ledger.is_bounded() {
            return Ok(());
        }
        let info = &self.shared.places[self.endpoint].info;
        let output = request.settings.max_tokens.or(info.max_output);
        let priced = info.pricing.zip(output);
        let wish = BudgetWish {
            provider: info.provider.clone(),
            model: info.model.clone(),
            cost_max: priced.map(|(pricing, output)| pricing.cost_max(self.estimate.input, output)),
        };
        self.hold = Some(ledger.reserve(&wish).await?);
        Ok(())
    }

    /// The request goes out now.
    pub(super) fn sent(&mut self) {
        self.ending = Ending::Sent;
    }

    /// Sees what comes.
    pub(super) fn see(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Usage(usage) => self.usage = Some(*usage),
            ModelEvent::Stop(_) => self.ending = Ending::Answered,
            ModelEvent::Retry { .. } => return,
            _ => {}
        }
        self.anything_came = true;
    }

    /// True once the answer is whole.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.ending, Ending::Answered)
    }

    /// The attempt failed.
    pub(super) fn failed(mut self, error: &ModelError) {
        self.ending = Ending::Failed(error.clone());
    }

    fn judge(&mut self, error: &ModelError) {
        let place = &self.shared.places[self.endpoint];
        let now = Instant::now();
        let Some(pass) = self.pass.take() else { return };
        match fault(error) {
            Fault::Endpoint => place.failed(pass, now),
            Fault::Credential { cool } => {
                place.cool(self.lane, now + cool.min(COOL_MAX), error.class);
                place.abandoned(pass);
            }
            // It answered, if only to say no.
            Fault::Choice | Fault::Length | Fault::Request => place.succeeded(pass),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        let place = &shared.places[self.endpoint];
        let usage = match std::mem::replace(&mut self.ending, Ending::Unsent) {
            Ending::Unsent => {
                place.lanes[self.lane].gate.give_back(self.taken);
                if let Some(hold) = self.hold.take() {
                    hold.settle(0);
                }
                None
            }
            // What it used so far is not all that it used.
            Ending::Sent => None,
            Ending::Answered => {
                if let Some(usage) = self.usage {
                    place.observe(self.estimate.counted, usage.input);
                }
                if let Some(pass) = self.pass.take() {
                    place.succeeded(pass);
                }
                self.usage
            }
            Ending::Failed(error) => {
                self.judge(&error);
                was_refused(&error, self.anything_came).then(Usage::default)
            }
        };
        if let Some(pass) = self.pass.take() {
            place.abandoned(pass);
        }
        let Some(usage) = usage else { return };
        place.lanes[self.lane].gate.correct(self.taken, usage.total());
        if let Some(hold) = self.hold.take() {
            let cost = place.info.pricing.map(|pricing| pricing.cost(&usage));
            hold.settle(cost.map_or(0, Money::micros));
        }
    }
}
