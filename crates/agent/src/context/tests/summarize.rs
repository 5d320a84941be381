//! Tests of summaries.

use provost_core::{ContentPart, Reasoning, StopReason};
use provost_session::{InMemorySessionStore, SessionChange, SessionStore, SqliteSessionStore};

use super::*;

fn summarizer(notes: &str) -> (ScriptedModel, Summarize) {
    let model = ScriptedModel::new().turn(text(notes));
    (model.clone(), Summarize::new(Arc::new(model)))
}

/// Returns the stored session after a compaction.
fn apply(stored: &[Arc<Message>], fitted: &CompactionResult) -> Vec<Arc<Message>> {
    change(stored, fitted.session.as_ref().unwrap())
}

#[test]
fn s027_s028_s029_summarize_replaces_the_older_part_and_keeps_it_stored() {
    let (model, strategy) = summarizer("They said hello.");
    let strategy = strategy.keep_recent(1);
    let first = history("u");
    let fitted = fit(&strategy, &first, 1).unwrap();
    assert_eq!(fitted, CompactionResult::messages(first));
    assert_eq!(model.call_count(), 0, "nothing to summarize yet");

    let messages = history("uau");
    let fitted = fit(&strategy, &messages, 1).unwrap();
    assert_eq!(model.call_count(), 1);
    assert_eq!(fitted.messages.len(), 2);
    assert_eq!(fitted.messages[0].role, Role::Summary);
    assert_eq!(fitted.messages[0].text(), "They said hello.");
    assert_eq!(fitted.messages[0].created_at.as_millis(), 42);
    assert_eq!(fitted.messages[0].model.as_deref(), Some("scripted-1"));
    assert!(Arc::ptr_eq(&fitted.messages[1], &messages[2]));
    let stored = apply(&messages, &fitted);
    let roles: Vec<_> = stored.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Summary, Role::User]);
    assert_eq!(since_last_summary(&stored), fitted.messages);
}

#[tokio::test]
async fn s030_a_summary_goes_through_every_store_and_is_there_once() {
    let dir = tempfile::TempDir::new().unwrap();
    let sqlite = SqliteSessionStore::open(dir.path().join("s.db"), Default::default()).unwrap();
    let stores: [Arc<dyn SessionStore>; 2] =
        [Arc::new(InMemorySessionStore::new()), Arc::new(sqlite)];
    for store in stores {
        let messages = history("uautau");
        let change = SessionChange { pop: 0, add: messages.clone() };
        let base = store.commit("chat", 0, change).await.unwrap();
        let (_, strategy) = summarizer("notes");
        let fitted = fit(&strategy.keep_recent(2), &messages, 10).unwrap();
        store.commit("chat", base, fitted.session.clone().unwrap()).await.unwrap();
        let stored = store.load("chat").await.unwrap().unwrap().messages;
        assert_eq!(kept(&stored), "u0 a1 u2 t3 notes a4 u5");
        assert_eq!(since_last_summary(&stored), fitted.messages);
        let summaries = stored.iter().filter(|m| m.role == Role::Summary).count();
        assert_eq!(summaries, 1);
    }
}

#[test]
fn s031_s032_what_was_compacted_is_not_summarized_again_while_it_fits() {
    let (model, strategy) = summarizer("notes");
    let mut stored = history("uauau");
    let budget = size(&stored) - 1;
    let fitted = fit(&strategy.clone().keep_recent(1), &stored, budget).unwrap();
    stored = apply(&stored, &fitted);
    stored.push(Arc::new(Message::assistant("ok")));
    stored.push(Arc::new(Message::user("and now?")));
    // The whole record is too large, what is sent of it is not.
    assert!(size(&stored) > budget);
    let again = fit(&strategy, &stored, budget).unwrap();
    assert_eq!(again, CompactionResult::messages(since_last_summary(&stored)));
    assert_eq!(model.call_count(), 1);
}

