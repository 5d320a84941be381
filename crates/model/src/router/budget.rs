//! Money that is set aside before a call: the one interface, and the ledger in memory.
//!
//! The engine has a ledger in the database behind the same interface. Both keep one promise: what was spent and what is set aside
//! together never exceed a cap by a reservation, and a call whose cost never becomes known counts with what was set aside for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use provost_core::{Currency, Money};

use crate::{ModelError, ModelErrorClass};

/// What is about to be asked and what it may cost.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetWish {
    /// Who serves the model.
    pub provider: String,
    /// Which model.
    pub model: String,
    /// The most it can cost; nothing, if its price or its longest answer is not known.
    pub cost_max: Option<Money>,
}

/// Why nothing was set aside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetRefusal {
    /// There is not enough left.
    #[error(
        "the budget of {scope} is used up: {needed} more millionths are needed and {left} are left; raise it to go on"
    )]
    UsedUp {
        /// Whose budget.
        scope: String,
        /// What the call may cost, in millionths.
        needed: i64,
        /// What is left, in millionths.
        left: i64,
    },
    /// A cap cannot be kept because nobody knows what the call costs.
    #[error(
        "{scope} has a budget and the price of {model} in its currency or its longest answer is not known: give both or drop the budget"
    )]
    Unpriced {
        /// Whose budget.
        scope: String,
        /// Which model.
        model: String,
    },
    /// The ledger cannot be asked.
    #[error("the budget cannot be read ({0}): nothing is spent without it")]
    Unreachable(String),
}

impl From<BudgetRefusal> for ModelError {
    fn from(refusal: BudgetRefusal) -> Self {
        let class = match &refusal {
            BudgetRefusal::UsedUp { .. } => ModelErrorClass::QuotaExceeded,
            BudgetRefusal::Unpriced { .. } => ModelErrorClass::InvalidRequest,
            BudgetRefusal::Unreachable(_) => ModelErrorClass::Overloaded,
        };
        ModelError::new(class, refusal.to_string())
    }
}

/// Money that is set aside. Dropping it without a word counts all of it as spent.
pub trait BudgetHold: Send + 'static {
    /// Says what was really spent, in millionths of the currency. Must not wait.
    fn settle(self: Box<Self>, spent_micros: i64);
}

/// What setting money aside gives.
pub type HoldFuture<'a> = BoxFuture<'a, Result<Box<dyn BudgetHold>, BudgetRefusal>>;

/// Where money is set aside.
pub trait BudgetLedger: Send + Sync + 'static {
    /// Sets aside what the call may cost, in every budget that it is paid from or in none.
    fn reserve<'a>(&'a self, wish: &'a BudgetWish) -> HoldFuture<'a>;

    /// False if there is no cap at all, so that nobody need estimate what a call may cost.
    fn is_bounded(&self) -> bool {
        true
    }
}

/// No budget: everything may be spent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unbounded;

impl BudgetLedger for Unbounded {
    fn reserve<'a>(&'a self, _wish: &'a BudgetWish) -> HoldFuture<'a> {
        let hold: Box<dyn BudgetHold> = Box::new(Self);
        Box::pin(std::future::ready(Ok(hold)))
    }

    fn is_bounded(&self) -> bool {
        false
    }
}

impl BudgetHold for Unbounded {
    fn settle(self: Box<Self>, _spent_micros: i64) {}
}

/// A cap as it stands, in millionths of its currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapState {
    /// Whose.
    pub scope: String,
    /// The most that may be spent.
    pub cap_micros: i64,
    /// What was spent.
    pub spent_micros: i64,
    /// What calls that are under way may still spend.
    pub reserved_micros: i64,
    /// The currency.
    pub currency: Currency,
}

/// Budgets in memory: they live as long as the process. Clones share everything.
#[derive(Debug, Clone, Default)]
pub struct MemoryLedger {
    caps: Arc<Mutex<Vec<CapState>>>,
}

impl MemoryLedger {
    /// A ledger with one cap.
    pub fn new(scope: impl Into<String>, cap: Money) -> Self {
        Self::default().with_cap(scope, cap)
    }

    /// Adds a cap, or changes it: what was spent before stays counted. Every call is paid from all caps of a ledger.
    #[must_use]
    pub fn with_cap(self, scope: impl Into<String>, cap: Money) -> Self {
        self.set_cap(scope, cap);
        self
    }

    /// Like [`with_cap`](Self::with_cap), while calls are under way.
    pub fn set_cap(&self, scope: impl Into<String>, cap: Money) {
        let scope = scope.into();
        let mut caps = self.lock();
        if let Some(known) = caps.iter_mut().find(|known| known.scope == scope) {
            (known.cap_micros, known.currency) = (cap.micros(), cap.currency);
            return;
        }
        let (spent_micros, reserved_micros) = (0, 0);
        let (cap_micros, currency) = (cap.micros(), cap.currency);
        caps.push(CapState { scope, cap_micros, spent_micros, reserved_micros, currency });
    }

    /// The caps as they stand.
    pub fn caps(&self) -> Vec<CapState> {
        self.lock().clone()
    }

    fn hold(&self, wish: &BudgetWish) -> Result<Box<dyn BudgetHold>, BudgetRefusal> {
        let mut caps = self.lock();
        let micros = wish.cost_max.map(Money::micros);
        for cap in caps.iter() {
            let priced = wish.cost_max.is_some_and(|cost| cost.currency == cap.currency);
            let Some(needed) = micros.filter(|_| priced) else {
                let (scope, model) = (cap.scope.clone(), wish.model.clone());
                return Err(BudgetRefusal::Unpriced { scope, model });
            };
            let left = cap.cap_micros - cap.spent_micros - cap.reserved_micros;
            if needed > left {
                return Err(BudgetRefusal::UsedUp { scope: cap.scope.clone(), needed, left });
            }
        }
        let micros = micros.unwrap_or(0);
        for cap in caps.iter_mut() {
            cap.reserved_micros += micros;
        }
        let caps = caps.len();
        Ok(Box::new(MemoryHold { ledger: self.clone(), caps, micros, spent: None }))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CapState>> {
        // Nothing that can fail happens under this lock.
        self.caps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetLedger for MemoryLedger {
    fn reserve<'a>(&'a self, wish: &'a BudgetWish) -> HoldFuture<'a> {
        Box::pin(std::future::ready(self.hold(wish)))
    }

    fn is_bounded(&self) -> bool {
        !self.lock().is_empty()
    }
}

struct MemoryHold {
    ledger: MemoryLedger,
    /// How many caps there were: it has nothing set aside in those that came later.
    caps: usize,
    micros: i64,
    spent: Option<i64>,
}

impl BudgetHold for MemoryHold {
    fn settle(mut self: Box<Self>, spent_micros: i64) {
        self.spent = Some(spent_micros);
    }
}

impl Drop for MemoryHold {
    fn drop(&mut self) {
        let spent = self.spent.unwrap_or(self.micros);
        for cap in self.ledger.lock().iter_mut().take(self.caps) {
            cap.reserved_micros = (cap.reserved_micros - self.micros).max(0);
            cap.spent_micros = cap.spent_micros.saturating_add(spent);
        }
    }
}

#[cfg(test)]
mod tests;
