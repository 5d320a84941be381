//! Budgets in the database for calls outside of runs: embeddings, batches, and routes that a program calls directly.
//!
//! A reservation counts as spent at once, and the unused part is refunded later. A crash therefore needs no cleanup:
//! a call of
//! unknown cost counts with its reservation.

use std::fmt;

use futures::FutureExt;
use provost_core::id::name::Namespace;
use provost_core::{Money, Timestamp};
use provost_model::{BudgetHold, BudgetLedger, BudgetRefusal, BudgetWish, HoldFuture};
use provost_store::table::governance::budget;
use provost_store::{Store, Tx};

use super::{BudgetScope, current};
use crate::budget::Budgets;
use crate::error::EngineError;

/// The budgets of some scopes. Each call is charged to all of them that exist.
#[derive(Clone)]
pub struct DurableLedger {
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
    ) -> DurableLedger {
        let scopes = scopes.into_iter().map(|scope| scope.to_string()).collect();
        DurableLedger {
            store: self.engine.inner.store.clone(),
            namespace: namespace.to_string(),
            scopes,
        }
    }
}

/// The scope of a charged budget, and the start of the period that was charged.
type Counted = (String, Option<Timestamp>);

impl DurableLedger {
    async fn hold(&self, wish: &BudgetWish) -> Result<Box<dyn BudgetHold>, BudgetRefusal> {
        let (ledger, wanted) = (self.clone(), wish.cost_max);
        let spent = self.store.write(move |tx| ledger.spend(tx, wanted)).await;
        match spent {
            Ok(counted) => {
                let micros = wanted.map_or(0, Money::micros);
                Ok(Box::new(DurableHold { ledger: self.clone(), counted, micros }))
            }
            Err(EngineError::Budget { scope, needed, left }) => {
                Err(BudgetRefusal::UsedUp { scope, needed, left })
            }
            Err(EngineError::Unpriced { scope }) => {
                Err(BudgetRefusal::Unpriced { scope, model: wish.model.clone() })
            }
            Err(error) => Err(BudgetRefusal::Unreachable(error.to_string())),
        }
    }

    /// Charges the maximum cost of a call to every budget, or to none.
    fn spend(&self, tx: &mut Tx<'_>, wanted: Option<Money>) -> Result<Vec<Counted>, EngineError> {
        let mut counted = Vec::with_capacity(self.scopes.len());
        for scope in &self.scopes {
            let Some(row) = current(tx, &self.namespace, scope)? else { continue };
            let wanted = wanted.filter(|cost| cost.currency.as_str() == row.currency);
            let Some(needed) = wanted.map(Money::micros) else {
                return Err(EngineError::Unpriced {
                    scope: format!("{scope} in {}", row.currency),
                });
            };
            if !budget::reserve(tx, &self.namespace, scope, needed)? {
                let left = row.cap_micros - row.spent_micros - row.reserved_micros;
                return Err(EngineError::Budget { scope: scope.clone(), needed, left });
            }
            budget::settle(tx, &self.namespace, scope, needed, needed)?;
            counted.push((scope.clone(), row.period_start));
        }
        Ok(counted)
    }

    /// Refunds the unused part of a charge, where the charged period is still the current one.
    fn give_back(
        &self,
        tx: &mut Tx<'_>,
        counted: &[Counted],
        micros: i64,
    ) -> Result<(), EngineError> {
        for (scope, period) in counted {
            let row = current(tx, &self.namespace, scope)?;
            // A charge of another period no longer counts, and a budget that was set again starts at zero.
            let Some(row) = row.filter(|row| row.period_start == *period) else { continue };
            let back = micros.min(row.spent_micros);
            budget::settle(tx, &self.namespace, scope, 0, -back)?;
        }
        Ok(())
    }
}

impl BudgetLedger for DurableLedger {
    fn reserve<'a>(&'a self, wish: &'a BudgetWish) -> HoldFuture<'a> {
        self.hold(wish).boxed()
    }
}

impl fmt::Debug for DurableLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableLedger").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

struct DurableHold {
    ledger: DurableLedger,
    counted: Vec<Counted>,
    micros: i64,
}

impl BudgetHold for DurableHold {
    fn settle(self: Box<Self>, spent_micros: i64) {
        let Self { ledger, counted, micros } = *self;
        let back = micros.saturating_sub(spent_micros);
        if back == 0 || counted.is_empty() {
            return;
        }
        let store = ledger.store.clone();
        store.write_deferred(move |tx| ledger.give_back(tx, &counted, back)).detach();
    }
}
