//! Runs that share the beginning of others.

use provost_core::command::TaskRequest;
use provost_core::{ContentPart, Role, RunId};
use provost_engine::{ForkEdit, ForkOptions};
use provost_model::{self as scripted, ChatRequest, ScriptedTurn};
use provost_store::table::work::run_step::{self, RunStepRow};
use serde_json::json;

use crate::children::{count, replay_all};
use crate::harness::{Harness, text};

/// Does two things and says what was said to it, what it did, and how often it was asked before.
fn two_steps(request: &ChatRequest) -> ScriptedTurn {
    let said: Vec<String> =
        request.messages.iter().filter(|m| m.role == Role::User).map(|m| m.text()).collect();
    let last = request.messages.iter().rposition(|m| m.role == Role::User).unwrap();
    let done = request.messages[last..].iter().flat_map(|m| m.tool_results()).count();
    match done {
        0 => scripted::call("opaque", json!({"n": 1})),
        1 => scripted::call("keyed", json!({"n": 2})),
        _ => scripted::text(format!("done for {}", said.join("+"))),
    }
}

/// A fork that changes nothing and can be repeated.
fn keyed() -> ForkOptions {
    ForkOptions { idempotency_key: Some("k".to_owned()), ..ForkOptions::default() }
}

async fn steps(harness: &Harness, run: RunId) -> Vec<RunStepRow> {
    harness.engine.store().read(move |tx| run_step::after(tx, run, 0, 1000)).await.unwrap()
}

/// The step in which a tool's result was committed.
async fn step_of(harness: &Harness, run: RunId, tool: &str) -> u64 {
    let found = steps(harness, run).await.into_iter().find(|row| row.name.as_deref() == Some(tool));
    found.unwrap().step
}

