//! Which endpoint is asked next: a pure decision.

use std::time::Duration;

use crate::ModelErrorClass;

/// How an endpoint stands at this moment, for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It can be asked with this credential.
    Ready {
        /// Which credential.
        lane: usize,
    },
    /// It can be asked later.
    Later {
        /// After so long.
        wait: Duration,
        /// The credential to queue for, if all that is missing is room within its limits.
        queue: Option<usize>,
        /// What is missing.
        why: Why,
    },
    /// It cannot be asked in this call.
    Never(Why),
}

/// Why an endpoint is not asked now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
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

impl Why {
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
pub(crate) enum Choice {
    /// Ask this endpoint with this credential.
    Go {
        /// Which endpoint.
        endpoint: usize,
        /// Which credential.
        lane: usize,
    },
    /// Wait, then look again.
    Wait {
        /// For whom.
        endpoint: usize,
        /// So long.
        wait: Duration,
        /// The credential to queue for.
        queue: Option<usize>,
    },
    /// Nobody can be asked in time.
    Refuse {
        /// When somebody could be asked, if ever.
        soonest: Option<Duration>,
    },
}

/// The first endpoint that is ready; else the one that is ready soonest, if that is soon enough.
pub(crate) fn choose(standings: &[Standing], patience: Duration) -> Choice {
    let mut soonest: Option<(usize, Duration, Option<usize>)> = None;
    for (endpoint, standing) in standings.iter().enumerate() {
        match *standing {
            Standing::Ready { lane } => return Choice::Go { endpoint, lane },
            Standing::Later { wait, queue, .. } => {
                if soonest.is_none_or(|(_, best, _)| wait < best) {
                    soonest = Some((endpoint, wait, queue));
                }
            }
            Standing::Never(_) => {}
        }
    }
    match soonest {
        Some((endpoint, wait, queue)) if wait <= patience => Choice::Wait { endpoint, wait, queue },
        Some((_, wait, _)) => Choice::Refuse { soonest: Some(wait) },
        None => Choice::Refuse { soonest: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn later(seconds: u64) -> Standing {
        let wait = Duration::from_secs(seconds);
        Standing::Later { wait, queue: None, why: Why::Cooling(ModelErrorClass::Auth) }
    }

    #[test]
    fn the_table_of_choices() {
        let ready = |lane| Standing::Ready { lane };
        let never = Standing::Never(Why::Failed);
        let wait = |endpoint, seconds| Choice::Wait {
            endpoint,
            wait: Duration::from_secs(seconds),
            queue: None,
        };
        for (standings, choice) in [
            (vec![ready(0), ready(0)], Choice::Go { endpoint: 0, lane: 0 }),
            (vec![later(1), ready(2)], Choice::Go { endpoint: 1, lane: 2 }),
            (vec![never, ready(0)], Choice::Go { endpoint: 1, lane: 0 }),
            (vec![later(3), later(2), later(2)], wait(1, 2)),
            (vec![never, later(10)], wait(1, 10)),
            (vec![later(11)], Choice::Refuse { soonest: Some(Duration::from_secs(11)) }),
            (vec![never, never], Choice::Refuse { soonest: None }),
            (vec![], Choice::Refuse { soonest: None }),
        ] {
            assert_eq!(choose(&standings, Duration::from_secs(10)), choice, "{standings:?}");
        }
    }
}
