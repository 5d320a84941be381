//! Resources of one attempt, and their settlement when it ends.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{Money, Usage};
use tokio::time::Instant;

use super::budget::{BudgetLedger, BudgetReservation, ReservationRequest};
use super::circuit_breaker::BreakerAdmission;
use super::endpoint::LiveEndpoint;
use super::failure::{FailureScope, failure_scope, was_not_billed};
use super::rate_limiter::RateUsage;
use super::{RouteId, RouterInner};
use crate::tokens::count_request;
use crate::{ChatRequest, ModelError, ModelEvent};

/// Estimated output tokens of a request without a limit. The reported usage corrects the estimate.
const OUTPUT_TOKENS_DEFAULT: u64 = 1024;

/// Longest cooldown of a credential, even if the provider requests more.
const COOLDOWN_MAX: Duration = Duration::from_secs(3600);

/// Expected tokens of an attempt.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UsageEstimate {
    /// Counted tokens of the request.
    pub(super) counted: u64,
    /// Tokens of the request, corrected by earlier reports of the provider.
    pub(super) input: u64,
    /// Tokens of the request and the response.
    pub(super) total: u64,
}

impl UsageEstimate {
    /// Counts the tokens of a request for an endpoint. Returns zeros if neither a limit nor a budget needs them.
    pub(super) fn estimate(router: &RouterInner, endpoint: usize, request: &ChatRequest) -> Self {
        let endpoint = &router.endpoints[endpoint];
        if !endpoint.counts_tokens && !router.ledger.is_bounded() {
            return Self::default();
        }
        let ChatRequest { system, messages, tools, .. } = request;
        let counted = count_request(&endpoint.family, system.as_deref(), messages, tools).total();
        let input = endpoint.correct(counted);
        let default =
            endpoint.info.max_output.unwrap_or(OUTPUT_TOKENS_DEFAULT).min(OUTPUT_TOKENS_DEFAULT);
        let answer = request.settings.max_tokens.unwrap_or(default);
        Self { counted, input, total: input.saturating_add(answer) }
    }
}

/// Admission of one attempt by the circuit breaker. If it is dropped without a result, the breaker counts neither a
/// success nor a failure.
struct BreakerToken {
    endpoint: Arc<LiveEndpoint>,
    admission: Option<BreakerAdmission>,
}

impl BreakerToken {
    /// Reports a success to the circuit breaker. A second report is ignored.
    fn succeed(&mut self) {
        if let Some(admission) = self.admission.take() {
            self.endpoint.record_success(admission);
        }
    }

    /// Reports a failure to the circuit breaker. A second report is ignored.
    fn fail(&mut self, now: Instant) {
        if let Some(admission) = self.admission.take() {
            self.endpoint.record_failure(admission, now);
        }
    }
}

impl Drop for BreakerToken {
    fn drop(&mut self) {
        if let Some(admission) = self.admission.take() {
            self.endpoint.abandon(admission);
        }
    }
}

/// Requests and tokens that an attempt took from the rate limits of a credential. Dropping the grant before the request
/// is sent refunds them.
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

    /// Replaces the estimated tokens in the rate limit by the number of used tokens.
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

/// Reserved money of an attempt. Dropping it before the request is sent releases the whole amount; dropping it later
/// counts the whole amount as spent.
#[derive(Default)]
struct Reservation {
    reserved: Option<Box<dyn BudgetReservation>>,
    sent: bool,
}

impl Reservation {
    /// Replaces the reserved amount by the cost, or by 0 if the cost is unknown. A second call is ignored.
    fn settle(&mut self, cost: Option<Money>) {
        if let Some(reserved) = self.reserved.take() {
            reserved.settle(cost.map_or(0, Money::micros));
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

/// One attempt in progress with its reserved tokens and money. Dropping it settles them: by the reported usage if the
/// response is complete, otherwise by the estimate.
pub(super) struct InFlightAttempt {
    pub(super) route: RouteId,
    endpoint: Arc<LiveEndpoint>,
    breaker: BreakerToken,
    rate: RateGrant,
    reservation: Reservation,
    estimate: UsageEstimate,
    usage: Option<Usage>,
    /// True once the response is complete.
    is_complete: bool,
    /// True once the provider sent an event.
    received_any: bool,
}

impl InFlightAttempt {
    pub(super) fn new(
        route: RouteId,
        rate: RateGrant,
        admission: BreakerAdmission,
        estimate: UsageEstimate,
    ) -> Self {
        let endpoint = Arc::clone(&rate.endpoint);
        let breaker = BreakerToken { endpoint: Arc::clone(&endpoint), admission: Some(admission) };
        Self {
            route,
            endpoint,
            breaker,
            rate,
            reservation: Reservation::default(),
            estimate,
            usage: None,
            is_complete: false,
            received_any: false,
        }
    }

    /// Reserves the largest possible cost of the attempt in the ledger. Returns an error if a budget does not cover it.
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
        let budget_request = ReservationRequest {
            provider: info.provider.clone(),
            model: info.model.clone(),
            cost_max: priced.map(|(pricing, output)| pricing.cost_max(self.estimate.input, output)),
        };
        self.reservation.reserved = Some(ledger.reserve(&budget_request).await?);
        Ok(())
    }

    /// Marks the request as sent. From now on an abandoned attempt counts with its estimate.
    pub(super) fn mark_sent(&mut self) {
        (self.rate.sent, self.reservation.sent) = (true, true);
    }

    /// Records the usage, or the end of the response, if the event has it.
    pub(super) fn observe(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Usage(usage) => self.usage = Some(*usage),
            ModelEvent::Stop(_) => self.is_complete = true,
            ModelEvent::Retry { .. } => return,
            _ => {}
        }
        self.received_any = true;
    }

    /// Returns true if the response is complete.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Ends the attempt with a failure: updates the circuit breaker or starts a cooldown of the credential. If the
    /// provider did not bill the attempt, releases its tokens and money.
    pub(super) fn fail(mut self, error: &ModelError) {
        let now = Instant::now();
        match failure_scope(error) {
            FailureScope::Endpoint => self.breaker.fail(now),
            FailureScope::Credential { cooldown } => {
                let until = now + cooldown.min(COOLDOWN_MAX);
                self.endpoint.start_cooldown(self.route.credential, until, error.class);
            }
            // The endpoint works: it responded, although with an error.
            FailureScope::Model | FailureScope::ContextLength | FailureScope::Request => {
                self.breaker.succeed();
            }
        }
        if was_not_billed(error, self.received_any) {
            self.settle(Usage::default());
        }
    }

    /// Replaces the estimates in the rate limit and the budget by the usage.
    fn settle(&mut self, usage: Usage) {
        self.rate.settle(usage.total());
        self.reservation.settle(self.endpoint.info.pricing.map(|pricing| pricing.cost(&usage)));
    }
}

impl Drop for InFlightAttempt {
    fn drop(&mut self) {
        if !self.is_complete {
            return;
        }
        self.breaker.succeed();
        if let Some(usage) = self.usage {
            self.endpoint.observe(self.estimate.counted, usage.input);
            self.settle(usage);
        }
    }
}