#[test]
fn a_summary_takes_in_the_one_before_it() {
    let (model, strategy) = summarizer("new notes");
    let messages = history("suauau");
    let fitted = fit(&strategy.keep_recent(2), &messages, 10).unwrap();
    assert_eq!(kept(&fitted.messages), "new a4 u5");
    let prompt = model.request(0).messages[0].text();
    assert!(prompt.starts_with("Earlier notes: s0 "), "{prompt}");
    assert!(prompt.contains("User: u3") && !prompt.contains("a4"), "{prompt}");
    assert!(model.request(0).system.is_some());
}

#[test]
fn summarize_keeps_the_request_word_for_word_and_groups_whole() {
    let (_, strategy) = summarizer("notes");
    let messages = history("uauttt");
    let fitted = fit(&strategy.keep_recent(3), &messages, 10).unwrap();
    assert_eq!(kept(&fitted.messages), "notes u2 t4 t5");
    assert_eq!(fitted.session.as_ref().unwrap().pop, 4);
    let stored = apply(&messages, &fitted);
    assert_eq!(since_last_summary(&stored), fitted.messages);
    // Only the request is old now: asking the model again would gain nothing.
    let model = ScriptedModel::new();
    let again = Summarize::new(Arc::new(model.clone())).keep_recent(3);
    let unchanged = fit(&again, &fitted.messages, 10).unwrap();
    assert_eq!(unchanged, CompactionResult::messages(fitted.messages));
    assert_eq!(model.call_count(), 0);
}

#[test]
fn s223_the_summarizer_sees_what_was_said_and_never_reasoning() {
    let (model, strategy) = summarizer("notes");
    let call = ToolCall::new("c1", "read_mail", &json!({"secret": "argument"}));
    let mut answer = Message::calls([call.clone()]);
    answer.parts.insert(
        0,
        ContentPart::Reasoning(Reasoning { text: "private thought".into(), opaque: None }),
    );
    answer.append_text("Let me look.");
    let messages = shared([
        Message::user("Any mail? ".repeat(50)),
        answer,
        Message::results([ToolResult::text(&call, "private mail")]),
        Message::assistant("None."),
        Message::user("Thanks"),
    ]);
    fit(&strategy.keep_recent(1), &messages, 10).unwrap();
    let prompt = model.request(0).messages[0].text();
    for seen in ["Any mail?", "Let me look.", "None.", "read_mail"] {
        assert!(prompt.contains(seen), "{seen} in {prompt}");
    }
    for hidden in ["private thought", "private mail", "argument", "Thanks"] {
        assert!(!prompt.contains(hidden), "{hidden} in {prompt}");
    }
}

#[test]
fn the_summarizer_is_not_sent_more_than_it_can_take() {
    let model =
        ScriptedModel::new().turn(text("notes")).with_info(|info| info.context_window = Some(150));
    let messages = history("suauauau");
    let strategy = Summarize::new(Arc::new(model.clone())).keep_recent(1);
    fit(&strategy, &messages, 10).unwrap();
    let prompt = model.request(0).messages[0].text();
    assert!(HeuristicCounter.count(&prompt) < 150, "{prompt}");
    assert!(prompt.starts_with("Earlier notes") && prompt.contains("left out here"), "{prompt}");
    assert!(prompt.contains("a6") && !prompt.contains("u1"), "{prompt}");
}

#[test]
fn bad_summaries_are_errors_and_long_ones_are_not_used() {
    let messages = history("uauau");
    for turn in [
        text("  "),
        text("I cannot do that.").stop(StopReason::Refusal),
        fail(ModelErrorClass::Overloaded, "busy"),
    ] {
        let strategy = Summarize::new(Arc::new(ScriptedModel::new().turn(turn))).keep_recent(1);
        let error = fit(&strategy, &messages, 10).unwrap_err();
        assert!(matches!(error, ContextError::Model(_)), "{error}");
    }
    let usage = Usage::new(100, 900);
    let turn = text("blah ".repeat(1000)).usage(usage);
    let strategy = Summarize::new(Arc::new(ScriptedModel::new().turn(turn))).keep_recent(1);
    let fitted = fit(&strategy, &messages, 10).unwrap();
    assert_eq!(fitted.messages, messages);
    assert_eq!((fitted.session, fitted.usage), (None, usage));
}
