use std::convert::Infallible;

use futures::StreamExt;
use provost_core::{Currency, Pricing, Usage};
use serde_json::json;

use super::*;
use crate::{
    ModelError, ModelErrorClass as Class, ModelEvent, ScriptedModel, ScriptedTurn, complete, fail,
    text,
};

const SECOND: Duration = Duration::from_secs(1);

fn scripted(turns: impl IntoIterator<Item = ScriptedTurn>) -> ScriptedModel {
    turns.into_iter().fold(ScriptedModel::new(), ScriptedModel::turn)
}

fn always(class: Class) -> ScriptedModel {
    ScriptedModel::from_fn(move |_, _| fail(class, "no"))
}

fn hello() -> ScriptedModel {
    ScriptedModel::from_fn(|_, _| text("hello"))
}

fn retry_after(class: Class, time: Duration) -> ScriptedTurn {
    let mut error = ModelError::new(class, "slow down");
    error.retry_after = Some(time);
    ScriptedTurn::default().then_fail(error)
}

fn route(endpoints: impl IntoIterator<Item = Endpoint>) -> RoutedModelBuilder {
    let builder = RoutedModel::builder().env(Env::simulated(7));
    endpoints.into_iter().fold(builder, RoutedModelBuilder::endpoint)
}

async fn ask(model: &RoutedModel) -> Result<ModelResponse, ModelError> {
    complete(model, ChatRequest::default()).await
}

