//! Maps failures to their scope and their consequences. Pure.

use std::time::Duration;

use crate::{ModelError, ModelErrorClass};

/// Cooldown of a credential after a failure that only an operator can fix.
const REJECTED_COOLDOWN: Duration = Duration::from_secs(300);
/// Shortest cooldown of a credential after a rate limit.
const RATE_LIMIT_COOLDOWN_MIN: Duration = Duration::from_secs(1);

/// Part of a route that a failure affects: the endpoint, a credential, the model or the request. The other parts stay
/// usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureScope {
    /// The failure affects the credential. The other credentials of the endpoint stay usable.
    Credential {
        /// Cooldown of the credential.
        cooldown: Duration,
    },
    /// The failure affects the endpoint and counts for its circuit breaker.
    Endpoint,
    /// The endpoint works, but does not have the model.
    Model,
    /// The request exceeds the context window. Only a model with a longer one can accept it.
    ContextLength,
    /// The request is invalid. It would fail at every endpoint.
    Request,
}

/// Returns the part of the route that a failure affects, by the class of the error.
pub(crate) fn failure_scope(error: &ModelError) -> FailureScope {
    use ModelErrorClass as Class;
    match error.class {
        Class::Auth | Class::QuotaExceeded => {
            FailureScope::Credential { cooldown: REJECTED_COOLDOWN }
        }
        Class::RateLimited => FailureScope::Credential {
            cooldown: error.retry_after.unwrap_or_default().max(RATE_LIMIT_COOLDOWN_MIN),
        },
        Class::Overloaded
        | Class::Transport
        | Class::Timeout
        | Class::Malformed
        | Class::StreamTruncated => FailureScope::Endpoint,
        Class::ModelNotFound => FailureScope::Model,
        Class::ContextLength => FailureScope::ContextLength,
        Class::ContentFilter | Class::InvalidRequest => FailureScope::Request,
    }
}

/// Returns true if the provider rejected the request before any work, so that no usage is billed.
///
/// A connection that broke before the first event counts as not billed, as in the engine's ledger. A connection that
/// broke later, a timeout or a malformed response may have been billed.
pub(crate) fn was_not_billed(error: &ModelError, received_any: bool) -> bool {
    use ModelErrorClass as Class;
    match error.class {
        Class::Auth
        | Class::RateLimited
        | Class::QuotaExceeded
        | Class::ContextLength
        | Class::ModelNotFound
        | Class::InvalidRequest => true,
        Class::Overloaded | Class::Transport | Class::ContentFilter => !received_any,
        Class::Timeout | Class::Malformed | Class::StreamTruncated => false,
    }
}

/// Classes of failure after which the next endpoint is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackPolicy {
    /// Classes whose behaviour differs from the default.
    overrides: Vec<(ModelErrorClass, bool)>,
}

impl Default for FallbackPolicy {
    /// Returns the default policy: another endpoint is tried after every failure except an invalid request and a
    /// content filter.
    fn default() -> Self {
        Self { overrides: Vec::new() }
    }
}

impl FallbackPolicy {
    /// Sets whether the next endpoint is tried after failures of this class.
    #[must_use]
    pub fn with(mut self, class: ModelErrorClass, should_fall_back: bool) -> Self {
        self.overrides.retain(|(other, _)| *other != class);
        self.overrides.push((class, should_fall_back));
        self
    }

    /// Returns true if the next endpoint is tried after this failure.
    pub fn should_fall_back(&self, error: &ModelError) -> bool {
        let overrides = self.overrides.iter().find(|(class, _)| *class == error.class);
        overrides.map_or_else(
            || failure_scope(error) != FailureScope::Request,
            |(_, should_fall_back)| *should_fall_back,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ModelErrorClass as Class;

    #[test]
    fn the_table_of_failures() {
        let broken = FailureScope::Credential { cooldown: REJECTED_COOLDOWN };
        let slow = FailureScope::Credential { cooldown: RATE_LIMIT_COOLDOWN_MIN };
        for (class, is, should_fall_back, refused, refused_later) in [
            (Class::Auth, broken, true, true, true),
            (Class::RateLimited, slow, true, true, true),
            (Class::QuotaExceeded, broken, true, true, true),
            (Class::Overloaded, FailureScope::Endpoint, true, true, false),
            (Class::ContextLength, FailureScope::ContextLength, true, true, true),
            (Class::ContentFilter, FailureScope::Request, false, true, false),
            (Class::ModelNotFound, FailureScope::Model, true, true, true),
            (Class::InvalidRequest, FailureScope::Request, false, true, true),
            (Class::Transport, FailureScope::Endpoint, true, true, false),
            (Class::Timeout, FailureScope::Endpoint, true, false, false),
            (Class::Malformed, FailureScope::Endpoint, true, false, false),
            (Class::StreamTruncated, FailureScope::Endpoint, true, false, false),
        ] {
            let error = ModelError::new(class, "x");
            assert_eq!(failure_scope(&error), is, "{class:?}");
            assert_eq!(
                FallbackPolicy::default().should_fall_back(&error),
                should_fall_back,
                "{class:?}"
            );
            assert_eq!(was_not_billed(&error, false), refused, "{class:?}");
            assert_eq!(was_not_billed(&error, true), refused_later, "{class:?}");
        }
    }

    #[test]
    fn what_the_provider_asks_for_is_how_long_a_credential_rests() {
        let mut error = ModelError::new(Class::RateLimited, "x");
        error.retry_after = Some(Duration::from_secs(40));
        assert_eq!(
            failure_scope(&error),
            FailureScope::Credential { cooldown: Duration::from_secs(40) }
        );
    }

    #[test]
    fn rules_can_be_changed() {
        let rules = FallbackPolicy::default()
            .with(Class::ContentFilter, true)
            .with(Class::Auth, true)
            .with(Class::Auth, false);
        assert!(rules.should_fall_back(&ModelError::new(Class::ContentFilter, "x")));
        assert!(!rules.should_fall_back(&ModelError::new(Class::Auth, "x")));
        assert!(rules.should_fall_back(&ModelError::new(Class::Overloaded, "x")));
    }
}
