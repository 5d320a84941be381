//! Attempts of one call, with their credentials and results. Pure.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::RouteId;
use super::failure::{FailureScope, failure_scope};
use crate::{ModelError, RetryPolicy};

/// Largest number of failed attempts that are recorded. Further ones are only counted.
const RECORDED_MAX: usize = 16;

/// Tried credentials, retries and failures of one call.
#[derive(Debug)]
pub(super) struct AttemptHistory {
    /// Reference time of all waits.
    pub(super) now: Instant,
    /// State of each credential of each endpoint.
    endpoints: Vec<Vec<CredentialState>>,
    /// Number of attempts with a credential that was already tried.
    retries: u32,
    retries_max: u32,
    failures: u32,
    recorded: Vec<FailedAttempt>,
}

/// State of a credential in one call.
#[derive(Debug, Clone, Copy, Default)]
struct CredentialState {
    was_tried: bool,
    is_excluded: bool,
    not_before: Option<Instant>,
}

/// Endpoint and error class of a failed attempt.
#[derive(Debug)]
struct FailedAttempt {
    /// Name of the endpoint, with the label of the credential if there are several.
    route: String,
    error_class: &'static str,
}

impl AttemptHistory {
    /// Creates an empty history. `credentials` is the number of credentials of each endpoint.
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

    /// Returns the time until a credential may be used. `None` if it is excluded from this call.
    pub(super) fn wait(&self, route: RouteId) -> Option<Duration> {
        let state = self.endpoints.get(route.endpoint)?.get(route.credential)?;
        if state.is_excluded || (state.was_tried && self.retries >= self.retries_max) {
            return None;
        }
        let not_before = state.not_before.unwrap_or(self.now);
        Some(not_before.saturating_duration_since(self.now))
    }

    /// Marks the credential as tried. Counts a retry if it was tried before.
    pub(super) fn start(&mut self, route: RouteId) {
        let states = self.endpoints.get_mut(route.endpoint);
        if let Some(state) = states.and_then(|states| states.get_mut(route.credential)) {
            self.retries += u32::from(state.was_tried);
            state.was_tried = true;
        }
    }

    /// Returns the number of retries: attempts with a credential that was already tried.
    pub(super) fn retries(&self) -> u32 {
        self.retries
    }

    /// Returns the number of failed attempts.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Counts a failed attempt. `retry_wait` is the delay before the next attempt with the same credential; `None`
    /// excludes the credential from this call. If the failure affects the endpoint or its model, this applies to all
    /// its credentials.
    pub(super) fn record_failure(
        &mut self,
        route: RouteId,
        error: &ModelError,
        retry_wait: Option<Duration>,
    ) {
        self.failures = self.failures.saturating_add(1);
        let Some(states) = self.endpoints.get_mut(route.endpoint) else { return };
        // A failure of the endpoint affects all its credentials.
        let is_shared =
            matches!(failure_scope(error), FailureScope::Endpoint | FailureScope::Model);
        for (credential, state) in states.iter_mut().enumerate() {
            if !is_shared && credential != route.credential {
                continue;
            }
            match retry_wait {
                Some(wait) => state.not_before = Some(self.now + wait),
                None => state.is_excluded = true,
            }
        }
    }

    /// Excludes an endpoint for the rest of the call.
    pub(super) fn exclude(&mut self, endpoint: usize) {
        for state in self.endpoints.get_mut(endpoint).into_iter().flatten() {
            state.is_excluded = true;
        }
    }

    /// Records a failed attempt for error messages and for the metadata of the response. Drops the record if there are
    /// already [`RECORDED_MAX`].
    pub(super) fn record(&mut self, route: String, error_class: &'static str) {
        if self.recorded.len() < RECORDED_MAX {
            self.recorded.push(FailedAttempt { route, error_class });
        }
    }

    /// Returns the recorded failures as text, such as `openai/default: overloaded, azure/default: auth`.
    pub(super) fn summary(&self) -> String {
        let each = self
            .recorded
            .iter()
            .map(|FailedAttempt { route, error_class }| format!("{route}: {error_class}"));
        each.collect::<Vec<_>>().join(", ")
    }

    /// Returns the recorded failures as JSON.
    pub(super) fn to_json(&self) -> Value {
        let each = self.recorded.iter();
        each.map(
            |FailedAttempt { route, error_class }| json!({ "asked": route, "failed": error_class }),
        )
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
        history.start(ROUTES[0]);
        history.record_failure(ROUTES[0], &ModelError::new(Class::Overloaded, "x"), Some(SECOND));
        let waits = ROUTES.map(|route| history.wait(route));
        assert_eq!(waits, [Some(SECOND), Some(SECOND), Some(Duration::ZERO)]);
        history.record_failure(ROUTES[1], &ModelError::new(Class::Auth, "x"), None);
        let waits = ROUTES.map(|route| history.wait(route));
        assert_eq!(waits, [Some(SECOND), None, Some(Duration::ZERO)]);
    }

    #[test]
    fn only_repetitions_count_as_retries() {
        let mut history = history();
        ROUTES.into_iter().for_each(|route| history.start(route));
        assert_eq!(history.retries(), 0);
        history.start(ROUTES[0]);
        history.start(ROUTES[1]);
        assert_eq!((history.retries(), history.wait(ROUTES[0])), (2, None));
        let mut fresh = self::history();
        (0..3).for_each(|_| fresh.start(ROUTES[0]));
        let waits = (fresh.wait(ROUTES[0]), fresh.wait(ROUTES[1]));
        assert_eq!(waits, (None, Some(Duration::ZERO)), "one is fresh");
    }
}
