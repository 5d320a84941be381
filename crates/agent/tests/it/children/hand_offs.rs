//! Giving the conversation to another agent.

use std::sync::Arc;

use provost_agent::hook::HookDecision;
use provost_agent::{Agent, Handoff, HistoryPolicy};
use provost_core::{EventKind, Message, Role};
use provost_model::{ScriptedModel, call, calls, text};
use provost_tool::{DependencyType, ToolError, tool_fn};
use serde_json::json;

use super::told;
use crate::support::{Say, events, final_text};

fn transfer(agent: &str) -> provost_model::ScriptedTurn {
    call(format!("transfer_to_{agent}"), json!({}))
}

fn target(model: &ScriptedModel) -> Agent {
    Agent::builder("billing", model.clone()).instructions("Bill.").build().unwrap()
}

fn front(model: &ScriptedModel, handoff: Handoff) -> Agent {
    Agent::builder("front", model.clone()).instructions("Front.").handoff(handoff).build().unwrap()
}

fn money(to: &Agent) -> Handoff {
    Handoff::to(to, "Money questions")
}

#[tokio::test]
async fn an_agent_that_lacks_something_is_not_given_the_conversation() {
    struct Ledger;
    let book = tool_fn("book", "Books", |_cx, _args: Say| async { Ok::<_, ToolError>("booked") });
    let book = book.unwrap().with_spec(|spec| spec.needs(DependencyType::of::<Ledger>()));
    let billing_model = ScriptedModel::new().turn(text("you owe nothing"));
    let billing = Agent::builder("billing", billing_model.clone()).tool(book).build().unwrap();
    let model = ScriptedModel::new().turn(transfer("billing")).turn(text("I cannot say"));
    let result = front(&model, money(&billing)).run("what do I owe?").await.unwrap();
    assert_eq!(result.output, "I cannot say");
    let result = model.request(1).last_tool_result().unwrap().clone();
    assert!(result.is_error && told(&model, 1).contains("Ledger"), "{result:?}");
    let model = ScriptedModel::new().turn(transfer("billing"));
    let run = front(&model, money(&billing)).run("what do I owe?").dep(Ledger);
    assert_eq!(run.await.unwrap().output, "you owe nothing");
}

#[tokio::test]
async fn s147_a_hand_off_is_told_and_then_the_targets_answer() {
    let billing_model = ScriptedModel::new().turn(text("you owe nothing"));
    let billing =
        Agent::builder("billing", billing_model.clone()).instructions("Bill.").build().unwrap();
    let front_model =
        ScriptedModel::new().turn(call("transfer_to_billing", json!({"reason": "money"})));
    let front = Agent::builder("front", front_model)
        .instructions("Front.")
        .handoff(Handoff::to(&billing, "Money questions"))
        .build()
        .unwrap();
    let events = events(front.run("what do I owe?").stream()).await;
    assert_eq!(final_text(&events), "you owe nothing");
    let EventKind::Finished { summary } = &events.last().unwrap().kind else { panic!() };
    assert_eq!(summary.agent, "billing");
    let handed = events.iter().find_map(|event| match &event.kind {
        EventKind::HandedOff(told) => Some(told),
        _ => None,
    });
    let handed = handed.expect("a hand-off is told");
    assert_eq!((handed.to.as_str(), handed.reason.as_deref()), ("billing", Some("money")));
    let seen = billing_model.request(0);
    assert_eq!(seen.system.as_deref(), Some("Bill."));
    assert_eq!(seen.messages[0].text(), "what do I owe?");
    assert!(seen.messages[1].tool_calls().any(|call| call.name == "transfer_to_billing"));
    assert_eq!(&*events.last().unwrap().agent, "billing");
}

#[tokio::test]
async fn s151_agents_that_hand_over_to_each_other_come_to_an_end() {
    let to = |agent: &str| call(format!("transfer_to_{agent}"), json!({}));
    let a_model = ScriptedModel::new().turn(to("b")).turn(to("b")).turn(text("a ends it"));
    let b_model = ScriptedModel::new().turn(to("a")).turn(to("a"));
    let a = Agent::builder("a", a_model).max_handoffs(4).build_cyclic(|a, builder| {
        let b = Agent::builder("b", b_model).handoff(Handoff::to(a, "a")).build()?;
        Ok(builder.handoff(Handoff::to(&b, "b")))
    });
    let a = a.unwrap();
    let result = a.run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.agent.as_str()), ("a ends it", "a"));
}

