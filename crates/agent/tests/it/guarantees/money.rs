//! What is used is counted, and what cannot be counted is not let through a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use provost_agent::context::{ContextConfig, Summarize};
use provost_agent::{Agent, OnLimit};
use provost_core::{EventKind, LimitKind, Limits, Money, RunSummary, StopReason, Usage};
use provost_model::{ScriptedModel, ScriptedTurn, call, text};
use serde_json::json;

use super::{long_history, priced};
use crate::support::{echo, ended, events};

/// Two rounds of calls and an answer, of which nothing says what it used.
fn untold() -> ScriptedModel {
    let round = || call("echo", json!({})).without_usage();
    priced(ScriptedModel::new().turn(round()).turn(round()).turn(text("done").without_usage()))
}

#[tokio::test]
async fn what_is_not_told_ends_a_run_that_has_a_limit_on_it() {
    let limits = [
        (LimitKind::InputTokens, Limits { input_tokens: Some(1_000_000), ..Limits::default() }),
        (LimitKind::OutputTokens, Limits { output_tokens: Some(1_000_000), ..Limits::default() }),
        (LimitKind::TotalTokens, Limits::default().total_tokens(1_000_000)),
        (LimitKind::Cost, Limits::default().cost(Money::usd(1_000.into()))),
    ];
    for (kind, limits) in limits {
        for streaming in [false, true] {
            let (model, count) = (untold(), Arc::new(AtomicUsize::new(0)));
            let agent = Agent::builder("tester", model.clone()).tool(echo(&count));
            // A last word would be one more request whose price nobody knows.
            let agent = agent.on_limit(OnLimit::FinalAnswer).limits(limits.clone());
            let summary = ended(agent.build().unwrap().run("hi"), streaming).await.unwrap();
            assert_eq!(summary.stop, StopReason::Limit, "{kind:?}");
            let reached = summary.limit.unwrap();
            assert_eq!(reached.limit, kind);
            assert!(reached.used.contains("unknown"), "{reached:?}");
            assert_eq!((model.call_count(), summary.unpriced_calls), (1, 1));
            assert_eq!(summary.cost, None);
        }
    }
}

#[tokio::test]
async fn a_stream_names_the_limit_that_cannot_be_kept() {
    let agent = Agent::builder("tester", untold()).tool(echo(&Arc::default()));
    let agent = agent.limits(Limits::default().total_tokens(1_000_000)).build().unwrap();
    let events = events(agent.run("hi").stream()).await;
    let told = events.iter().filter_map(|event| match &event.kind {
        EventKind::LimitReached(reached) => Some(reached.limit),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [LimitKind::TotalTokens]);
}

#[tokio::test]
async fn what_is_not_told_is_counted_where_nothing_limits_it() {
    for streaming in [false, true] {
        let (model, count) = (untold(), Arc::new(AtomicUsize::new(0)));
        let agent = Agent::builder("tester", model).tool(echo(&count)).build().unwrap();
        let summary = ended(agent.run("hi"), streaming).await.unwrap();
        assert_eq!((summary.text.as_str(), summary.turns), ("done", 3));
        assert_eq!((summary.unpriced_calls, count.load(Ordering::SeqCst)), (3, 2));
    }
}

#[tokio::test]
async fn a_usage_of_zero_is_told() {
    let model = priced(ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done")));
    let agent = Agent::builder("tester", model).tool(echo(&Arc::default()));
    let agent = agent.limits(Limits::default().total_tokens(10)).build().unwrap();
    let result = agent.run("hi").await.unwrap();
    assert_eq!((result.output.as_str(), result.unpriced_calls), ("done", 0));
    assert_eq!(result.cost, Some(Money::usd(0.into())));
}

/// A run whose conversation is summarized before its one answer, which costs two dollars.
async fn summarized(writer: ScriptedModel, limits: Limits) -> (RunSummary, ScriptedModel) {
    let model = priced(ScriptedModel::new().turn(text("done").usage(Usage::new(1_000, 1_000))));
    let agent = Agent::builder("tester", model.clone())
        .context(ContextConfig::new(Summarize::new(Arc::new(writer.clone()))).max_tokens(2_000))
        .limits(limits)
        .build()
        .unwrap();
    let summary = ended(agent.run("hi").history(long_history()), /*streaming*/ false).await;
    assert_eq!(writer.call_count(), 1);
    (summary.unwrap(), model)
}

fn notes() -> ScriptedTurn {
    text("notes").usage(Usage::new(3_000, 1_000))
}

#[tokio::test]
async fn what_a_summary_costs_is_part_of_the_cost() {
    let writer = priced(ScriptedModel::new().turn(notes()));
    let (summary, _) = summarized(writer, Limits::default()).await;
    assert_eq!(summary.cost, Some(Money::usd(6.into())));
    assert_eq!((summary.unpriced_calls, summary.usage), (0, Usage::new(4_000, 2_000)));
}

#[tokio::test]
async fn what_a_summary_costs_counts_for_the_limit() {
    // The limit is looked at before each model call; a second one shows that the summary alone had used it up.
    let writer = priced(ScriptedModel::new().turn(notes()));
    let model = priced(ScriptedModel::new().turn(call("echo", json!({}))).turn(text("never")));
    let agent = Agent::builder("tester", model.clone())
        .tool(echo(&Arc::default()))
        .context(ContextConfig::new(Summarize::new(Arc::new(writer))).max_tokens(2_000))
        .limits(Limits::default().cost(Money::usd(4.into())))
        .build()
        .unwrap();
    let result = agent.run("hi").history(long_history()).await.unwrap();
    assert_eq!(result.limit.as_ref().unwrap().limit, LimitKind::Cost);
    assert_eq!((result.cost, model.call_count()), (Some(Money::usd(4.into())), 1));
}

#[tokio::test]
async fn a_summary_without_a_price_counts_as_unpriced() {
    let (summary, _) = summarized(ScriptedModel::new().turn(notes()), Limits::default()).await;
    assert_eq!(summary.cost, Some(Money::usd(2.into())), "of the answer alone");
    assert_eq!(summary.unpriced_calls, 1);
}

#[tokio::test]
async fn a_summary_that_does_not_say_what_it_used_counts_as_unpriced() {
    for writer in [ScriptedModel::new(), priced(ScriptedModel::new())] {
        let writer = writer.turn(text("notes").without_usage());
        let (summary, _) = summarized(writer, Limits::default()).await;
        assert_eq!(summary.unpriced_calls, 1);
    }
}

#[tokio::test]
async fn a_last_word_is_not_asked_for_when_the_money_is_gone_too() {
    for (used, asked) in [(1_000, 2), (10, 3)] {
        let turn = |used| call("echo", json!({})).usage(Usage::new(used, 0));
        let model = priced(
            ScriptedModel::new()
                .turn(turn(1))
                .turn(turn(used))
                .turn(text("last").usage(Usage::new(1, 0))),
        );
        let agent = Agent::builder("tester", model.clone())
            .tool(echo(&Arc::default()))
            .on_limit(OnLimit::FinalAnswer)
            .limits(Limits::default().turns(1).cost(Money::usd(1.into())))
            .build()
            .unwrap();
        let result = agent.run("hi").await.unwrap();
        assert_eq!((model.call_count(), result.turns), (asked, asked as u32));
        assert_eq!(result.stop, StopReason::Limit);
        let kind = if asked == 2 { LimitKind::Cost } else { LimitKind::Turns };
        assert_eq!(result.limit.as_ref().unwrap().limit, kind);
    }
}
