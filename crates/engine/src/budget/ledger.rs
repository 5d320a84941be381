//! Budgets in the database for calls outside of runs: embeddings, batches, and routes that a program calls directly.
//!
//! A reservation counts as spent at once, and the unused part is refunded later. A crash therefore needs no cleanup:
//! a call of
//! unknown cost counts with its reservation.

use std::fmt;

use futures::FutureExt;
use provost_core::id::name::Namespace;
use provost_core::usage::BudgetScope;
use provost_core::{Money, Timestamp};
use provost_model::{
    BudgetError, BudgetLedger, BudgetReservation, ReservationRequest, ReserveFuture,
};
use provost_store::table::governance::budget;
use provost_store::{Store, Tx};

use super::current;
use crate::budget::Budgets;
use crate::error::EngineError;

/// The budgets of some scopes. Each call is charged to all of them that exist.
#[derive(Clone)]
pub struct DurableBudgetLedger {
    store: Store,
    namespace: String,
    scopes: Vec<String>,
}

impl Budgets<'_> {
    /// Returns a ledger of these scopes for calls outside of runs. Calls of runs are charged by the engine.
    pub fn ledger(
        self,
        namespace: &Namespace,
        scopes: impl IntoIterator<Item = BudgetScope>,
    ) -> DurableBudgetLedger {
        let scopes = scopes.into_iter().map(|scope| scope.to_string()).collect();
        DurableBudgetLedger {
            store: self.engine.inner.store.clone(),
            namespace: namespace.to_string(),
            scopes,
        }
    }
}

/// The scope of a charged budget, and the start of the period that was charged.
type ChargedBudget = (String, Option<Timestamp>);

impl DurableBudgetLedger {
    /// Charges the maximum cost of a call and returns the reservation that settles it.
    async fn reserve_all(
        &self,
        wish: &ReservationRequest,
    ) -> Result<Box<dyn BudgetReservation>, BudgetError> {
        let (ledger, requested) = (self.clone(), wish.cost_max);
        let spent = self.store.write(move |tx| ledger.charge(tx, requested)).await;
        match spent {
            Ok(charged) => {
                let micros = requested.map_or(0, Money::micros);
                Ok(Box::new(DurableReservation { ledger: self.clone(), charged, micros }))
            }
            Err(EngineError::Budget { scope, needed, left }) => {
                Err(BudgetError::Exhausted { scope, needed, left })
            }
            Err(EngineError::Unpriced { scope }) => {
                Err(BudgetError::UnknownCost { scope, model: wish.model.clone() })
            }
            Err(error) => Err(BudgetError::Unavailable(error.to_string())),
        }
    }

    /// Charges the maximum cost of a call to every budget, and returns those it charged. Fails if a budget has too
    /// little left or another currency; the transaction then charges none.
    fn charge(
        &self,
        tx: &mut Tx<'_>,
        requested: Option<Money>,
    ) -> Result<Vec<ChargedBudget>, EngineError> {
        let mut charged = Vec::with_capacity(self.scopes.len());
        for scope in &self.scopes {
            let Some(row) = current(tx, &self.namespace, scope)? else { continue };
            let requested = requested.filter(|cost| cost.currency == row.currency);
            let Some(needed) = requested.map(Money::micros) else {
                return Err(EngineError::Unpriced {
                    scope: format!("{scope} in {}", row.currency.as_str()),
                });
            };
            if !budget::reserve(tx, &self.namespace, scope, needed)? {
                let left = row.cap_micros - row.spent_micros - row.reserved_micros;
                return Err(EngineError::Budget { scope: scope.clone(), needed, left });
            }
            budget::settle(tx, &self.namespace, scope, needed, needed)?;
            charged.push((scope.clone(), row.period_start));
        }
        Ok(charged)
    }

    /// Refunds the unused part of a charge, where the charged period is still the current one.
    fn refund(
        &self,
        tx: &mut Tx<'_>,
        charged: &[ChargedBudget],
        micros: i64,
    ) -> Result<(), EngineError> {
        for (scope, period) in charged {
            let row = current(tx, &self.namespace, scope)?;
            // A charge of another period no longer counts, and a budget that was set again starts at zero.
            let Some(row) = row.filter(|row| row.period_start == *period) else { continue };
            let refunded = micros.min(row.spent_micros);
            budget::settle(tx, &self.namespace, scope, 0, -refunded)?;
        }
        Ok(())
    }
}

impl BudgetLedger for DurableBudgetLedger {
    fn reserve<'a>(&'a self, wish: &'a ReservationRequest) -> ReserveFuture<'a> {
        self.reserve_all(wish).boxed()
    }
}

impl fmt::Debug for DurableBudgetLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableLedger").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

/// A charge that is refunded on drop as far as it was not spent.
struct DurableReservation {
    ledger: DurableBudgetLedger,
    charged: Vec<ChargedBudget>,
    micros: i64,
}

impl BudgetReservation for DurableReservation {
    fn settle(self: Box<Self>, spent_micros: i64) {
        let Self { ledger, charged, micros } = *self;
        let refunded = micros.saturating_sub(spent_micros);
        if refunded == 0 || charged.is_empty() {
            return;
        }
        let store = ledger.store.clone();
        store.write_deferred(move |tx| ledger.refund(tx, &charged, refunded)).detach();
    }
}