#[tokio::test]
async fn agents_in_a_cycle_are_freed_with_their_owner() {
    let marker = Arc::new(());
    let held = Arc::clone(&marker);
    let model = ScriptedModel::new().turn(transfer("b")).turn(text("a ends it"));
    let b_model = ScriptedModel::new().turn(transfer("a"));
    let mut b = None;
    let a = Agent::builder("a", model).build_cyclic(|a, builder| {
        let hold = tool_fn("hold", "Holds", move |_cx, _args: Say| {
            let held = Arc::clone(&held);
            async move { Ok::<_, ToolError>(format!("{held:?}")) }
        });
        let back = Handoff::to(a, "a");
        let built = Agent::builder("b", b_model).tool(hold.unwrap()).handoff(back).build()?;
        Ok(builder.handoff(Handoff::to(&*b.insert(built), "b")))
    });
    let a = a.unwrap();
    drop(b);
    let run = a.run("go");
    // The run keeps the agent, also while `b` has the conversation.
    drop(a);
    assert_eq!(run.await.unwrap().output, "a ends it");
    assert_eq!(Arc::strong_count(&marker), 1);
}

#[tokio::test]
async fn an_agent_whose_owner_is_gone_cannot_hand_off_to_it() {
    let above = ScriptedModel::new().turn(transfer("owner")).turn(text("mine"));
    let mut inner = None;
    let owner = Agent::builder("owner", ScriptedModel::new()).build_cyclic(|owner, builder| {
        let back = Handoff::to(owner, "All else");
        let built = Agent::builder("inner", above.clone()).handoff(back).build()?;
        Ok(builder.handoff(Handoff::to(&*inner.insert(built), "inner")))
    });
    drop(owner.unwrap());
    let result = inner.unwrap().run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.agent.as_str()), ("mine", "inner"));
    assert!(told(&above, 1).contains("`owner` no longer exists"), "{}", told(&above, 1));
}

#[tokio::test]
async fn s143_the_target_answers_once_and_the_result_names_it() {
    let below = ScriptedModel::new().turn(text("nothing"));
    let above = ScriptedModel::new().turn(transfer("billing"));
    let result = front(&above, money(&target(&below))).run("what do I owe?").await.unwrap();
    assert_eq!((result.output.as_str(), result.agent.as_str()), ("nothing", "billing"));
    assert_eq!(below.call_count(), 1);
}

#[tokio::test]
async fn s144_a_call_of_an_unknown_tool_hands_nothing_over() {
    let below = ScriptedModel::new();
    let above = ScriptedModel::new().turn(transfer("nobody")).turn(text("I answer"));
    let result = front(&above, money(&target(&below))).run("hi").await.unwrap();
    assert_eq!((result.output.as_str(), result.agent.as_str()), ("I answer", "front"));
    assert_eq!(below.call_count(), 0);
}

#[tokio::test]
async fn s145_a_chain_ends_with_the_last_agents_answer() {
    let last = Agent::builder("c", ScriptedModel::new().turn(text("from c"))).build().unwrap();
    let middle = Agent::builder("b", ScriptedModel::new().turn(transfer("c")))
        .handoff(Handoff::to(&last, "c"))
        .build()
        .unwrap();
    let first = Agent::builder("a", ScriptedModel::new().turn(transfer("b")))
        .handoff(Handoff::to(&middle, "b"))
        .build()
        .unwrap();
    let result = first.run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.agent.as_str()), ("from c", "c"));
}

#[tokio::test]
async fn s146_the_reason_may_be_missing() {
    let below = ScriptedModel::new().turn(text("nothing"));
    let above = ScriptedModel::new().turn(transfer("billing"));
    let events = events(front(&above, money(&target(&below))).run("hi").stream()).await;
    let handed = events.iter().find_map(|event| match &event.kind {
        EventKind::HandedOff(told) => Some(told.reason.clone()),
        _ => None,
    });
    assert_eq!(handed, Some(None));
}

