use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use provost_core::{Pricing, Usage};

use super::*;
use crate::{ChatRequest, Endpoint, RoutedModel, ScriptedModel, complete, text};

/// Number of trials of concurrent calls under one cap.
const TRIALS: usize = 1_000;
const CALLS: usize = 64;
/// Largest cost of a call: 100 output tokens at a millionth each, and an empty prompt.
const CALL_MAX: i64 = 100;

fn micros(micros: i64) -> Money {
    Money::from_micros(micros)
}

fn wish(cost_max: Option<Money>) -> ReservationRequest {
    ReservationRequest { provider: "p".to_owned(), model: "m".to_owned(), cost_max }
}

/// Sets a price of a millionth of a dollar per token and a limit of 100 output tokens.
fn priced(model: ScriptedModel) -> ScriptedModel {
    model.with_info(|info| {
        info.pricing = Some(Pricing {
            input: 1.into(),
            output: 1.into(),
            cache_read: None,
            cache_write: None,
            reasoning: None,
            currency: Currency::USD,
        });
        info.max_output = Some(100);
    })
}

#[tokio::test]
async fn money_is_set_aside_in_all_budgets_or_in_none() {
    let ledger = InMemoryLedger::new("day", micros(100)).with_cap("agent", micros(50));
    let hold = ledger.reserve(&wish(Some(micros(40)))).await.unwrap();
    let Err(refusal) = ledger.reserve(&wish(Some(micros(20)))).await else { panic!("too much") };
    let scope = "agent".to_owned();
    assert_eq!(refusal, BudgetError::Exhausted { scope, needed: 20, left: 10 });
    let reserved: Vec<i64> = ledger.caps().iter().map(|cap| cap.reserved_micros).collect();
    assert_eq!(reserved, [40, 40]);
    hold.settle(5);
    let dropped = ledger.reserve(&wish(Some(micros(45)))).await.unwrap();
    drop(dropped);
    let caps = ledger.caps();
    assert_eq!((caps[0].spent_micros, caps[0].reserved_micros), (50, 0), "all of it counts");
    assert!(ledger.reserve(&wish(Some(micros(0)))).await.is_ok());
}

#[tokio::test]
async fn what_has_no_price_is_refused_under_a_cap_and_free_without_one() {
    let ledger = InMemoryLedger::new("all", micros(1_000_000));
    let euros = Money { currency: Currency::EUR, ..micros(1) };
    for cost in [None, Some(euros)] {
        let Err(refusal) = ledger.reserve(&wish(cost)).await else { panic!("no price") };
        assert!(matches!(refusal, BudgetError::UnknownCost { .. }), "{refusal}");
    }
    assert!(!InMemoryLedger::default().is_bounded());
    let model = ScriptedModel::new().turn(text("never"));
    let route = RoutedModel::builder().endpoint(Endpoint::new("only", model.clone()));
    let route = route.budget(ledger).build().unwrap();
    let error = complete(&route, ChatRequest::default()).await.unwrap_err();
    assert_eq!(error.class, ModelErrorClass::InvalidRequest, "{error}");
    assert_eq!(model.call_count(), 0, "nothing was sent");
}

#[tokio::test]
async fn a_cap_that_comes_later_is_not_eased_by_what_was_set_aside_before() {
    let ledger = InMemoryLedger::new("one", micros(100));
    let before = ledger.reserve(&wish(Some(micros(60)))).await.unwrap();
    ledger.set_cap("two", micros(50));
    let _after = ledger.reserve(&wish(Some(micros(30)))).await.unwrap();
    drop(before);
    let two = &ledger.caps()[1];
    assert_eq!((two.spent_micros, two.reserved_micros), (0, 30));
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_calls_at_once_never_exceed_a_cap_in_a_thousand_trials() {
    for trial in 0..TRIALS {
        let ledger = InMemoryLedger::new("all", micros(20 * CALL_MAX + 30));
        let (spent, over) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&spent);
        let model = priced(ScriptedModel::from_fn(move |_, n| {
            let output = if n % 3 == 0 { 100 } else { 40 };
            counted.fetch_add(output, Ordering::SeqCst);
            text("yes").usage(Usage::new(0, u64::try_from(output).unwrap()))
        }));
        let route =
            RoutedModel::builder().endpoint(Endpoint::new("only", model.without_recording()));
        let route = route.budget(ledger.clone()).build().unwrap();
        let calls = (0..CALLS).map(|_| {
            let (route, over, ledger) = (route.clone(), Arc::clone(&over), ledger.clone());
            tokio::spawn(async move {
                if let Err(error) = complete(&route, ChatRequest::default()).await {
                    assert_eq!(error.class, ModelErrorClass::QuotaExceeded, "{error}");
                    over.fetch_add(1, Ordering::SeqCst);
                }
                let cap = &ledger.caps()[0];
                assert!(cap.spent_micros + cap.reserved_micros <= cap.cap_micros);
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        let cap = &ledger.caps()[0];
        assert_eq!((cap.spent_micros, cap.reserved_micros), (spent.load(Ordering::SeqCst), 0));
        assert!(cap.spent_micros <= cap.cap_micros, "trial {trial}: {cap:?}");
        assert!(over.load(Ordering::SeqCst) > 0, "trial {trial}: the cap was never reached");
        assert!(cap.spent_micros > cap.cap_micros - 2 * CALL_MAX, "trial {trial}: {cap:?}");
    }
}
