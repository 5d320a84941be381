//! Tests of the strategies.

mod properties;
mod summarize;

use futures::FutureExt as _;
use provost_core::{ToolCall, ToolResult, ToolResultPart};
use provost_model::{ModelErrorClass, ScriptedModel, fail, text};
use serde_json::json;

use super::*;

fn shared(messages: impl IntoIterator<Item = Message>) -> Vec<Arc<Message>> {
    messages.into_iter().map(Arc::new).collect()
}

fn sizes(messages: &[Arc<Message>]) -> Vec<u64> {
    messages.iter().map(|message| count_message(&HeuristicCounter, message)).collect()
}

fn size(messages: &[Arc<Message>]) -> u64 {
    sizes(messages).iter().sum()
}

fn fit(
    strategy: &dyn ContextStrategy,
    messages: &[Arc<Message>],
    budget: u64,
) -> Result<CompactionResult, ContextError> {
    let input = CompactionInput {
        messages,
        tokens: &sizes(messages),
        fixed_tokens: 0,
        budget,
        now: Timestamp::from_millis(42),
    };
    // A scripted model answers at once, so nothing here ever waits.
    strategy.compact(input).now_or_never().unwrap()
}

/// Letters stand for messages: user, assistant, summary, and `t` for a call with its result.
fn history(letters: &str) -> Vec<Arc<Message>> {
    let messages = letters.chars().enumerate().flat_map(|(index, letter)| {
        let said = format!("{letter}{index} {}", "word ".repeat(20));
        let call = ToolCall::new(format!("c{index}"), "look", &json!({}));
        match letter {
            'u' => vec![Message::user(said)],
            'a' => vec![Message::assistant(said)],
            's' => vec![Message::summary(said)],
            _ => vec![
                Message::calls([call.clone()]),
                Message::results([ToolResult::text(&call, said.repeat(10))]),
            ],
        }
    });
    shared(messages)
}

/// Returns the same letters, with their places in the history they come from.
fn kept(messages: &[Arc<Message>]) -> String {
    let mut names = Vec::new();
    for message in messages {
        let name = match message.role {
            Role::Tool => message.tool_results().map(|r| r.call_id.replace('c', "t")).collect(),
            _ => message.first_text().split(' ').next().unwrap_or("").to_owned(),
        };
        if !name.is_empty() {
            names.push(name);
        }
    }
    names.join(" ")
}

#[test]
fn a_conversation_that_fits_comes_back_as_it_is() {
    let messages = history("sutau");
    let model = ScriptedModel::new();
    let strategies: [&dyn ContextStrategy; 5] = [
        &Truncate::new(),
        &SlidingWindow::keep_last(1),
        &ClearToolResults::new().keep_groups(0),
        &Summarize::new(Arc::new(model.clone())),
        &StrategyChain::clear_tool_results()
            .then_summarize(Arc::new(model.clone()))
            .then_truncate(),
    ];
    for strategy in strategies {
        let fitted = fit(strategy, &messages, size(&messages)).unwrap();
        assert_eq!(fitted, CompactionResult::messages(messages.clone()));
    }
    assert_eq!(model.call_count(), 0);
}

#[test]
fn truncate_drops_whole_groups_from_the_front_and_begins_with_a_user() {
    let messages = history("utuauau");
    let all = size(&messages);
    let fitted = fit(&Truncate::new(), &messages, all - 1).unwrap();
    assert_eq!(kept(&fitted.messages), "u2 a3 u4 a5 u6");
    assert_eq!(fitted.session, None);
    let last = size(&messages[messages.len() - 1..]);
    let fitted = fit(&Truncate::new(), &messages, last).unwrap();
    assert_eq!(kept(&fitted.messages), "u6");
    let error = fit(&Truncate::new(), &messages, last - 1).unwrap_err();
    assert!(
        matches!(error, ContextError::TooLarge { needed, budget } if needed == last && budget == last - 1),
        "{error}"
    );
}

#[test]
fn truncate_keeps_the_request_when_a_long_run_of_tools_follows_it() {
    let messages = history("uauttttt");
    let fitted = fit(&Truncate::new(), &messages, size(&messages) / 2).unwrap();
    let kept = kept(&fitted.messages);
    assert!(kept.starts_with("u2 t") && kept.ends_with("t7"), "{kept}");
}