#[tokio::test]
async fn s148_the_last_event_names_the_target() {
    let below = ScriptedModel::new().turn(text("nothing"));
    let above = ScriptedModel::new().turn(transfer("billing"));
    let events = events(front(&above, money(&target(&below))).run("hi").stream()).await;
    assert_eq!(final_text(&events), "nothing");
    let EventKind::Finished { summary } = &events.last().unwrap().kind else { panic!() };
    assert_eq!(summary.agent, "billing");
}

#[tokio::test]
async fn s149_the_target_sees_the_user_and_the_source() {
    let below = ScriptedModel::new().turn(text("nothing"));
    let above = ScriptedModel::new().turn(transfer("billing").text("One moment."));
    front(&above, money(&target(&below))).run("what do I owe?").await.unwrap();
    let seen = below.request(0);
    assert_eq!(seen.messages[0].text(), "what do I owe?");
    assert_eq!(
        (seen.messages[1].role, seen.messages[1].text().as_str()),
        (Role::Assistant, "One moment.")
    );
}

#[tokio::test]
async fn s150_after_it_there_is_one_system_message_the_targets() {
    let below = ScriptedModel::new().turn(text("nothing"));
    let above = ScriptedModel::new().turn(transfer("billing"));
    front(&above, money(&target(&below))).run("hi").await.unwrap();
    let seen = below.request(0);
    assert_eq!(seen.system.as_deref(), Some("Bill."));
    assert!(seen.messages.iter().all(|message| message.role != Role::System));
}

#[tokio::test]
async fn of_two_hand_offs_in_one_turn_the_first_counts() {
    let (one, two) = (ScriptedModel::new().turn(text("1")), ScriptedModel::new());
    let first = Agent::builder("first", one).build().unwrap();
    let second = Agent::builder("second", two.clone()).build().unwrap();
    let both = [("transfer_to_first", json!({})), ("transfer_to_second", json!({}))];
    let lead = Agent::builder("lead", ScriptedModel::new().turn(calls(both)))
        .handoff(Handoff::to(&first, "First"))
        .handoff(Handoff::to(&second, "Second"))
        .build()
        .unwrap();
    assert_eq!(lead.run("go").await.unwrap().agent, "first");
    assert_eq!(two.call_count(), 0);
}

#[tokio::test]
async fn a_hand_off_that_is_refused_leaves_the_conversation_where_it_is() {
    let below = ScriptedModel::new();
    let above = ScriptedModel::new().turn(transfer("billing")).turn(text("then I answer"));
    let handoff =
        money(&target(&below)).guard(|_| HookDecision::Deny("billing is closed".to_owned()));
    let result = front(&above, handoff).run("hi").await.unwrap();
    assert_eq!((result.output.as_str(), below.call_count()), ("then I answer", 0));
    assert!(told(&above, 1).contains("billing is closed"), "{}", told(&above, 1));
}

/// A conversation of several turns before the hand-off.
async fn seen_after(history: HistoryPolicy) -> Vec<Arc<Message>> {
    let below = ScriptedModel::new().turn(text("nothing"));
    let above = ScriptedModel::new().turn(transfer("billing"));
    let agent = front(&above, money(&target(&below)).history(history));
    let before = (0..4).flat_map(|number| {
        let user = Message::user(format!("question {number}"));
        [Arc::new(user), Arc::new(Message::assistant(format!("answer {number}")))]
    });
    agent.run("what do I owe?").history(before).await.unwrap();
    below.request(0).messages
}

#[tokio::test]
async fn the_target_sees_as_much_as_it_is_given() {
    assert_eq!(seen_after(HistoryPolicy::Full).await.len(), 11);
    let last = seen_after(HistoryPolicy::LastN(3)).await;
    assert!(last.len() <= 4, "{last:?}");
    assert!(last.iter().any(|message| message.text() == "what do I owe?"));
    let summary =
        HistoryPolicy::summary(ScriptedModel::new().turn(text("They asked four things.")));
    let summed = seen_after(summary).await;
    assert!(summed[0].text().contains("They asked four things."), "{summed:?}");
    let only_user = HistoryPolicy::filter(|messages| {
        messages.iter().filter(|message| message.role == Role::User).cloned().collect()
    });
    let users = seen_after(only_user).await;
    assert!(users.iter().all(|message| message.role == Role::User), "{users:?}");
}
