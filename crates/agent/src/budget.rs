//! What a run and everything below it have used, while they run.
//!
//! The machine counts what has ended; this counts what is under way, so that children that work at the same time cannot
//! together use more than the run above them may.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use provost_core::{LimitReached, Limits, Money, Usage};

use crate::run::UsageTotals;

/// The use of one run and of those below it.
#[derive(Debug)]
pub(crate) struct Pot {
    above: Option<Arc<Pot>>,
    limits: Limits,
    /// Tokens that a policy gives all of it. Nobody extends that.
    bound: AtomicU64,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: UsageTotals,
    /// The part of it before the limits were extended: it no longer counts for them.
    before: UsageTotals,
}

/// The number of tokens without a policy.
const UNBOUND: u64 = u64::MAX;

impl Pot {
    pub(crate) fn new(limits: Limits, above: Option<Arc<Self>>) -> Self {
        Self { above, limits, bound: AtomicU64::new(UNBOUND), used: Mutex::default() }
    }

    /// Adds one model call, here and in all runs above.
    pub(crate) fn add(&self, usage: Usage, cost: Option<Money>) {
        self.add_all(&UsageTotals::of_call(usage, cost));
    }

    /// Goes on with a run that had used something before, here and in all runs above.
    pub(crate) fn go_on(&self, all: &UsageTotals, before: UsageTotals) {
        self.add_all(all);
        self.lock().before = before;
    }

    /// The limits start again: the same amount of everything once more.
    pub(crate) fn extend(&self) {
        let mut used = self.lock();
        used.before = used.all.clone();
    }

    /// A policy gives all of it so many tokens; of several the fewest count.
    pub(crate) fn bound(&self, tokens: u64) {
        self.bound.fetch_min(tokens, Ordering::AcqRel);
    }

    /// What a policy gives is used up.
    pub(crate) fn used_up(&self) -> Option<LimitReached> {
        let allowed = self.bound.load(Ordering::Acquire);
        if allowed == UNBOUND {
            return None;
        }
        self.lock().all.exceeded(&Limits::unlimited().total_tokens(allowed))
    }

    fn add_all(&self, more: &UsageTotals) {
        let mut pot = Some(self);
        while let Some(this) = pot {
            this.lock().all.add(more);
            pot = this.above.as_deref();
        }
    }

    /// The limit of a run above that is used up.
    pub(crate) fn spent_above(&self) -> Option<LimitReached> {
        let mut pot = self.above.as_deref();
        while let Some(this) = pot {
            if let Some(reached) = this.used_up().or_else(|| this.spent()) {
                return Some(reached);
            }
            pot = this.above.as_deref();
        }
        None
    }

    /// All of it.
    pub(crate) fn used(&self) -> UsageTotals {
        self.lock().all.clone()
    }

    fn spent(&self) -> Option<LimitReached> {
        let used = self.lock();
        let since = used.all.minus(&used.before);
        drop(used);
        let limit = self.limits.cost.map(|limit| limit.currency);
        // Calls without a price are judged by the run itself, and money of another currency by the run that spent it.
        let cost = since.cost.filter(|cost| Some(cost.currency) == limit);
        UsageTotals { cost, unpriced_calls: 0, usage_unknown: false, ..since }
            .exceeded(&self.limits)
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock()
    }
}
