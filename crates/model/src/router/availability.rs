//! Which endpoint is asked next: a pure decision.

use std::time::Duration;

use super::RouteId;
use crate::ModelErrorClass;

/// Whether an endpoint can be asked at this moment, for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    /// It can be asked with this credential.
    Ready {
        /// Which credential.
        credential: usize,
    },
    /// It can be asked later.
    After {
        /// After so long.
        wait: Duration,
        /// The credential to queue for, if all that is missing is room within its limits.
        queue: Option<usize>,
        /// What is missing.
        reason: UnavailableReason,
    },
    /// It cannot be asked in this call.
    Unavailable(UnavailableReason),
}

/// UnavailableReason an endpoint is not asked now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnavailableReason {
    /// It kept failing.
    Open,
    /// Its credentials rest, the last one after such a failure.
    Cooling(ModelErrorClass),
    /// Its limits are used up for now.
    Busy,
    /// The request alone is beyond its limits.
    TooLarge,
    /// It failed in this call and is tried again later.
    Retrying,
    /// It failed in this call for good.
    Failed,
}

impl UnavailableReason {
    /// For a sentence that begins with the name of the endpoint.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Open => "kept failing and is left alone",
            Self::Cooling(_) => "has no credential that may be used",
            Self::Busy => "has used up its limits",
            Self::TooLarge => "has limits that are too small for this request",
            Self::Retrying => "failed and waits",
            Self::Failed => "failed",
        }
    }

    /// The class of the failure if nobody else can be asked.
    pub(crate) const fn class(self) -> ModelErrorClass {
        match self {
            Self::Cooling(class) => class,
            Self::Busy | Self::TooLarge => ModelErrorClass::RateLimited,
            Self::Open | Self::Retrying | Self::Failed => ModelErrorClass::Overloaded,
        }
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteDecision {
    /// Ask this endpoint with this credential.
    Send(RouteId),
    /// Wait, then look again.
    Wait {
        /// How long.
        wait: Duration,
        /// The credential to queue for, if only its limits are used up.
        queue: Option<RouteId>,
    },
    /// No endpoint can be asked in time.
    Fail {
        /// When an endpoint could be asked, if ever.
        soonest: Option<Duration>,
    },
}

/// The first endpoint that is ready; else the one that is ready soonest, if that is soon enough.
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
        let (wait, reason) = (Duration::from_secs(seconds), UnavailableReason::Busy);
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
