//! The resources that one attempt holds, and how they are settled when it ends.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{Money, Usage};
use tokio::time::Instant;

use super::budget::{BudgetHold, BudgetLedger, BudgetWish};
use super::circuit_breaker::BreakerPass;
use super::endpoint::LiveEndpoint;
use super::failure::{FailureScope, failure_scope, was_not_billed};
use super::rate_limiter::RateUsage;
use super::{RouteId, RouterInner};
use crate::tokens::count_request;
use crate::{ChatRequest, ModelError, ModelEvent};

/// Tokens of an answer without a known limit, for the limits per minute. The reported usage corrects it.
const ANSWER_TOKENS_GUESS: u64 = 1024;

/// The longest cooldown of a credential, whatever the provider asks for.
const COOLDOWN_MAX: Duration = Duration::from_secs(3600);

/// What an attempt is expected to use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UsageEstimate {
    /// Tokens of the request, as counted.
    pub(super) counted: u64,
    /// Tokens of the request, corrected by what the provider reported before.
    pub(super) input: u64,
    /// Tokens of the request and of the answer.
    pub(super) total: u64,
}

impl UsageEstimate {
    /// Counts the tokens of a request for one endpoint, if a limit or a budget needs them.
    pub(super) fn of(router: &RouterInner, endpoint: usize, request: &ChatRequest) -> Self {
        let endpoint = &router.endpoints[endpoint];
        if !endpoint.counts_tokens && !router.ledger.is_bounded() {
            return Self::default();
        }
        let ChatRequest { system, messages, tools, .. } = request;
        let counted = count_request(&endpoint.family, system.as_deref(), messages, tools).total();
        let input = endpoint.correct(counted);
        let guess =
            endpoint.info.max_output.unwrap_or(ANSWER_TOKENS_GUESS).min(ANSWER_TOKENS_GUESS);
        let answer = request.settings.max_tokens.unwrap_or(guess);
        Self { counted, input, total: input.saturating_add(answer) }
    }
}

/// The admission of one attempt by the circuit breaker. Dropping it reports no result.
struct BreakerToken {
    endpoint: Arc<LiveEndpoint>,
    pass: Option<BreakerPass>,
}

impl BreakerToken {
    fn succeeded(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.endpoint.succeeded(pass);
        }
    }

    fn failed(&mut self, now: Instant) {
        if let Some(pass) = self.pass.take() {
            self.endpoint.failed(pass, now);
        }
    }
}

impl Drop for BreakerToken {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.endpoint.abandoned(pass);
        }
    }
}

/// What one attempt took from the limits of a credential. Dropping it before the request was sent gives it back.
pub(super) struct RateGrant {
    endpoint: Arc<LiveEndpoint>,
    credential: usize,
    usage: RateUsage,
    sent: bool,
}

impl RateGrant {
    pub(super) fn new(endpoint: Arc<LiveEndpoint>, credential: usize, usage: RateUsage) -> Self {
        Self { endpoint, credential, usage, sent: false }
    }

    /// Corrects the estimate by the tokens that were used.
    fn settle(&self, tokens: u64) {
        self.endpoint.credentials[self.credential].limiter.correct(self.usage, tokens);
    }
}

impl Drop for RateGrant {
    fn drop(&mut self) {
        if !self.sent {
            self.endpoint.credentials[self.credential].limiter.refund(self.usage);
        }
    }
}

/// The money that is reserved for one attempt. Dropping it before the request was sent releases all of it, dropping it later
/// counts all of it as spent.
#[derive(Default)]
struct Reservation {
    hold: Option<Box<dyn BudgetHold>>,
    sent: bool,
}

impl Reservation {
    fn settle(&mut self, cost: Option<Money>) {
        if let Some(hold) = self.hold.take() {
            hold.settle(cost.map_or(0, Money::micros));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.sent {
            self.settle(None);
        }
    }
}

/// One attempt. Dropping it settles everything: a complete answer by its usage, an attempt that was given up by its estimate.
pub(super) struct InFlightAttempt {
    pub(super) route: RouteId,
    endpoint: Arc<LiveEndpoint>,
    breaker: BreakerToken,
    rate: RateGrant,
    reservation: Reservation,
    estimate: UsageEstimate,
    usage: Option<Usage>,
    /// True once the answer is complete.
    answered: bool,
    /// True once the provider sent anything.
    anything_came: bool,
}

impl InFlightAttempt {
    pub(super) fn new(
        route: RouteId,
        rate: RateGrant,
        pass: BreakerPass,
        estimate: UsageEstimate,
    ) -> Self {
        let endpoint = Arc::clone(&rate.endpoint);
        let breaker = BreakerToken { endpoint: Arc::clone(&endpoint), pass: Some(pass) };
        Self {
            route,
            endpoint,
            breaker,
            rate,
            reservation: Reservation::default(),
            estimate,
            usage: None,
            answered: false,
            anything_came: false,
        }
    }

    /// Reserves what the attempt may cost.
    pub(super) async fn reserve_budget(
        &mut self,
        ledger: &dyn BudgetLedger,
        request: &ChatRequest,
    ) -> Result<(), ModelError> {
        if !ledger.is_bounded() {
            return Ok(());
        }
        let info = &self.endpoint.info;
        let output = request.settings.max_tokens.or(info.max_output);
        let priced = info.pricing.zip(output);
        let wish = BudgetWish {
            provider: info.provider.clone(),
            model: info.model.clone(),
            cost_max: priced.map(|(pricing, output)| pricing.cost_max(self.estimate.input, output)),
        };
        self.reservation.hold = Some(ledger.reserve(&wish).await?);
        Ok(())
    }

    /// The request is sent now; from here on an attempt that is given up counts with its estimate.
    pub(super) fn sent(&mut self) {
        (self.rate.sent, self.reservation.sent) = (true, true);
    }

    /// Takes usage and the end of the answer from an event.
    pub(super) fn observe(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Usage(usage) => self.usage = Some(*usage),
            ModelEvent::Stop(_) => self.answered = true,
            ModelEvent::Retry { .. } => return,
            _ => {}
        }
        self.anything_came = true;
    }

    /// True once the answer is complete.
    pub(super) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Ends the attempt with a failure.
    pub(super) fn fail(mut self, error: &ModelError) {
        let now = Instant::now();
        match failure_scope(error) {
            FailureScope::Endpoint => self.breaker.failed(now),
            FailureScope::Credential { cooldown } => {
                let until = now + cooldown.min(COOLDOWN_MAX);
                self.endpoint.start_cooldown(self.route.credential, until, error.class);
            }
            // The endpoint works: it answered, if only with an error.
            FailureScope::Model | FailureScope::ContextLength | FailureScope::Request => {
                self.breaker.succeeded();
            }
        }
        if was_not_billed(error, self.anything_came) {
            self.settle(Usage::default());
        }
    }

    fn settle(&mut self, usage: Usage) {
        self.rate.settle(usage.total());
        self.reservation.settle(self.endpoint.info.pricing.map(|pricing| pricing.cost(&usage)));
    }
}

impl Drop for InFlightAttempt {
    fn drop(&mut self) {
        if !self.answered {
            return;
        }
        self.breaker.succeeded();
        if let Some(usage) = self.usage {
            self.endpoint.observe(self.estimate.counted, usage.input);
            self.settle(usage);
        }
    }
}
