//! Chooses the endpoint of the next attempt. Pure.

use std::time::Duration;

use super::RouteId;
use crate::ModelErrorClass;

/// Whether and when an endpoint can serve a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    /// The endpoint is available with this credential.
    Ready {
        /// Position of the credential.
        credential: usize,
    },
    /// The endpoint is available later.
    After {
        /// Time until the endpoint is available.
        wait: Duration,
        /// Credential whose rate limit has a queue that the call can join. `None` if the endpoint is unavailable for
        /// another reason than its rate limit.
        queue: Option<usize>,
        /// Reason for the wait.
        reason: UnavailableReason,
    },
    /// The endpoint is not available in this call.
    Unavailable(UnavailableReason),
}

/// Reason why an endpoint is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnavailableReason {
    /// The circuit breaker is open after repeated failures.
    CircuitOpen,
    /// All credentials are in a cooldown. The credential that becomes available first is in a cooldown after a
    /// failure of this class.
    Cooldown(ModelErrorClass),
    /// The rate limit is used up for now.
    RateLimited,
    /// The request exceeds the rate limit.
    TooLarge,
    /// The endpoint failed in this call and waits for a retry.
    Retrying,
    /// The endpoint failed in this call and is not retried.
    Failed,
}

impl UnavailableReason {
    /// Returns the description of the reason, which follows the name of the endpoint in an error message.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::CircuitOpen => "failed repeatedly and is paused",
            Self::Cooldown(_) => "has no usable credential",
            Self::RateLimited => "has reached its rate limits",
            Self::TooLarge => "has rate limits below the size of this request",
            Self::Retrying => "failed and waits for a retry",
            Self::Failed => "failed",
        }
    }

    /// Returns the error class for a call that fails because of this reason.
    pub(crate) const fn class(self) -> ModelErrorClass {
        match self {
            Self::Cooldown(class) => class,
            Self::RateLimited | Self::TooLarge => ModelErrorClass::RateLimited,
            Self::CircuitOpen | Self::Retrying | Self::Failed => ModelErrorClass::Overloaded,
        }
    }
}

/// Next step of a call: send, wait or fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteDecision {
    /// Send the request with this credential.
    Send(RouteId),
    /// Wait, then decide again.
    Wait {
        /// Time to wait.
        wait: Duration,
        /// Credential whose rate limit has a queue that the call can join. `None` if the call can only sleep.
        queue: Option<RouteId>,
    },
    /// No endpoint is available in time.
    Fail {
        /// Time until the first endpoint is available. `None` if no endpoint becomes available.
        soonest: Option<Duration>,
    },
}

/// Returns the first ready endpoint. If none is ready, returns the shortest wait, or a failure if the wait exceeds
/// `max_wait` or no endpoint becomes available.
pub(crate) fn choose(endpoints: &[Availability], max_wait: Duration) -> RouteDecision {
    let mut soonest: Option<Duration> = None;
    let mut queue = None;
    for (endpoint, availability) in endpoints.iter().enumerate() {
        let route = |credential| RouteId { endpoint, credential };
        match *availability {
            Availability::Ready { credential } => return RouteDecision::Send(route(credential)),
            Availability::After { wait, queue: credential, .. } => {
                if soonest.is_none_or(|best| wait < best) {
                    (soonest, queue) = (Some(wait), credential.map(route));
                }
            }
            Availability::Unavailable(_) => {}
        }
    }
    match soonest {
        Some(wait) if wait <= max_wait => RouteDecision::Wait { wait, queue },
        soonest => RouteDecision::Fail { soonest },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn route(endpoint: usize, credential: usize) -> RouteId {
        RouteId { endpoint, credential }
    }

    const fn after(seconds: u64) -> Availability {
        let (wait, reason) = (Duration::from_secs(seconds), UnavailableReason::RateLimited);
        Availability::After { wait, queue: Some(0), reason }
    }

    #[test]
    fn the_table_of_choices() {
        let ready = |credential| Availability::Ready { credential };
        let send = |endpoint, credential| RouteDecision::Send(route(endpoint, credential));
        let never = Availability::Unavailable(UnavailableReason::Failed);
        let wait = |endpoint, seconds| RouteDecision::Wait {
            wait: Duration::from_secs(seconds),
            queue: Some(route(endpoint, 0)),
        };
        for (endpoints, decision) in [
            (vec![ready(0), ready(0)], send(0, 0)),
            (vec![after(1), ready(2)], send(1, 2)),
            (vec![never, ready(0)], send(1, 0)),
            (vec![after(3), after(2), after(2)], wait(1, 2)),
            (vec![never, after(10)], wait(1, 10)),
            (vec![after(11)], RouteDecision::Fail { soonest: Some(Duration::from_secs(11)) }),
            (vec![never, never], RouteDecision::Fail { soonest: None }),
            (vec![], RouteDecision::Fail { soonest: None }),
        ] {
            assert_eq!(choose(&endpoints, Duration::from_secs(10)), decision, "{endpoints:?}");
        }
    }
}