#[test]
fn truncate_keeps_the_summary_as_long_as_it_can() {
    let messages = history("sauauau");
    let one = size(&messages[..1]);
    let fitted = fit(&Truncate::new(), &messages, one * 4).unwrap();
    assert_eq!(kept(&fitted.messages), "s0 a5 u6");
    let fitted = fit(&Truncate::new(), &messages, one * 2).unwrap();
    assert_eq!(kept(&fitted.messages), "s0 u6");
    let fitted = fit(&Truncate::new(), &messages, one).unwrap();
    assert_eq!(kept(&fitted.messages), "u6");
}

#[test]
fn truncate_keeps_the_least_number_of_messages() {
    let messages = history("uuuuu");
    let one = size(&messages[..1]);
    let strategy = Truncate::new().min_messages(3);
    let fitted = fit(&strategy, &messages, one * 3).unwrap();
    assert_eq!(kept(&fitted.messages), "u2 u3 u4");
    assert!(matches!(fit(&strategy, &messages, one * 2), Err(ContextError::TooLarge { .. })));
}

#[test]
fn sliding_keeps_the_window_the_request_and_the_summary() {
    for (letters, keep, expected) in [
        ("uauau", 2, "u4"),
        ("uauau", 3, "u2 a3 u4"),
        ("utau", 3, "u3"),
        ("utau", 4, "u3"),
        ("utaua", 2, "u3 a4"),
        ("uttt", 3, "u0 t3"),
        ("uttt", 4, "u0 t2 t3"),
        ("sauau", 2, "s0 a3 u4"),
        ("uuut", 1, "u2 t3"),
    ] {
        let messages = history(letters);
        let fitted = fit(&SlidingWindow::keep_last(keep), &messages, size(&messages) - 1).unwrap();
        assert_eq!(kept(&fitted.messages), expected, "{letters}, {keep}");
    }
    let messages = history("ut");
    assert!(matches!(
        fit(&SlidingWindow::default(), &messages, 5),
        Err(ContextError::TooLarge { .. })
    ));
}

#[test]
fn old_large_results_become_a_note_and_new_ones_stay() {
    let mut messages = history("utttu");
    let failed = ToolCall::new("c9", "look", &json!({}));
    let mut old = ToolResult::error(&failed, "stack trace ".repeat(100));
    old.metadata = Some(json!({"rows": 1}));
    messages.splice(1..1, shared([Message::calls([failed]), Message::results([old])]));
    let strategy = ClearToolResults::new().keep_groups(2);
    let fitted = fit(&strategy, &messages, 100).unwrap();
    assert_eq!(fitted.messages.len(), messages.len());
    let results: Vec<_> =
        fitted.messages.iter().flat_map(|message| message.tool_results()).collect();
    assert!(results[0].to_text().contains("failed") && results[0].is_error);
    assert_eq!(results[0].metadata, Some(json!({"rows": 1})));
    for shortened in &results[1..3] {
        let note = shortened.to_text();
        assert!(note.contains("succeeded") && note.contains("left out"), "{note}");
        assert!(!shortened.is_error);
    }
    assert!(results[3].to_text().len() > 400, "the newest stays");
    let again = fit(&strategy, &fitted.messages, 100).unwrap();
    assert_eq!(again, CompactionResult::messages(fitted.messages));
}

