//! The budgets in the database for calls outside of runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use provost_core::{Currency, Env, Money, Pricing, Usage};
use provost_engine::{Budget, BudgetPeriod, BudgetScope, DurableBudgetLedger};
use provost_model::{
    self as scripted, BudgetError, BudgetLedger, ChatRequest, Endpoint, ModelErrorClass,
    ReservationRequest, RoutedModel, ScriptedModel, complete,
};

use crate::budgets::priced;
use crate::harness::{Harness, options};

/// Trials of as many calls at once, under one cap.
const TRIALS: usize = 50;
const CALLS: usize = 64;
/// What one call costs at most: 100 tokens of answer at a millionth each.
const CALL_MAX: i64 = 100;
const DAY_MS: u64 = 24 * 3600 * 1000;

fn wish(micros: i64) -> ReservationRequest {
    let cost_max = Some(Money::from_micros(micros));
    ReservationRequest { provider: "p".to_owned(), model: "m".to_owned(), cost_max }
}

async fn capped(
    harness: &Harness,
    micros: i64,
    period: Option<BudgetPeriod>,
) -> DurableBudgetLedger {
    let scope = || BudgetScope::Agent("embedder".to_owned());
    let budget = Budget { cap: Money::from_micros(micros), period };
    harness.engine.budgets().set(&harness.namespace, scope(), None).await.unwrap();
    harness.engine.budgets().set(&harness.namespace, scope(), Some(budget)).await.unwrap();
    harness.engine.budgets().ledger(&harness.namespace, [scope(), BudgetScope::Namespace])
}

async fn spent(harness: &Harness) -> (i64, i64) {
    let scope = BudgetScope::Agent("embedder".to_owned());
    let state = harness.engine.budgets().get(&harness.namespace, scope).await.unwrap().unwrap();
    (state.spent_micros, state.reserved_micros)
}

#[tokio::test]
async fn what_is_set_aside_counts_until_it_is_known_what_was_spent() {
    let harness = Harness::new(|_, _| scripted::text("unused")).await;
    let ledger = capped(&harness, 100, None).await;
    let hold = ledger.reserve(&wish(60)).await.unwrap();
    assert_eq!(spent(&harness).await, (60, 0), "a crash now would leave it counted");
    let Err(refusal) = ledger.reserve(&wish(50)).await else { panic!("too much") };
    let scope = "agent:embedder".to_owned();
    assert_eq!(refusal, BudgetError::Exhausted { scope, needed: 50, left: 40 });
    hold.settle(10);
    assert_eq!(spent(&harness).await, (10, 0));
    drop(ledger.reserve(&wish(30)).await.unwrap());
    assert_eq!(spent(&harness).await, (40, 0), "nobody said what it cost");
    ledger.reserve(&wish(30)).await.unwrap().settle(75);
    assert_eq!(spent(&harness).await, (115, 0), "it was more than thought, and that is told");
    let unpriced = ReservationRequest { cost_max: None, ..wish(0) };
    let euros = Money { currency: Currency::EUR, ..Money::from_micros(1) };
    for wish in [unpriced, ReservationRequest { cost_max: Some(euros), ..wish(0) }] {
        let Err(refusal) = ledger.reserve(&wish).await else { panic!("no price") };
        assert!(matches!(refusal, BudgetError::UnknownCost { .. }), "{refusal}");
    }
}

#[tokio::test]
async fn what_was_counted_in_another_period_is_not_given_back_to_this_one() {
    let env = Env::simulated(1);
    let harness = priced(options(), env.clone(), |_| scripted::text("unused")).await;
    let ledger = capped(&harness, 100, Some(BudgetPeriod::Day)).await;
    let hold = ledger.reserve(&wish(60)).await.unwrap();
    env.advance(std::time::Duration::from_millis(DAY_MS));
    ledger.reserve(&wish(80)).await.unwrap().settle(80);
    hold.settle(0);
    assert_eq!(spent(&harness).await, (80, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_calls_at_once_never_exceed_a_durable_cap_in_fifty_trials() {
    let harness = Harness::new(|_, _| scripted::text("unused")).await;
    for trial in 0..TRIALS {
        let cap_micros = 20 * CALL_MAX + 30;
        let ledger = capped(&harness, cap_micros, None).await;
        let really = Arc::new(AtomicI64::new(0));
        let is_recorded = Arc::clone(&really);
        let model = ScriptedModel::from_fn(move |_, n| {
            let output = if n % 3 == 0 { 100 } else { 40 };
            is_recorded.fetch_add(output, Ordering::SeqCst);
            scripted::text("yes").usage(Usage::new(0, u64::try_from(output).unwrap()))
        });
        let model = model.without_recording().with_info(|info| {
            info.pricing = Some(Pricing {
                input: 1.into(),
                output: 1.into(),
                cache_read: None,
                cache_write: None,
                reasoning: None,
                currency: Currency::USD,
            });
            info.max_output = Some(100);
        });
        let route = RoutedModel::builder().endpoint(Endpoint::new("only", model));
        let route = route.budget(ledger).build().unwrap();
        let calls = (0..CALLS).map(|_| {
            let route = route.clone();
            tokio::spawn(async move { complete(&route, ChatRequest::default()).await })
        });
        let mut refused = 0;
        for call in calls.collect::<Vec<_>>() {
            if let Err(error) = call.await.unwrap() {
                assert_eq!(error.class, ModelErrorClass::QuotaExceeded, "{error}");
                refused += 1;
            }
        }
        let really = really.load(Ordering::SeqCst);
        assert_eq!(spent(&harness).await, (really, 0), "trial {trial}");
        assert!(really <= cap_micros && refused > 0, "trial {trial}: {really}, {refused} refused");
    }
}
