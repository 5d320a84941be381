//! What a failure means for a route: a pure table.

use std::time::Duration;

use crate::{ModelError, ModelErrorClass};

/// How long a credential rests whose failure only a person can mend.
const BROKEN_COOL: Duration = Duration::from_secs(300);
/// How long a credential rests at least that was told to slow down.
const RATE_COOL: Duration = Duration::from_secs(1);

/// Whose fault a failure is: the rest of it is still good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureScope {
    /// The credential's: the endpoint's other ones are still good.
    Credential {
        /// How long nobody uses it.
        cooldown: Duration,
    },
    /// The endpoint's: it counts for its breaker.
    Endpoint,
    /// The endpoint does not have what is asked for; it works all the same.
    Model,
    /// The request is too long for this model: only one with a longer context helps.
    ContextLength,
    /// The request's own: it would fail everywhere.
    Request,
}

/// Whose fault it is.
pub(crate) fn failure_scope(error: &ModelError) -> FailureScope {
    use ModelErrorClass as Class;
    match error.class {
        Class::Auth | Class::QuotaExceeded => FailureScope::Credential { cooldown: BROKEN_COOL },
        Class::RateLimited => FailureScope::Credential {
            cooldown: error.retry_after.unwrap_or_default().max(RATE_COOL),
        },
        Class::Overloaded
        | Class::Transport
        | Class::Timeout
        | Class::Malformed
        | Class::Incomplete => FailureScope::Endpoint,
        Class::UnknownModel => FailureScope::Model,
        Class::ContextLength => FailureScope::ContextLength,
        Class::ContentFilter | Class::InvalidRequest => FailureScope::Request,
    }
}

/// True if the provider refused before it did anything, so that nothing was used and nothing is owed.
///
/// A connection that broke before the first word counts too, as it does in the engine's ledger; one that broke later, a timeout and
/// what cannot be read may have cost everything.
pub(crate) fn was_not_billed(error: &ModelError, anything_came: bool) -> bool {
    use ModelErrorClass as Class;
    match error.class {
        Class::Auth
        | Class::RateLimited
        | Class::QuotaExceeded
        | Class::ContextLength
        | Class::UnknownModel
        | Class::InvalidRequest => true,
        Class::Overloaded | Class::Transport | Class::ContentFilter => !anything_came,
        Class::Timeout | Class::Malformed | Class::Incomplete => false,
    }
}

/// The failures after which another endpoint is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackRules {
    /// Those that go against what the table says.
    changed: Vec<(ModelErrorClass, bool)>,
}

impl Default for FallbackRules {
    /// Another endpoint is asked for everything that is not the fault of the request itself.
    fn default() -> Self {
        Self { changed: Vec::new() }
    }
}

impl FallbackRules {
    /// Changes what happens after one class of failure.
    #[must_use]
    pub fn with(mut self, class: ModelErrorClass, falls_back: bool) -> Self {
        self.changed.retain(|(known, _)| *known != class);
        self.changed.push((class, falls_back));
        self
    }

    /// True if another endpoint is asked after such a failure.
    pub fn falls_back(&self, error: &ModelError) -> bool {
        let changed = self.changed.iter().find(|(class, _)| *class == error.class);
        changed.map_or_else(
            || failure_scope(error) != FailureScope::Request,
            |(_, falls_back)| *falls_back,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ModelErrorClass as Class;

    #[test]
    fn the_table_of_failures() {
        let broken = FailureScope::Credential { cooldown: BROKEN_COOL };
        let slow = FailureScope::Credential { cooldown: RATE_COOL };
        for (class, is, falls_back, refused, refused_later) in [
            (Class::Auth, broken, true, true, true),
            (Class::RateLimited, slow, true, true, true),
            (Class::QuotaExceeded, broken, true, true, true),
            (Class::Overloaded, FailureScope::Endpoint, true, true, false),
            (Class::ContextLength, FailureScope::ContextLength, true, true, true),
            (Class::ContentFilter, FailureScope::Request, false, true, false),
            (Class::UnknownModel, FailureScope::Model, true, true, true),
            (Class::InvalidRequest, FailureScope::Request, false, true, true),
            (Class::Transport, FailureScope::Endpoint, true, true, false),
            (Class::Timeout, FailureScope::Endpoint, true, false, false),
            (Class::Malformed, FailureScope::Endpoint, true, false, false),
            (Class::Incomplete, FailureScope::Endpoint, true, false, false),
        ] {
            let error = ModelError::new(class, "x");
            assert_eq!(failure_scope(&error), is, "{class:?}");
            assert_eq!(FallbackRules::default().falls_back(&error), falls_back, "{class:?}");
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
        let rules = FallbackRules::default()
            .with(Class::ContentFilter, true)
            .with(Class::Auth, true)
            .with(Class::Auth, false);
        assert!(rules.falls_back(&ModelError::new(Class::ContentFilter, "x")));
        assert!(!rules.falls_back(&ModelError::new(Class::Auth, "x")));
        assert!(rules.falls_back(&ModelError::new(Class::Overloaded, "x")));
    }
}
