//! Money that is set aside before it is spent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use provost_agent::Agent;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::OutcomeCode;
use provost_core::resource::AgentSpec;
use provost_core::{Currency, Env, Money, Pricing, RunId, Usage};
use provost_engine::{Budget, BudgetPeriod, BudgetScope, BudgetUsage, EngineOptions, child_tools};
use provost_model::{self as scripted, ChatRequest, ModelErrorClass, ScriptedModel, ScriptedTurn};
use provost_store::params;
use provost_store::query;
use provost_store::table::work::run::RunRow;
use serde_json::json;

use crate::children::{first_words, replay_all, results, until_phase};
use crate::harness::{Harness, command, options, patch, text};

/// What one call of the priced model costs at most: 1000 tokens of answer for a millionth each, and those of the question and
/// of what the tools are.
const CALL_MAX: i64 = 2_000;
/// Calls for which a cap is enough at the same time.
const CALLS: i64 = 20;
/// What so many calls really cost, which is the least that is spent: how much more depends on how many are asked at the same moment, for
/// what is set aside for a call is more than it costs.
const LEAST: i64 = CALLS * 1010;

fn money(micros: i64) -> Money {
    Money::usd(rust_decimal::Decimal::new(micros, 6))
}

/// A stage whose model is priced: a millionth of a dollar for each token, and at most 1000 of answer.
pub(crate) async fn priced(
    options: EngineOptions,
    env: Env,
    answer: impl Fn(&ChatRequest) -> ScriptedTurn + Send + Sync + 'static,
) -> Harness {
    let answer = Arc::new(answer);
    let agents = move |_: &provost_engine::AgentRevision, _: &provost_engine::Lease| {
        let answer = Arc::clone(&answer);
        let model = ScriptedModel::from_fn(move |request, _| answer(request)).with_info(|info| {
            let price = 1.into();
            info.pricing = Some(Pricing {
                input: price,
                output: price,
                cache_read: None,
                cache_write: None,
                reasoning: None,
                currency: Currency::USD,
            });
            info.max_output = Some(1000);
        });
        Ok(Agent::builder("default", model).tools(child_tools()?).build().unwrap())
    };
    let harness = Harness::of(options, env, agents).await;
    // Nobody is there who could give more.
    let config = AgentSpec { policy: patch(json!({"interactive": false})), ..Default::default() };
    harness.engine.put_agent(&harness.namespace, "default", None, config).await.unwrap();
    harness
}

fn answers(text: &str, output: u64) -> ScriptedTurn {
    scripted::text(text).usage(Usage { input: 10, output, ..Usage::default() })
}

async fn budget(harness: &Harness, scope: BudgetScope) -> BudgetUsage {
    harness.engine.budgets().get(&harness.namespace, scope).await.unwrap().unwrap()
}

