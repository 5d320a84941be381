//! Budgets: reservations of money before model calls, and an in-memory ledger.
//!
//! The engine implements the same interface on the database. Both ledgers guarantee that spent and reserved money never
//! exceed a cap because of a reservation, and that a call with unknown cost counts with its reserved amount.

use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use provost_core::{Currency, Money};

use crate::{ModelError, ModelErrorClass};

/// Model and largest possible cost of a call, for a reservation.
#[derive(Debug, Clone, PartialEq)]
pub struct ReservationRequest {
    /// Name of the provider.
    pub provider: String,
    /// Id of the model.
    pub model: String,
    /// Largest possible cost of the call. `None` if the price or the output limit is unknown.
    pub cost_max: Option<Money>,
}

/// Error of a reservation: the budget is too small, or the cost is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// The remaining budget is too small.
    #[error(
        "the budget of {scope} is exhausted: the call may cost {needed} millionths and {left} are left; raise the budget"
    )]
    Exhausted {
        /// Scope of the budget.
        scope: String,
        /// Largest possible cost of the call, in millionths.
        needed: i64,
        /// Remaining budget, in millionths.
        left: i64,
    },
    /// The largest possible cost of the call is unknown, so the cap cannot be enforced.
    #[error(
        "{scope} has a budget, but the price of {model} in its currency or its output limit is unknown: set both or remove the budget"
    )]
    UnknownCost {
        /// Scope of the budget.
        scope: String,
        /// Id of the model.
        model: String,
    },
    /// The ledger cannot be read.
    #[error("the budget cannot be read ({0}), so the call is not sent")]
    Unavailable(String),
}

impl From<BudgetError> for ModelError {
    fn from(refusal: BudgetError) -> Self {
        let class = match &refusal {
            BudgetError::Exhausted { .. } => ModelErrorClass::QuotaExceeded,
            BudgetError::UnknownCost { .. } => ModelErrorClass::InvalidRequest,
            BudgetError::Unavailable(_) => ModelErrorClass::Overloaded,
        };
        ModelError::new(class, refusal.to_string())
    }
}

/// Money that a ledger has reserved for one call. Dropping it without [`settle`](Self::settle) counts the whole amount
/// as spent.
pub trait BudgetReservation: Send + 'static {
    /// Replaces the reserved amount by the spent amount, in millionths of the currency. Must not block.
    fn settle(self: Box<Self>, spent_micros: i64);
}

/// Future that returns the reservation or an error.
pub type ReserveFuture<'a> = BoxFuture<'a, Result<Box<dyn BudgetReservation>, BudgetError>>;

/// Keeps the reserved and the spent money of budgets.
pub trait BudgetLedger: Send + Sync + 'static {
    /// Reserves the largest possible cost of a call in every budget that applies to it. If one budget is too small,
    /// nothing is reserved.
    fn reserve<'a>(&'a self, request: &'a ReservationRequest) -> ReserveFuture<'a>;

    /// Returns false if there is no cap. Callers then need not estimate costs.
    fn is_bounded(&self) -> bool {
        true
    }
}

/// A ledger without caps. It reserves any amount.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBudget;

impl BudgetLedger for NoBudget {
    fn reserve<'a>(&'a self, _request: &'a ReservationRequest) -> ReserveFuture<'a> {
        let reservation: Box<dyn BudgetReservation> = Box::new(Self);
        Box::pin(std::future::ready(Ok(reservation)))
    }

    fn is_bounded(&self) -> bool {
        false
    }
}

impl BudgetReservation for NoBudget {
    fn settle(self: Box<Self>, _spent_micros: i64) {}
}

/// Status of a budget, in millionths of its currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetStatus {
    /// Scope of the budget.
    pub scope: String,
    /// Largest amount that may be spent.
    pub cap_micros: i64,
    /// Spent amount.
    pub spent_micros: i64,
    /// Amount reserved for calls in progress.
    pub reserved_micros: i64,
    /// Currency of the budget.
    pub currency: Currency,
}