#[test]
fn shortening_stops_when_it_fits_and_spares_small_pending_and_said_things() {
    let messages = history("utttttuuuuu");
    let fitted = fit(&ClearToolResults::new(), &messages, size(&messages) - 1).unwrap();
    let changed: Vec<_> = (0..messages.len())
        .filter(|&index| !Arc::ptr_eq(&messages[index], &fitted.messages[index]))
        .collect();
    assert_eq!(changed, [2, 4], "the oldest, with room for what comes");

    let call = ToolCall::new("c1", "look", &json!({}));
    let pending = ToolResult { pending: true, ..ToolResult::text(&call, "p".repeat(1000)) };
    let picture = ToolResult {
        parts: vec![ToolResultPart::Image(provost_core::Image::url("https://example.test/a.png"))],
        ..ToolResult::text(&call, "")
    };
    let messages = shared([
        Message::user("u".repeat(1000)),
        Message::calls([call.clone(), call.clone(), call.clone()]),
        Message::results([pending.clone(), ToolResult::text(&call, "small"), picture]),
    ]);
    let fitted = fit(&ClearToolResults::new().keep_groups(0), &messages, 10).unwrap();
    let results: Vec<_> = fitted.messages[2].tool_results().collect();
    assert_eq!(results[0], &pending);
    assert_eq!(results[1].to_text(), "small");
    assert!(results[2].to_text().contains("succeeded"), "images are large");
}

#[test]
fn a_chain_takes_the_cheapest_step_that_does_it() {
    let model = ScriptedModel::new().turn(text("notes").usage(Usage::new(7, 3)));
    let chain =
        StrategyChain::clear_tool_results().then_summarize(Arc::new(model.clone())).then_truncate();
    assert_eq!(chain.name(), "shorten_tool_results+summarize+truncate");
    let messages = history("uttttauauau");
    let all = size(&messages);
    let fitted = fit(&chain, &messages, all - 1).unwrap();
    assert_eq!((fitted.messages.len(), fitted.session), (15, None));
    assert_eq!(model.call_count(), 0);

    let fitted = fit(&chain, &messages, all / 4).unwrap();
    assert_eq!(kept(&fitted.messages), "notes u6 a7 u8 a9 u10");
    assert_eq!(fitted.usage, Usage::new(7, 3));
    assert_eq!(model.call_count(), 1);

    let last = size(&messages[14..]);
    let model = ScriptedModel::new().turn(text("notes"));
    let chain = StrategyChain::new().then_summarize(Arc::new(model)).then_truncate();
    let fitted = fit(&chain, &messages, last + 15).unwrap();
    assert_eq!(kept(&fitted.messages), "notes u10");
    assert_eq!(fitted.session.unwrap().add.len(), 6, "the session keeps what is not sent");
}

#[test]
fn a_chain_passes_over_a_model_that_fails() {
    let broken = || Arc::new(ScriptedModel::new().turn(fail(ModelErrorClass::Overloaded, "busy")));
    let messages = history("uauauauau");
    let chain = StrategyChain::new().then_summarize(broken()).then_truncate();
    let fitted = fit(&chain, &messages, size(&messages) / 2).unwrap();
    assert_eq!(kept(&fitted.messages), "u6 a7 u8");
    let chain = StrategyChain::clear_tool_results().then_summarize(broken());
    let error = fit(&chain, &messages, size(&messages) / 2).unwrap_err();
    assert!(matches!(error, ContextError::Model(_)), "{error}");
    let unable = fit(&StrategyChain::new().then_truncate(), &messages, 3).unwrap_err();
    assert!(matches!(unable, ContextError::TooLarge { .. }), "{unable}");
}

#[test]
fn session_updates_join_as_if_done_one_after_the_other() {
    let start = history("uauau");
    let new = history("sauu");
    for (pop, next_pop) in [(0, 0), (2, 1), (2, 3), (1, 5), (3, 9)] {
        let first = SessionChange { pop, add: new[..3].to_vec() };
        let second = SessionChange { pop: next_pop, add: new[3..].to_vec() };
        let apart = change(&change(&start, &first), &second);
        assert_eq!(change(&start, &first.then(second)), apart);
    }
}

#[test]
fn active_begins_at_the_last_summary() {
    assert_eq!(since_last_summary(&[]), []);
    let messages = history("uasuasu");
    assert_eq!(kept(since_last_summary(&messages)), "s5 u6");
    let messages = history("ua");
    assert_eq!(kept(since_last_summary(&messages)), "u0 a1");
}

fn change(stored: &[Arc<Message>], update: &SessionChange) -> Vec<Arc<Message>> {
    let mut stored = stored[..stored.len().saturating_sub(update.pop)].to_vec();
    stored.extend_from_slice(&update.add);
    stored
}
