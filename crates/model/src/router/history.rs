//! The attempts of one call: which credentials were asked, and with what result. Pure.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::RouteId;
use super::failure::{FailureScope, failure_scope};
use crate::{ModelError, RetryPolicy};

/// Failed attempts of one call that are recorded; further ones are only counted.
const RECORDED_MAX: usize = 16;

/// The attempts of one call.
#[derive(Debug)]
pub(super) struct AttemptHistory {
    /// The moment that all waits are counted from.
    pub(super) now: Instant,
    /// The state of each credential of each endpoint.
    endpoints: Vec<Vec<CredentialState>>,
    /// Attempts with a credential that was asked before.
    retries: u32,
    retries_max: u32,
    failures: u32,
    recorded: Vec<FailedAttempt>,
}

#[derive(Debug, Clone, Copy, Default)]
struct CredentialState {
    tried: bool,
    ruled_out: bool,
    not_before: Option<Instant>,
}

#[derive(Debug)]
struct FailedAttempt {
    /// The endpoint, with the credential if it has several.
    asked: String,
    failed: &'static str,
}

impl AttemptHistory {
    /// `credentials` is the number of credentials of each endpoint.
    pub(super) fn new(
        credentials: impl IntoIterator<Item = usize>,
        retry: &RetryPolicy,
        now: Instant,
    ) -> Self {
        let state = |count| vec![CredentialState::default(); count];
        Self {
            now,
            endpoints: credentials.into_iter().map(state).collect(),
            retries: 0,
            retries_max: retry.max_retries,
            failures: 0,
            recorded: Vec::new(),
        }
    }

    /// How long until a credential may be asked; `None` if never again in this call.
    pub(super) fn wait(&self, route: RouteId) -> Option<Duration> {
        let state = self.endpoints.get(route.endpoint)?.get(route.credential)?;
        if state.ruled_out || (state.tried && self.retries >= self.retries_max) {
            return None;
        }
        let not_before = state.not_before.unwrap_or(self.now);
        Some(not_before.saturating_duration_since(self.now))
    }

    /// Counts an attempt that begins.
    pub(super) fn ask(&mut self, route: RouteId) {
        let states = self.endpoints.get_mut(route.endpoint);
        if let Some(state) = states.and_then(|states| states.get_mut(route.credential)) {
            self.retries += u32::from(state.tried);
            state.tried = true;
        }
    }

    /// The retries made so far: attempts with a credential that was asked before.
    pub(super) fn retries(&self) -> u32 {
        self.retries
    }

    /// Attempts that failed.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Counts an attempt that failed. `again` is how long to wait before the next attempt with the same credential; `None` if
    /// there is no next one.
    pub(super) fn failed(&mut self, route: RouteId, error: &ModelError, again: Option<Duration>) {
        self.failures = self.failures.saturating_add(1);
        let Some(states) = self.endpoints.get_mut(route.endpoint) else { return };
        // A failure of the endpoint concerns all its credentials.
        let is_shared =
            matches!(failure_scope(error), FailureScope::Endpoint | FailureScope::Model);
        for (credential, state) in states.iter_mut().enumerate() {
            if !is_shared && credential != route.credential {
                continue;
            }
            match again {
                Some(wait) => state.not_before = Some(self.now + wait),
                None => state.ruled_out = true,
            }
        }
    }

    /// Rules an endpoint out for the rest of the call.
    pub(super) fn rule_out(&mut self, endpoint: usize) {
        for state in self.endpoints.get_mut(endpoint).into_iter().flatten() {
            state.ruled_out = true;
        }
    }

    /// Records a failed attempt for the error and for the metadata of the answer.
    pub(super) fn record(&mut self, asked: String, failed: &'static str) {
        if self.recorded.len() < RECORDED_MAX {
            self.recorded.push(FailedAttempt { asked, failed });
        }
    }

    /// The failures as text: `openai/default: overloaded, azure/default: auth`.
    pub(super) fn summary(&self) -> String {
        let each = self
            .recorded
            .iter()
            .map(|FailedAttempt { asked, failed }| format!("{asked}: {failed}"));
        each.collect::<Vec<_>>().join(", ")
    }

    /// The failures as data.
    pub(super) fn data(&self) -> Value {
        let each = self.recorded.iter();
        each.map(|FailedAttempt { asked, failed }| json!({ "asked": asked, "failed": failed }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelErrorClass as Class;

    const SECOND: Duration = Duration::from_secs(1);
    const ROUTES: [RouteId; 3] = [route(0, 0), route(0, 1), route(1, 0)];

    const fn route(endpoint: usize, credential: usize) -> RouteId {
        RouteId { endpoint, credential }
    }

    /// Two endpoints: one with two credentials, one with one.
    fn history() -> AttemptHistory {
        let retry = RetryPolicy { max_retries: 2, ..Default::default() };
        AttemptHistory::new([2, 1], &retry, Instant::now())
    }

    #[test]
    fn the_fault_of_an_endpoint_is_that_of_all_its_credentials() {
        let mut history = history();
        history.ask(ROUTES[0]);
        history.failed(ROUTES[0], &ModelError::new(Class::Overloaded, "x"), Some(SECOND));
        let waits = ROUTES.map(|route| history.wait(route));
        assert_eq!(waits, [Some(SECOND), Some(SECOND), Some(Duration::ZERO)]);
        history.failed(ROUTES[1], &ModelError::new(Class::Auth, "x"), None);
        let waits = ROUTES.map(|route| history.wait(route));
        assert_eq!(waits, [Some(SECOND), None, Some(Duration::ZERO)]);
    }

    #[test]
    fn only_repetitions_count_as_retries() {
        let mut history = history();
        ROUTES.into_iter().for_each(|route| history.ask(route));
        assert_eq!(history.retries(), 0);
        history.ask(ROUTES[0]);
        history.ask(ROUTES[1]);
        assert_eq!((history.retries(), history.wait(ROUTES[0])), (2, None));
        let mut fresh = self::history();
        (0..3).for_each(|_| fresh.ask(ROUTES[0]));
        let waits = (fresh.wait(ROUTES[0]), fresh.wait(ROUTES[1]));
        assert_eq!(waits, (None, Some(Duration::ZERO)), "one is fresh");
    }
}
