//! The usage of a run and its descendants while they are running.
//!
//! The state machine counts the usage of finished work. This budget also counts work in progress, so that parallel
//! children cannot together exceed a limit of an ancestor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use provost_core::{LimitReached, Limits, Money, Usage};

use crate::run::UsageTotals;

/// The usage budget of one run and its descendants.
#[derive(Debug)]
pub(crate) struct UsageBudget {
    parent: Option<Arc<UsageBudget>>,
    limits: Limits,
    /// Token cap of a policy for the whole budget. Extending the limits does not raise it.
    token_cap: AtomicU64,
    used: Mutex<Used>,
}

/// Usage so far, and the usage at the last extension of the limits.
#[derive(Debug, Default)]
struct Used {
    all: UsageTotals,
    /// Usage before the limits were last extended. It does not count against the limits.
    before: UsageTotals,
}

/// Value of the token cap without a policy.
const UNBOUND: u64 = u64::MAX;

impl UsageBudget {
    pub(crate) fn new(limits: Limits, above: Option<Arc<Self>>) -> Self {
        Self { parent: above, limits, token_cap: AtomicU64::new(UNBOUND), used: Mutex::default() }
    }

    /// Adds one model call to this budget and the budgets of all ancestors.
    pub(crate) fn add(&self, usage: Usage, cost: Option<Money>) {
        self.add_all(&UsageTotals::from_call(usage, cost));
    }

    /// Restores the usage of a resumed run in this budget and the budgets of all ancestors.
    pub(crate) fn restore(&self, all: &UsageTotals, before: UsageTotals) {
        self.add_all(all);
        self.lock().before = before;
    }

    /// Grants the full limits again: the usage so far no longer counts towards them.
    pub(crate) fn extend(&self) {
        let mut used = self.lock();
        used.before = used.all.clone();
    }

    /// Lowers the token cap to `tokens`. A higher value has no effect.
    pub(crate) fn cap_tokens(&self, tokens: u64) {
        self.token_cap.fetch_min(tokens, Ordering::AcqRel);
    }

    /// Returns the token limit of the policy if it is used up. `None` if it is not, or the policy sets none.
    pub(crate) fn exceeded_token_cap(&self) -> Option<LimitReached> {
        let allowed = self.token_cap.load(Ordering::Acquire);
        if allowed == UNBOUND {
            return None;
        }
        self.lock().all.exceeded(&Limits::unlimited().total_tokens(allowed))
    }

    /// Adds usage to this budget and the budgets of all ancestors.
    fn add_all(&self, more: &UsageTotals) {
        let mut budget = Some(self);
        while let Some(this) = budget {
            this.lock().all.add(more);
            budget = this.parent.as_deref();
        }
    }

    /// Returns the first exceeded limit of an ancestor, the nearest first. `None` if all have usage left.
    pub(crate) fn exhausted_parent(&self) -> Option<LimitReached> {
        let mut budget = self.parent.as_deref();
        while let Some(this) = budget {
            if let Some(reached) = this.exceeded_token_cap().or_else(|| this.exceeded_limit()) {
                return Some(reached);
            }
            budget = this.parent.as_deref();
        }
        None
    }

    /// Returns the total usage.
    pub(crate) fn used(&self) -> UsageTotals {
        self.lock().all.clone()
    }

    /// Returns the first limit of this budget that is exceeded. `None` if none is.
    fn exceeded_limit(&self) -> Option<LimitReached> {
        let used = self.lock();
        let since = used.all.saturating_sub(&used.before);
        drop(used);
        let limit = self.limits.cost.map(|limit| limit.currency);
        // The run itself handles calls without a price, and the run that spent it handles money of another currency.
        let cost = since.cost.filter(|cost| Some(cost.currency) == limit);
        UsageTotals { cost, unpriced_calls: 0, usage_unknown: false, ..since }
            .exceeded(&self.limits)
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock()
    }
}