/// Ledger in memory. Its spending is lost when the process ends, and clones share its state.
#[derive(Debug, Clone, Default)]
pub struct InMemoryLedger {
    caps: Arc<Mutex<Vec<BudgetStatus>>>,
}

impl InMemoryLedger {
    /// Creates a ledger with one cap.
    pub fn new(scope: impl Into<String>, cap: Money) -> Self {
        Self::default().with_cap(scope, cap)
    }

    /// Adds or changes a cap. Earlier spending stays counted. Every call is charged to all caps of the ledger.
    #[must_use]
    pub fn with_cap(self, scope: impl Into<String>, cap: Money) -> Self {
        self.set_cap(scope, cap);
        self
    }

    /// Adds or changes a cap. It can be called while calls are in progress.
    pub fn set_cap(&self, scope: impl Into<String>, cap: Money) {
        let scope = scope.into();
        let mut caps = self.caps.lock();
        if let Some(cap_status) = caps.iter_mut().find(|other| other.scope == scope) {
            (cap_status.cap_micros, cap_status.currency) = (cap.micros(), cap.currency);
            return;
        }
        let (spent_micros, reserved_micros) = (0, 0);
        let (cap_micros, currency) = (cap.micros(), cap.currency);
        caps.push(BudgetStatus { scope, cap_micros, spent_micros, reserved_micros, currency });
    }

    /// Returns the status of all caps.
    pub fn caps(&self) -> Vec<BudgetStatus> {
        self.caps.lock().clone()
    }

    /// Reserves the cost in all caps. Returns an error and reserves nothing if a cap is too small, or the cost is
    /// unknown or in another currency than a cap.
    fn try_reserve(
        &self,
        request: &ReservationRequest,
    ) -> Result<Box<dyn BudgetReservation>, BudgetError> {
        let mut caps = self.caps.lock();
        let micros = request.cost_max.map(Money::micros);
        for cap in caps.iter() {
            let priced = request.cost_max.is_some_and(|cost| cost.currency == cap.currency);
            let Some(needed) = micros.filter(|_| priced) else {
                let (scope, model) = (cap.scope.clone(), request.model.clone());
                return Err(BudgetError::UnknownCost { scope, model });
            };
            let left = cap.cap_micros - cap.spent_micros - cap.reserved_micros;
            if needed > left {
                return Err(BudgetError::Exhausted { scope: cap.scope.clone(), needed, left });
            }
        }
        let micros = micros.unwrap_or(0);
        for cap in caps.iter_mut() {
            cap.reserved_micros += micros;
        }
        let cap_count = caps.len();
        Ok(Box::new(InMemoryReservation { ledger: self.clone(), cap_count, micros, spent: None }))
    }
}

impl BudgetLedger for InMemoryLedger {
    fn reserve<'a>(&'a self, request: &'a ReservationRequest) -> ReserveFuture<'a> {
        Box::pin(std::future::ready(self.try_reserve(request)))
    }

    fn is_bounded(&self) -> bool {
        !self.caps.lock().is_empty()
    }
}

/// Reservation in the first `cap_count` caps of a ledger.
struct InMemoryReservation {
    ledger: InMemoryLedger,
    /// Number of caps at the time of the reservation. Later caps have no reserved amount.
    cap_count: usize,
    micros: i64,
    spent: Option<i64>,
}

impl BudgetReservation for InMemoryReservation {
    fn settle(mut self: Box<Self>, spent_micros: i64) {
        self.spent = Some(spent_micros);
    }
}

impl Drop for InMemoryReservation {
    fn drop(&mut self) {
        let spent = self.spent.unwrap_or(self.micros);
        for cap in self.ledger.caps.lock().iter_mut().take(self.cap_count) {
            cap.reserved_micros = (cap.reserved_micros - self.micros).max(0);
            cap.spent_micros = cap.spent_micros.saturating_add(spent);
        }
    }
}

#[cfg(test)]
mod tests;