async fn cap(harness: &Harness, scope: BudgetScope, micros: i64, period: Option<BudgetPeriod>) {
    let budget = Budget { cap: money(micros), period };
    harness.engine.budgets().set(&harness.namespace, scope, Some(budget)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_money_stops_the_next_model_call_before_it_is_sent() {
    let calls = Arc::new(AtomicUsize::new(0));
    let is_recorded = Arc::clone(&calls);
    let harness = priced(options(), Env::system(), move |_| {
        is_recorded.fetch_add(1, Ordering::SeqCst);
        answers("hello", 900)
    })
    .await;
    let _worker = harness.worker().await;
    cap(&harness, BudgetScope::Namespace, CALL_MAX + 910, None).await;
    for turn in 1..=3 {
        let accepted = harness.say("chat", "hi").await;
        let run = harness.wait(accepted.run).await;
        let expected = if turn < 3 { ("ok", None) } else { ("error", Some("budget")) };
        assert_eq!(
            (run.status.as_str(), run.outcome_code.map(OutcomeCode::as_str)),
            expected,
            "{:?}",
            run.detail
        );
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2, "the third was not sent");
    let spent = budget(&harness, BudgetScope::Namespace).await;
    assert_eq!((spent.spent_micros, spent.reserved_micros), (2 * 910, 0));
    // More money, and it goes on.
    cap(&harness, BudgetScope::Namespace, 5 * CALL_MAX, None).await;
    let accepted = harness.say("chat", "hi").await;
    assert_eq!(harness.wait(accepted.run).await.status, RunStatus::Ok);
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_sixty_four_runs_at_once_never_exceed_a_cap() {
    let spent = Arc::new(AtomicUsize::new(0));
    let is_recorded = Arc::clone(&spent);
    let harness = priced(options(), Env::system(), move |_| {
        // All of what was set aside for the answer is used.
        is_recorded.fetch_add(1010, Ordering::SeqCst);
        answers("hello", 1000).delay(Duration::from_millis(1))
    })
    .await;
    let cap_micros = CALLS * CALL_MAX;
    cap(&harness, BudgetScope::Namespace, cap_micros, None).await;
    cap(&harness, BudgetScope::Agent("default".to_owned()), 2 * cap_micros, None).await;
    harness
        .engine
        .store()
        .write(|tx| tx.execute_fenced("UPDATE exec_class SET desired = 64", params![]))
        .await
        .unwrap();
    let _worker = harness.worker().await;
    let mut runs = Vec::new();
    for n in 0..64 {
        runs.push(harness.say(&format!("chat-{n}"), "hi").await.run);
    }
    let mut refused = 0;
    for run in runs {
        let run = harness.wait(run).await;
        refused += usize::from(run.outcome_code.map(OutcomeCode::as_str) == Some("budget"));
    }
    let state = budget(&harness, BudgetScope::Namespace).await;
    let really = i64::try_from(spent.load(Ordering::SeqCst)).unwrap();
    assert_eq!(state.spent_micros, really, "what was spent is what the calls cost");
    assert!(really <= cap_micros, "{really} of {cap_micros}");
    assert!(really >= LEAST, "nobody is refused before the cap is set aside: {really}");
    assert_eq!((state.reserved_micros, refused > 0), (0, true));
    assert_eq!(
        budget(&harness, BudgetScope::Agent("default".to_owned())).await.spent_micros,
        really
    );
}

/// Trials of 64 runs at once; `scripts/stress budgets` makes a thousand.
fn trials() -> usize {
    let asked = std::env::var("PROVOST_BUDGET_TRIALS").ok();
    asked.and_then(|asked| asked.parse().ok()).unwrap_or(50)
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_sixty_four_runs_at_once_never_exceed_a_cap_in_any_trial() {
    let spent = Arc::new(AtomicUsize::new(0));
    let is_recorded = Arc::clone(&spent);
    let harness = priced(options(), Env::system(), move |_| {
        is_recorded.fetch_add(1010, Ordering::SeqCst);
        answers("hello", 1000)
    })
    .await;
    let cap_micros = CALLS * CALL_MAX;
    // So that there is a class that can be widened.
    let first = harness.say("first", "hi").await.run;
    harness
        .engine
        .store()
        .write(|tx| tx.execute_fenced("UPDATE exec_class SET desired = 64", params![]))
        .await
        .unwrap();
    let _worker = harness.worker().await;
    harness.wait(first).await;
    for trial in 0..trials() {
        harness
            .engine
            .budgets()
            .set(&harness.namespace, BudgetScope::Namespace, None)
            .await
            .unwrap();
        cap(&harness, BudgetScope::Namespace, cap_micros, None).await;
        spent.store(0, Ordering::SeqCst);
        let mut runs = Vec::new();
        for n in 0..64 {
            runs.push(harness.say(&format!("chat-{trial}-{n}"), "hi").await.run);
        }
        let mut refused = 0;
        for run in runs {
            let run = harness.wait(run).await;
            refused += usize::from(run.outcome_code.map(OutcomeCode::as_str) == Some("budget"));
        }
        let state = budget(&harness, BudgetScope::Namespace).await;
        let really = i64::try_from(spent.load(Ordering::SeqCst)).unwrap();
        assert_eq!((state.spent_micros, state.reserved_micros), (really, 0), "trial {trial}");
        assert!(really <= cap_micros, "trial {trial}: {really} of {cap_micros}");
        assert!(refused > 0 && really >= LEAST, "trial {trial}: {really}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_a_model_without_a_price_is_refused_under_a_cap() {
    let harness = Harness::new(|_, _| scripted::text("hello")).await;
    let config = AgentSpec { policy: patch(json!({"interactive": false})), ..Default::default() };
    harness.engine.put_agent(&harness.namespace, "default", None, config).await.unwrap();
    let _worker = harness.worker().await;
    let capped = TaskRequest { budget: Some(money(1_000_000)), ..command("chat", "hi") };
    let accepted = harness.engine.submit(&harness.namespace, capped).await.unwrap();
    let run = harness.wait(accepted.run).await;
    assert_eq!(
        (run.status.as_str(), run.outcome_code.map(OutcomeCode::as_str)),
        ("error", Some("budget"))
    );
    assert!(run.detail.unwrap().contains("price"), "it says why");
    assert_eq!(harness.effects.model_calls(), 0);
    let free = harness.say("other", "hi").await;
    assert_eq!(harness.wait(free.run).await.status, RunStatus::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_a_budget_starts_anew_with_its_period() {
    let env = Env::simulated(9);
    let harness = priced(options(), env.clone(), |_| answers("hello", 900)).await;
    let _worker = harness.worker().await;
    let session = BudgetScope::Session("chat".to_owned());
    cap(&harness, session.clone(), CALL_MAX, Some(BudgetPeriod::Day)).await;
    for (day, expected) in [("ok", "error"), ("ok", "error")].into_iter().enumerate() {
        for wanted in [expected.0, expected.1] {
            let accepted = harness.say("chat", "hi").await;
            assert_eq!(harness.wait(accepted.run).await.status.as_str(), wanted, "day {day}");
        }
        assert_eq!(budget(&harness, session.clone()).await.spent_micros, 910);
        env.advance(Duration::from_secs(24 * 3600));
        assert_eq!(budget(&harness, session.clone()).await.spent_micros, 0, "nothing is spent yet");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_the_try_of_a_lost_worker_is_booked_as_estimated() {
    let began = Arc::new(tokio::sync::Semaphore::new(0));
    let calls = Arc::new(AtomicUsize::new(0));
    let (inside, is_recorded) = (Arc::clone(&began), Arc::clone(&calls));
    let harness = priced(options(), Env::system(), move |_| {
        inside.add_permits(1);
        match is_recorded.fetch_add(1, Ordering::SeqCst) {
            0 => answers("never", 1).delay(Duration::from_secs(3600)),
            _ => answers("hello", 100),
        }
    })
    .await;
    cap(&harness, BudgetScope::Namespace, 10 * CALL_MAX, None).await;
    let worker = harness.worker().await;
    let accepted = harness.say("chat", "hi").await;
    began.acquire().await.unwrap().forget();
    let held = budget(&harness, BudgetScope::Namespace).await;
    assert!((1000..=CALL_MAX).contains(&held.reserved_micros), "{held:?}");
    drop(worker);
    let _second = harness.worker().await;
    let run = harness.wait(accepted.run).await;
    assert_eq!(run.status, RunStatus::Ok);
    let state = budget(&harness, BudgetScope::Namespace).await;
    assert_eq!(state.spent_micros, held.reserved_micros + 110, "both tries");
    assert_eq!((state.reserved_micros, run.cost_micros), (0, state.spent_micros));
    replay_all(&harness).await;
}

/// Waits until a run has failed so often.
async fn until_attempts(harness: &Harness, run: RunId, failures: u64) -> RunRow {
    let looking = async {
        loop {
            let row =
                query::run::get(harness.engine.store(), &harness.namespace, run).await.unwrap();
            if row.failure_count >= failures {
                return row;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.expect("it fails")
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_a_call_that_the_provider_refused_costs_nothing() {
    let calls = Arc::new(AtomicUsize::new(0));
    let is_recorded = Arc::clone(&calls);
    let harness = priced(options(), Env::simulated(4), move |_| {
        match is_recorded.fetch_add(1, Ordering::SeqCst) {
            0 => scripted::fail(ModelErrorClass::RateLimited, "slow down"),
            _ => answers("hello", 100),
        }
    })
    .await;
    cap(&harness, BudgetScope::Namespace, CALL_MAX, None).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "hi").await;
    // It may have been tried already when the wait was short.
    let waiting = until_attempts(&harness, accepted.run, 1).await;
    harness.env.advance(waiting.not_before.since(harness.env.now()));
    assert_eq!(harness.wait(accepted.run).await.status, RunStatus::Ok);
    let state = budget(&harness, BudgetScope::Namespace).await;
    assert_eq!((state.spent_micros, state.reserved_micros), (110, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_a_cancelled_call_gives_back_what_it_did_not_use() {
    let began = Arc::new(tokio::sync::Semaphore::new(0));
    let inside = Arc::clone(&began);
    let harness = priced(options(), Env::system(), move |_| {
        inside.add_permits(1);
        answers("never", 1).delay(Duration::from_secs(3600))
    })
    .await;
    cap(&harness, BudgetScope::Namespace, 10 * CALL_MAX, None).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "hi").await;
    began.acquire().await.unwrap().forget();
    harness.engine.runs().cancel(&harness.namespace, accepted.run).await.unwrap();
    let run = harness.wait(accepted.run).await;
    let state = budget(&harness, BudgetScope::Namespace).await;
    assert_eq!(state.reserved_micros, 0, "nothing stays set aside");
    assert_eq!(state.spent_micros, run.cost_micros, "what it cost is not known and so estimated");
    assert!(state.spent_micros >= 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_a_child_spends_the_money_of_its_parent() {
    let harness = priced(options(), Env::system(), |request| {
        let results = results(request);
        let (name, arguments) = match (first_words(request).as_str(), results.len()) {
            ("lead", 0) => ("spawn_task", json!({"message": "work"})),
            ("lead", 1) => ("await_tasks", json!({"runs": [results[0]["run"]]})),
            ("lead", _) => return answers("done", 100),
            _ => return answers("worked", 100),
        };
        scripted::call(name, arguments).usage(Usage { input: 10, output: 100, ..Usage::default() })
    })
    .await;
    let _worker = harness.worker().await;
    let capped = TaskRequest { budget: Some(money(100 * CALL_MAX)), ..command("chat", "lead") };
    let accepted = harness.engine.submit(&harness.namespace, capped).await.unwrap();
    until_phase(&harness, accepted.run, "done").await;
    let run = harness.wait(accepted.run).await;
    assert_eq!(text(&run), "done");
    let state = budget(&harness, BudgetScope::Task(accepted.task)).await;
    assert_eq!(state.spent_micros, 4 * 110, "three calls of the parent and one of the child");
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_are_set_changed_and_removed() {
    let harness = priced(options(), Env::system(), |_| answers("hello", 100)).await;
    let _worker = harness.worker().await;
    cap(&harness, BudgetScope::Namespace, 10 * CALL_MAX, None).await;
    let accepted = harness.say("chat", "hi").await;
    harness.wait(accepted.run).await;
    let euro = Budget { cap: Money { currency: Currency::EUR, ..money(5) }, period: None };
    let refused =
        harness.engine.budgets().set(&harness.namespace, BudgetScope::Namespace, Some(euro)).await;
    assert_eq!(refused.unwrap_err().code(), "invalid", "dollars were spent");
    let negative = Budget { cap: money(-1), period: None };
    let refused = harness
        .engine
        .budgets()
        .set(&harness.namespace, BudgetScope::Namespace, Some(negative))
        .await;
    assert_eq!(refused.unwrap_err().code(), "invalid");
    assert_eq!(harness.engine.budgets().list(&harness.namespace).await.unwrap().len(), 1);
    harness.engine.budgets().set(&harness.namespace, BudgetScope::Namespace, None).await.unwrap();
    assert_eq!(
        harness.engine.budgets().get(&harness.namespace, BudgetScope::Namespace).await.unwrap(),
        None
    );
    // A budget in another currency than the model's price cannot be kept.
    harness
        .engine
        .budgets()
        .set(&harness.namespace, BudgetScope::Namespace, Some(euro))
        .await
        .unwrap();
    let accepted = harness.say("chat", "hi").await;
    let run = harness.wait(accepted.run).await;
    assert_eq!(run.outcome_code.map(OutcomeCode::as_str), Some("budget"));
    assert!(run.detail.unwrap().contains("EUR"), "it says in what");
}
