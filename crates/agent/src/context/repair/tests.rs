use proptest::prelude::*;
use provost_core::Timestamp;
use serde_json::json;

use super::*;

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "look", &json!({}))
}

fn result(id: &str) -> ToolResult {
    ToolResult::text(&call(id), format!("result of {id}"))
}

fn calls(ids: &[&str]) -> Message {
    Message::calls(ids.iter().map(|id| call(id)))
}

fn results(ids: &[&str]) -> Message {
    Message::results(ids.iter().map(|id| result(id)))
}

fn check(history: impl IntoIterator<Item = Message>, repairs: usize) -> Vec<Message> {
    let messages: Vec<_> = history.into_iter().map(Arc::new).collect();
    let (repaired, found) = repair(messages);
    assert_eq!(found, repairs, "{repaired:#?}");
    let (again, more) = repair(repaired.clone());
    assert_eq!((more, &again), (0, &repaired), "what is repaired stays");
    repaired.iter().map(|message| Message::clone(message)).collect()
}

#[test]
fn a_good_history_comes_back_as_the_same_messages() {
    let messages: Vec<_> = [
        Message::summary("before"),
        Message::user("hi"),
        calls(&["a", "b"]),
        results(&["a", "b"]),
        calls(&["a"]),
        Message::results([ToolResult::placeholder(&call("a"))]),
        calls(&["x", "y"]),
        results(&["y", "x"]),
        Message::assistant("done"),
    ]
    .into_iter()
    .map(Arc::new)
    .collect();
    let kept: Vec<_> = messages.iter().map(Arc::as_ptr).collect();
    let storage = messages.as_ptr();
    let (repaired, repairs) = repair(messages);
    assert_eq!(repairs, 0);
    assert_eq!(repaired.as_ptr(), storage, "not even the list is copied");
    assert_eq!(repaired.iter().map(Arc::as_ptr).collect::<Vec<_>>(), kept);
    assert_eq!(repair(Vec::new()), (Vec::new(), 0));
}

#[test]
fn a_call_without_a_result_gets_one_directly_after_it() {
    let asked = calls(&["a", "b", "c"]).at(Timestamp::from_millis(7));
    let history = [asked.clone(), Message::user("still there?")];
    let repaired = check(history, 3);
    assert_eq!(repaired.len(), 3);
    assert_eq!((&repaired[0], repaired[1].role), (&asked, Role::Tool));
    assert_eq!(repaired[1].created_at.as_millis(), 7);
    let ids: Vec<_> =
        repaired[1].tool_results().map(|r| (r.call_id.as_str(), r.is_error)).collect();
    assert_eq!(ids, [("a", true), ("b", true), ("c", true)]);

    let repaired = check([asked.clone(), results(&["b"])], 2);
    let texts: Vec<_> = repaired[1].tool_results().map(ToolResult::to_text).collect();
    assert_eq!(texts, [MISSING_RESULT, "result of b", MISSING_RESULT]);
    assert_eq!(check([asked], 3).len(), 2, "at the end too");
}

#[test]
fn results_without_a_call_go() {
    let user = || Message::user("hi");
    assert_eq!(check([results(&["a", "b"]), user()], 2), [user()]);
    assert_eq!(check([user(), results(&["a"])], 1), [user()]);
    let repaired = check([calls(&["a"]), results(&["z", "a"])], 1);
    assert_eq!(repaired[1], results(&["a"]));
    // A result that does not follow its call directly is one without a call.
    let repaired = check([calls(&["a"]), user(), results(&["a"])], 2);
    assert_eq!(repaired.len(), 3);
    assert!(repaired[1].tool_results().next().unwrap().is_error);
}

#[test]
fn second_results_go_and_the_real_one_beats_its_placeholder() {
    let repaired = check([calls(&["a", "b"]), results(&["a", "b", "a"])], 1);
    assert_eq!(repaired[1], results(&["a", "b"]));
    let both = Message::results([ToolResult::placeholder(&call("a")), result("a")]);
    assert_eq!(check([calls(&["a"]), both], 1)[1], results(&["a"]));
    let split = [calls(&["a", "b"]), results(&["b"]), results(&["a"])];
    assert_eq!(check(split, 1)[1], results(&["a", "b"]));
}