#[tokio::test(start_paused = true)]
async fn what_falls_back_and_what_does_not() {
    for (class, falls_back) in [
        (Class::Auth, true),
        (Class::RateLimited, true),
        (Class::QuotaExceeded, true),
        (Class::Overloaded, true),
        (Class::ContextLength, false),
        (Class::ContentFilter, false),
        (Class::ModelNotFound, true),
        (Class::InvalidRequest, false),
        (Class::Transport, true),
        (Class::Timeout, true),
        (Class::Malformed, true),
        (Class::StreamTruncated, true),
    ] {
        let second = hello();
        let first = Endpoint::new("first", always(class));
        let model = route([first, Endpoint::new("second", second.clone())]).build().unwrap();
        let start = Instant::now();
        let answer = ask(&model).await;
        assert_eq!(answer.is_ok(), falls_back, "{class:?} {answer:?}");
        assert_eq!(second.call_count(), usize::from(falls_back), "{class:?}");
        assert_eq!(start.elapsed(), Duration::ZERO, "{class:?}: nobody waits for a second one");
        match answer {
            Ok(answer) => {
                let before = json!([{ "asked": "first", "failed": class.as_str() }]);
                assert_eq!(answer.metadata["route"]["before"], before);
                assert_eq!(answer.metadata["route"]["endpoint"], "second");
            }
            Err(error) => assert_eq!(error.class, class),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_too_long_goes_only_where_there_is_more_room() {
    let of = |model: ScriptedModel, window| model.with_info(|info| info.context_window = window);
    let small = Endpoint::new("small", of(always(Class::ContextLength), Some(100)));
    let smaller = hello();
    let model = route([
        small,
        Endpoint::new("smaller", of(smaller.clone(), Some(50))),
        Endpoint::new("unknown", of(always(Class::Auth), None)),
        Endpoint::new("large", of(hello(), Some(1_000))),
    ]);
    let answer = ask(&model.build().unwrap()).await.unwrap();
    assert_eq!(answer.metadata["route"]["endpoint"], "large");
    assert_eq!(smaller.call_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_endpoint_is_tried_four_times_more_with_growing_waits() {
    let broken = always(Class::Overloaded);
    let model = route([Endpoint::new("only", broken.clone())]);
    let model = model.build().unwrap();
    let (mut delays, mut last) = (Vec::new(), None);
    let mut stream = model.stream(ChatRequest::default());
    while let Some(event) = stream.next().await {
        match event {
            Ok(ModelEvent::Retry { delay, attempt, .. }) => {
                delays.push(delay);
                assert_eq!(attempt as usize, delays.len());
            }
            Ok(_) => {}
            Err(error) => last = Some(error),
        }
    }
    assert_eq!((broken.call_count(), delays.len()), (5, 4));
    for (n, delay) in delays.iter().enumerate() {
        assert!(*delay <= Duration::from_millis(500) * 2u32.pow(n as u32), "{delays:?}");
    }
    let last = last.unwrap();
    assert_eq!(last.class, Class::Overloaded);
    assert!(last.message.contains("only: overloaded"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_asks_for_time_gets_it_and_the_deadline_holds() {
    let slow = scripted([retry_after(Class::RateLimited, 20 * SECOND), text("now")]);
    let model = route([Endpoint::new("only", slow.clone())]).build().unwrap();
    let start = Instant::now();
    assert_eq!(ask(&model).await.unwrap().message.text(), "now");
    assert!(start.elapsed() >= 20 * SECOND && start.elapsed() < 23 * SECOND);
    let slow = scripted([retry_after(Class::RateLimited, 20 * SECOND)]);
    let model = route([Endpoint::new("only", slow)]).total_timeout(5 * SECOND).build().unwrap();
    let start = Instant::now();
    assert_eq!(ask(&model).await.unwrap_err().class, Class::RateLimited);
    assert_eq!(start.elapsed(), Duration::ZERO, "waiting would be in vain");
    let hanging = scripted([ScriptedTurn::default().hang()]);
    let model = route([Endpoint::new("only", hanging)]).total_timeout(5 * SECOND).build().unwrap();
    let start = Instant::now();
    assert_eq!(ask(&model).await.unwrap_err().class, Class::Timeout);
    assert_eq!(start.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn after_the_first_word_nobody_else_is_asked_unless_the_answer_was_kept_back() {
    let broken = || {
        let error = ModelError::new(Class::Transport, "the line broke");
        scripted([text("half of").then_fail(error)])
    };
    let second = hello();
    let endpoints = || [Endpoint::new("first", broken()), Endpoint::new("second", second.clone())];
    let live = route(endpoints()).build().unwrap();
    assert_eq!(ask(&live).await.unwrap_err().class, Class::Transport);
    assert_eq!(second.call_count(), 0);
    let whole = route(endpoints()).buffering(ResponseBuffering::Buffered).build().unwrap();
    assert_eq!(ask(&whole).await.unwrap().message.text(), "hello");
    let cut = scripted([text("half of").truncate()]);
    let cut = [Endpoint::new("first", cut), Endpoint::new("second", second)];
    let whole = route(cut).buffering(ResponseBuffering::Buffered).build().unwrap();
    assert_eq!(ask(&whole).await.unwrap().message.text(), "hello");
}

#[tokio::test(start_paused = true)]
async fn credentials_take_turns_and_a_refused_one_rests() {
    let (one, two, three) = (hello(), always(Class::Auth), hello());
    let endpoint = Endpoint::new("many", one.clone())
        .credential("two", two.clone())
        .credential("three", three.clone());
    let model = route([endpoint]).build().unwrap();
    for _ in 0..6 {
        ask(&model).await.unwrap();
    }
    assert_eq!((one.call_count(), two.call_count(), three.call_count()), (3, 1, 3));
    assert_eq!(model.endpoints()[0].cooling_down, ["two"]);
    assert_eq!(model.endpoints()[0].circuit, CircuitState::Closed, "the endpoint works");
    tokio::time::advance(301 * SECOND).await;
    for _ in 0..3 {
        ask(&model).await.unwrap();
    }
    assert_eq!(two.call_count(), 2, "it had its rest");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_keeps_failing_is_left_alone_and_tried_again_later() {
    let broken = ScriptedModel::from_fn(|_, n| match n {
        0..5 => fail(Class::Overloaded, "no"),
        _ => text("back"),
    });
    let first = Endpoint::new("first", broken.clone());
    let model = route([first, Endpoint::new("second", hello())]).build().unwrap();
    for _ in 0..20 {
        assert_eq!(ask(&model).await.unwrap().message.text(), "hello");
    }
    assert_eq!(broken.call_count(), 5, "it really opens");
    assert_eq!(model.endpoints()[0].circuit, CircuitState::Open);
    tokio::time::advance(15 * SECOND).await;
    assert_eq!(model.endpoints()[0].circuit, CircuitState::HalfOpen);
    assert_eq!(ask(&model).await.unwrap().message.text(), "back");
    assert_eq!(model.endpoints()[0].circuit, CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn when_nobody_can_be_asked_the_error_says_who_and_for_how_long() {
    let broken = always(Class::Overloaded);
    let policy = CircuitBreakerConfig { failures: 1, open_for: 90 * SECOND, open_max: 90 * SECOND };
    let broken = Endpoint::new("azure", broken).circuit_breaker(policy);
    let refused = Endpoint::new("openai", always(Class::Auth));
    let model = route([broken, refused]).build().unwrap();
    let error = ask(&model).await.unwrap_err();
    assert!(error.message.contains("(tried azure: overloaded, openai: auth)"), "{error}");
    let error = ask(&model).await.unwrap_err();
    assert_eq!(error.retry_after, Some(90 * SECOND));
    for part in ["azure failed repeatedly", "openai has no usable credential", "90.0s", "300.0s"] {
        assert!(error.message.contains(part), "{part} in {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_send_calls_to_another_endpoint_before_anybody_waits() {
    let limits = RateLimits { requests_per_minute: Some(2), tokens_per_minute: None };
    let (first, second) = (hello(), hello());
    let model = route([
        Endpoint::new("first", first.clone()).limits(limits),
        Endpoint::new("second", second.clone()).limits(limits),
    ]);
    let model = model.max_wait(120 * SECOND).build().unwrap();
    let start = Instant::now();
    for _ in 0..4 {
        ask(&model).await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!((first.call_count(), second.call_count()), (2, 2));
    ask(&model).await.unwrap();
    assert_eq!(start.elapsed(), 61 * SECOND);
    let impatient = route([Endpoint::new("first", hello()).limits(limits)]).build().unwrap();
    ask(&impatient).await.unwrap();
    ask(&impatient).await.unwrap();
    let error = ask(&impatient).await.unwrap_err();
    assert_eq!(error.class, Class::RateLimited);
    assert!(error.message.contains("has reached its rate limits"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn tokens_are_reserved_before_and_corrected_after() {
    let limits = RateLimits { requests_per_minute: None, tokens_per_minute: Some(1_100) };
    let small = ScriptedModel::from_fn(|_, _| text("x").usage(Usage::new(10, 10)));
    let model = route([Endpoint::new("only", small).limits(limits)]).build().unwrap();
    let start = Instant::now();
    for _ in 0..4 {
        // The estimate is 1,024 tokens for each call, and each call used 20.
        ask(&model).await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    let mut long = ChatRequest::default();
    long.settings.max_tokens = Some(2_000);
    let error = complete(&model, long).await.unwrap_err();
    assert!(error.message.contains("below the size of this request"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_does_not_begin_in_time_is_left_for_another() {
    let slow = ScriptedModel::from_fn(|_, _| text("late").delay(60 * SECOND));
    let first = Endpoint::new("slow", slow).first_token_timeout(2 * SECOND);
    let model = route([first, Endpoint::new("quick", hello())]).build().unwrap();
    let start = Instant::now();
    assert_eq!(ask(&model).await.unwrap().message.text(), "hello");
    assert_eq!(start.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_price_is_that_of_the_endpoint_that_answers_and_the_cap_that_of_the_dearest() {
    let priced = |model: ScriptedModel, price: i64| {
        model.with_info(move |info| {
            let price = price.into();
            let (cache_read, cache_write, reasoning) = (None, None, None);
            let currency = Currency::USD;
            let (input, output) = (price, price);
            info.pricing =
                Some(Pricing { input, output, cache_read, cache_write, reasoning, currency });
            info.max_output = Some(1_000);
        })
    };
    let used = || text("x").usage(Usage::new(1_000, 0));
    let cheap = priced(scripted([used(), fail(Class::Overloaded, "no")]), 1);
    let dear = priced(scripted([used()]), 5);
    let ledger = InMemoryLedger::new("all", Money::from_micros(100_000));
    let model = route([Endpoint::new("cheap", cheap), Endpoint::new("dear", dear)])
        .budget(ledger.clone())
        .build()
        .unwrap();
    assert_eq!(model.info().pricing.unwrap().input, 5.into());
    let first = ask(&model).await.unwrap();
    assert_eq!(model.cost(&first), Some(Money::from_micros(1_000)));
    let second = ask(&model).await.unwrap();
    assert_eq!(model.cost(&second), Some(Money::from_micros(5_000)));
    let cap = &ledger.caps()[0];
    assert_eq!((cap.spent_micros, cap.reserved_micros), (6_000, 0), "the refusal was free");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_counts_with_all_that_was_set_aside_and_frees_its_probe() {
    let model = ScriptedModel::from_fn(|_, n| match n {
        0 => fail(Class::Transport, "no"),
        1 => ScriptedTurn::default().hang(),
        _ => text("hello"),
    });
    let policy = CircuitBreakerConfig { failures: 1, ..CircuitBreakerConfig::default() };
    let model =
        route([Endpoint::new("only", model).circuit_breaker(policy)]).retry(RetryPolicy::never());
    let model = model.build().unwrap();
    ask(&model).await.unwrap_err();
    tokio::time::advance(15 * SECOND).await;
    let mut probe = model.stream(ChatRequest::default());
    assert!(matches!(futures::poll!(probe.next()), std::task::Poll::Ready(Some(Ok(_)))));
    assert!(futures::poll!(probe.next()).is_pending());
    drop(probe);
    assert_eq!(ask(&model).await.unwrap().message.text(), "hello");
}

#[test]
fn what_cannot_be_a_route_is_refused() {
    let empty = RoutedModel::builder().build().unwrap_err();
    assert_eq!(empty, RouteError::Empty);
    let twins = route([Endpoint::new("a", hello()), Endpoint::new("a", hello())]);
    assert_eq!(twins.build().unwrap_err(), RouteError::DuplicateEndpoint("a".to_owned()));
    let nobody = Endpoint::with_credentials("none", [], |_| Ok::<_, Infallible>(hello())).unwrap();
    assert_eq!(route([nobody]).build().unwrap_err(), RouteError::NoCredential("none".to_owned()));
}