async fn conversation(harness: &Harness, session: &str) -> Vec<String> {
    let (namespace, session) = (harness.namespace.to_string(), session.to_owned());
    let read = harness.engine.store().read(move |tx| {
        let row = provost_store::table::work::session::get(tx, &namespace, &session)?.unwrap();
        provost_store::table::work::session_entry::messages_at(
            tx,
            &namespace,
            &session,
            row.revision,
        )
    });
    let texts = read.await.unwrap().into_iter().map(|message| message.text);
    texts.filter(|text| !text.contains("results_of")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_shares_steps_and_does_not_repeat_their_effects() {
    let harness = Harness::new(|request, _| two_steps(request)).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "first").await;
    let origin = harness.wait(accepted.run).await;
    assert_eq!((harness.effects.of("opaque"), harness.effects.of("keyed")), (1, 1));
    let step = step_of(&harness, origin.id, "opaque").await;
    let fork =
        harness.engine.runs().fork(&harness.namespace, origin.id, step, keyed()).await.unwrap();
    let run = harness.wait(fork.run).await;
    assert_eq!((run.status.as_str(), text(&run)), ("ok", text(&origin)));
    assert_eq!(harness.effects.of("opaque"), 1, "the shared step is not done again");
    assert_eq!(harness.effects.of("keyed"), 2, "what comes after it is");
    assert_ne!(fork.session, accepted.session);
    assert_eq!(harness.effects.model_calls(), 3 + 2);
    let (old, new) = (
        conversation(&harness, &accepted.session).await,
        conversation(&harness, &fork.session).await,
    );
    assert_eq!(old.len(), new.len(), "{old:#?} {new:#?}");
    // Both conversations go on, each on its own.
    let next = harness.say(&fork.session, "more").await;
    assert_eq!(text(&harness.wait(next.run).await), "done for first+more");
    let other = harness.say("chat", "other").await;
    assert_eq!(text(&harness.wait(other.run).await), "done for first+other");
    let again =
        harness.engine.runs().fork(&harness.namespace, origin.id, step, keyed()).await.unwrap();
    assert!(again.deduped && again.run == fork.run, "a repeat makes no second one");
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_hears_something_else() {
    let harness = Harness::new(|request, _| two_steps(request)).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "first").await;
    let origin = harness.wait(accepted.run).await;
    let last = steps(&harness, origin.id).await.last().unwrap().step;
    let say = ForkEdit::Append(vec![ContentPart::text("and now")]);
    let added =
        harness.engine.runs().fork(&harness.namespace, origin.id, last, say.into()).await.unwrap();
    assert_eq!(text(&harness.wait(added.run).await), "done for first+and now");
    let middle = step_of(&harness, origin.id, "opaque").await;
    let say = ForkEdit::Append(vec![ContentPart::text("stop")]);
    let steered = harness
        .engine
        .runs()
        .fork(&harness.namespace, origin.id, middle, say.into())
        .await
        .unwrap();
    assert_eq!(text(&harness.wait(steered.run).await), "done for first+stop");
    let instead = ForkEdit::ReplaceLast(vec![ContentPart::text("second")]);
    let replaced = harness
        .engine
        .runs()
        .fork(&harness.namespace, origin.id, last, instead.clone().into())
        .await
        .unwrap();
    assert_eq!(text(&harness.wait(replaced.run).await), "done for second");
    // The newest message of that fork is the one that was added to it.
    let steps = steps(&harness, added.run).await;
    let again = harness
        .engine
        .runs()
        .fork(&harness.namespace, added.run, steps.last().unwrap().step, instead.into())
        .await
        .unwrap();
    assert_eq!(text(&harness.wait(again.run).await), "done for first+second");
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_of_forks_keep_their_own_conversations() {
    let harness = Harness::new(|request, _| two_steps(request)).await;
    let _worker = harness.worker().await;
    let before = harness.say("chat", "zero").await;
    harness.wait(before.run).await;
    let accepted = harness.say("chat", "one").await;
    let mut run = harness.wait(accepted.run).await;
    for word in ["two", "three", "four"] {
        // Others go on in the old session meanwhile; the fork does not hear them.
        let noise = harness.say("chat", "noise").await;
        harness.wait(noise.run).await;
        let last = steps(&harness, run.id).await.last().unwrap().step;
        let say = ForkEdit::Append(vec![ContentPart::text(word)]);
        let fork =
            harness.engine.runs().fork(&harness.namespace, run.id, last, say.into()).await.unwrap();
        run = harness.wait(fork.run).await;
    }
    assert_eq!(text(&run), "done for zero+one+two+three+four");
    let next = harness.say(&run.session_id, "five").await;
    assert_eq!(text(&harness.wait(next.run).await), "done for zero+one+two+three+four+five");
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_forked_is_refused() {
    let harness = Harness::new(|request, _| two_steps(request)).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "first").await;
    harness.wait(accepted.run).await;
    let fork = |run, step, edit: ForkEdit| {
        harness.engine.runs().fork(&harness.namespace, run, step, edit.into())
    };
    let unknown: RunId = harness.env.id();
    assert_eq!(fork(unknown, 1, ForkEdit::None).await.unwrap_err().code(), "not_found");
    assert_eq!(fork(accepted.run, 999, ForkEdit::None).await.unwrap_err().code(), "invalid");
    assert_eq!(
        fork(accepted.run, 1, ForkEdit::Append(Vec::new())).await.unwrap_err().code(),
        "invalid"
    );
    let foreign = "other".parse().unwrap();
    let hidden =
        harness.engine.runs().fork(&foreign, accepted.run, 1, ForkOptions::default()).await;
    assert_eq!(hidden.unwrap_err().code(), "not_found");
    assert_eq!(
        harness.engine.runs().replay(&foreign, accepted.run).await.unwrap_err().code(),
        "not_found"
    );
    assert_eq!(count(&harness, "run").await, 1);
    assert_eq!(count(&harness, "session").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_finds_what_does_not_fit() {
    let harness = Harness::new(|request, _| two_steps(request)).await;
    let _worker = harness.worker().await;
    let accepted =
        harness.engine.submit(&harness.namespace, TaskRequest::text("first")).await.unwrap();
    let run = harness.wait(accepted.run).await;
    let sound = harness.engine.runs().replay(&harness.namespace, run.id).await.unwrap();
    assert!(sound.is_consistent(), "{:?}", sound.differences);
    assert_eq!((sound.turns, sound.answer.as_str()), (3, "done for first"));
    let entry_no = steps(&harness, run.id).await.into_iter().filter(|row| row.entry_no.is_some());
    assert_eq!(sound.entries, entry_no.map(|row| 1 + u64::from(row.saved)).sum::<u64>());
    // The events of old runs are removed, all but the last one; their steps stay.
    let kept = harness.engine.store().write(|tx| {
        tx.execute("CREATE TABLE kept AS SELECT * FROM run_event", &[])?;
        tx.execute("/* full scan */ DELETE FROM run_event WHERE kind <> 'finished'", &[])
    });
    assert!(kept.await.unwrap() > 3);
    assert!(
        harness.engine.runs().replay(&harness.namespace, run.id).await.unwrap().is_consistent()
    );
    let back = harness.engine.store().write(|tx| {
        tx.execute("DELETE FROM run_event", &[])?;
        tx.execute("INSERT INTO run_event SELECT * FROM kept", &[])
    });
    back.await.unwrap();
    for (sql, found) in [
        ("UPDATE run SET result = replace(result, 'done', 'lost')", "the output"),
        ("DELETE FROM run_event WHERE seq = 3", "have no gap"),
        (
            "UPDATE run_event SET kind = 'turn_finished' WHERE kind = 'tool_finished'",
            "tool_finished events",
        ),
    ] {
        let all = format!("/* full scan */ {sql}");
        let changed =
            harness.engine.store().write(move |tx| tx.execute_fenced(&all, &[])).await.unwrap();
        assert!(changed > 0, "{sql}");
        let report = harness.engine.runs().replay(&harness.namespace, run.id).await.unwrap();
        assert!(
            report.differences.iter().any(|line| line.contains(found)),
            "{:?}",
            report.differences
        );
    }
}