#[test]
fn a_pending_result_is_an_answer() {
    let waiting = Message::results([ToolResult::placeholder(&call("a"))]);
    assert_eq!(check([calls(&["a"]), waiting.clone()], 0), [calls(&["a"]), waiting]);
}

#[test]
fn empty_and_system_messages_go_and_do_not_separate_calls_from_results() {
    let mut system = Message::user("You are a pirate.");
    system.role = Role::System;
    let nothing = Message::new(Role::Assistant, vec![], Timestamp::default());
    let history = [
        system.clone(),
        Message::user(""),
        Message::user("hi"),
        calls(&["a"]),
        system,
        nothing,
        results(&["a"]),
    ];
    assert_eq!(check(history, 4), [Message::user("hi"), calls(&["a"]), results(&["a"])]);
}

#[test]
fn calls_and_results_in_foreign_messages_go() {
    let mut user = Message::user("hi");
    user.parts.push(ContentPart::ToolCall(call("a")));
    user.parts.push(ContentPart::ToolResult(result("a")));
    let mut assistant = calls(&["b"]);
    assistant.parts.push(ContentPart::ToolResult(result("b")));
    let only =
        Message::new(Role::User, vec![ContentPart::ToolResult(result("z"))], Timestamp::default());
    let repaired = check([user, assistant, results(&["b"]), only], 4);
    assert_eq!(repaired, [Message::user("hi"), calls(&["b"]), results(&["b"])]);
}

#[test]
fn repeated_call_ids_are_matched_one_by_one() {
    check([calls(&["a", "a"]), results(&["a", "a"])], 0);
    let repaired = check([calls(&["a", "a"]), results(&["a"])], 1);
    assert_eq!(repaired[1].tool_results().count(), 2);
}

fn part() -> impl Strategy<Value = ContentPart> {
    let id = prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![
        "[a-z]{0,3}".prop_map(ContentPart::text),
        id.clone().prop_map(|id| ContentPart::ToolCall(call(id))),
        (id, any::<bool>()).prop_map(|(id, pending)| {
            ContentPart::ToolResult(ToolResult { pending, ..result(id) })
        }),
        Just(ContentPart::Unknown(json!({"type": "new"}))),
    ]
}

fn message() -> impl Strategy<Value = Arc<Message>> {
    let role = prop::sample::select(vec![
        Role::System,
        Role::User,
        Role::Assistant,
        Role::Tool,
        Role::Summary,
    ]);
    (role, prop::collection::vec(part(), 0..5))
        .prop_map(|(role, parts)| Arc::new(Message::new(role, parts, Timestamp::default())))
}

proptest! {
    #[test]
    fn whatever_comes_in_what_goes_out_is_valid(history in prop::collection::vec(message(), 0..12)) {
        let (repaired, repairs) = repair(history.clone());
        prop_assert_eq!(repairs == 0, repaired == history);
        let (again, more) = repair(repaired.clone());
        prop_assert_eq!(more, 0);
        prop_assert_eq!(&again, &repaired);
        // Said independently of how repair works: every call is answered once by the next message, and nothing else is.
        for (index, message) in repaired.iter().enumerate() {
            let mut wanted: Vec<_> = message.tool_calls().map(|call| call.id.clone()).collect();
            let next = repaired.get(index + 1).filter(|next| next.role == Role::Tool);
            let mut found: Vec<_> = next.iter().flat_map(|next| next.tool_results()).map(|r| r.call_id.clone()).collect();
            wanted.sort();
            found.sort();
            prop_assert_eq!(wanted, found);
            prop_assert!(message.role != Role::System && !message.is_empty());
        }
        prop_assert!(repaired.first().is_none_or(|first| first.role != Role::Tool));
    }
}
