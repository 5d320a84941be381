//! Runs that share the beginning of others.

use provost_core::command::TaskRequest;
use provost_core::{ContentPart, Role, RunId};
use provost_engine::{ForkEdit, ForkEdits};
use provost_model::{self as scripted, ChatRequest, Turn};
use provost_store::table::work::run_step::{self, RunStepRow};
use serde_json::json;

use crate::children::{count, replay_all};
use crate::stage::{Stage, text};

/// Does two things and says what was said to it, what it did, and how often it was asked before.
fn two_steps(request: &ChatRequest) -> Turn {
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
fn keyed() -> ForkEdits {
    ForkEdits { idempotency_key: Some("k".to_owned()), ..ForkEdits::default() }
}

async fn steps(stage: &Stage, run: RunId) -> Vec<RunStepRow> {
    stage.engine.store().read(move |tx| run_step::after(tx, run, 0, 1000)).await.unwrap()
}

/// The step in which a tool's result was committed.
async fn step_of(stage: &Stage, run: RunId, tool: &str) -> u64 {
    let found = steps(stage, run).await.into_iter().find(|row| row.name.as_deref() == Some(tool));
    found.unwrap().step
}

async fn conversation(stage: &Stage, session: &str) -> Vec<String> {
    let (namespace, session) = (stage.namespace.to_string(), session.to_owned());
    let read = stage.engine.store().read(move |tx| {
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
    let stage = Stage::new(|request, _| two_steps(request)).await;
    let _worker = stage.worker().await;
    let accepted = stage.say("chat", "first").await;
    let origin = stage.wait(accepted.run).await;
    assert_eq!((stage.effects.of("opaque"), stage.effects.of("keyed")), (1, 1));
    let step = step_of(&stage, origin.id, "opaque").await;
    let fork = stage.engine.runs().fork(&stage.namespace, origin.id, step, keyed()).await.unwrap();
    let run = stage.wait(fork.run).await;
    assert_eq!((run.status.as_str(), text(&run)), ("ok", text(&origin)));
    assert_eq!(stage.effects.of("opaque"), 1, "the shared step is not done again");
    assert_eq!(stage.effects.of("keyed"), 2, "what comes after it is");
    assert_ne!(fork.session, accepted.session);
    assert_eq!(stage.effects.model_calls(), 3 + 2);
    let (old, new) =
        (conversation(&stage, &accepted.session).await, conversation(&stage, &fork.session).await);
    assert_eq!(old.len(), new.len(), "{old:#?} {new:#?}");
    // Both conversations go on, each on its own.
    let next = stage.say(&fork.session, "more").await;
    assert_eq!(text(&stage.wait(next.run).await), "done for first+more");
    let other = stage.say("chat", "other").await;
    assert_eq!(text(&stage.wait(other.run).await), "done for first+other");
    let again = stage.engine.runs().fork(&stage.namespace, origin.id, step, keyed()).await.unwrap();
    assert!(again.deduped && again.run == fork.run, "a repeat makes no second one");
    replay_all(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_hears_something_else() {
    let stage = Stage::new(|request, _| two_steps(request)).await;
    let _worker = stage.worker().await;
    let accepted = stage.say("chat", "first").await;
    let origin = stage.wait(accepted.run).await;
    let last = steps(&stage, origin.id).await.last().unwrap().step;
    let say = ForkEdit::Say(vec![ContentPart::text("and now")]);
    let added =
        stage.engine.runs().fork(&stage.namespace, origin.id, last, say.into()).await.unwrap();
    assert_eq!(text(&stage.wait(added.run).await), "done for first+and now");
    let middle = step_of(&stage, origin.id, "opaque").await;
    let say = ForkEdit::Say(vec![ContentPart::text("stop")]);
    let steered =
        stage.engine.runs().fork(&stage.namespace, origin.id, middle, say.into()).await.unwrap();
    assert_eq!(text(&stage.wait(steered.run).await), "done for first+stop");
    let instead = ForkEdit::Instead(vec![ContentPart::text("second")]);
    let replaced = stage
        .engine
        .runs()
        .fork(&stage.namespace, origin.id, last, instead.clone().into())
        .await
        .unwrap();
    assert_eq!(text(&stage.wait(replaced.run).await), "done for second");
    // The newest message of that fork is the one that was added to it.
    let steps = steps(&stage, added.run).await;
    let again = stage
        .engine
        .runs()
        .fork(&stage.namespace, added.run, steps.last().unwrap().step, instead.into())
        .await
        .unwrap();
    assert_eq!(text(&stage.wait(again.run).await), "done for first+second");
    replay_all(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_of_forks_keep_their_own_conversations() {
    let stage = Stage::new(|request, _| two_steps(request)).await;
    let _worker = stage.worker().await;
    let before = stage.say("chat", "zero").await;
    stage.wait(before.run).await;
    let accepted = stage.say("chat", "one").await;
    let mut run = stage.wait(accepted.run).await;
    for word in ["two", "three", "four"] {
        // Others go on in the old session meanwhile; the fork does not hear them.
        let noise = stage.say("chat", "noise").await;
        stage.wait(noise.run).await;
        let last = steps(&stage, run.id).await.last().unwrap().step;
        let say = ForkEdit::Say(vec![ContentPart::text(word)]);
        let fork =
            stage.engine.runs().fork(&stage.namespace, run.id, last, say.into()).await.unwrap();
        run = stage.wait(fork.run).await;
    }
    assert_eq!(text(&run), "done for zero+one+two+three+four");
    let next = stage.say(&run.session_id, "five").await;
    assert_eq!(text(&stage.wait(next.run).await), "done for zero+one+two+three+four+five");
    replay_all(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_forked_is_refused() {
    let stage = Stage::new(|request, _| two_steps(request)).await;
    let _worker = stage.worker().await;
    let accepted = stage.say("chat", "first").await;
    stage.wait(accepted.run).await;
    let fork = |run, step, edit: ForkEdit| {
        stage.engine.runs().fork(&stage.namespace, run, step, edit.into())
    };
    let unknown: RunId = stage.env.id();
    assert_eq!(fork(unknown, 1, ForkEdit::None).await.unwrap_err().code(), "not_found");
    assert_eq!(fork(accepted.run, 999, ForkEdit::None).await.unwrap_err().code(), "invalid");
    assert_eq!(
        fork(accepted.run, 1, ForkEdit::Say(Vec::new())).await.unwrap_err().code(),
        "invalid"
    );
    let foreign = "other".parse().unwrap();
    let hidden = stage.engine.runs().fork(&foreign, accepted.run, 1, ForkEdits::default()).await;
    assert_eq!(hidden.unwrap_err().code(), "not_found");
    assert_eq!(
        stage.engine.runs().replay(&foreign, accepted.run).await.unwrap_err().code(),
        "not_found"
    );
    assert_eq!(count(&stage, "run").await, 1);
    assert_eq!(count(&stage, "session").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_finds_what_does_not_fit() {
    let stage = Stage::new(|request, _| two_steps(request)).await;
    let _worker = stage.worker().await;
    let accepted = stage.engine.submit(&stage.namespace, TaskRequest::text("first")).await.unwrap();
    let run = stage.wait(accepted.run).await;
    let sound = stage.engine.runs().replay(&stage.namespace, run.id).await.unwrap();
    assert!(sound.is_consistent(), "{:?}", sound.differences);
    assert_eq!((sound.turns, sound.answer.as_str()), (3, "done for first"));
    let fed = steps(&stage, run.id).await.into_iter().filter(|row| row.fed.is_some());
    assert_eq!(sound.feeds, fed.map(|row| 1 + u64::from(row.saved)).sum::<u64>());
    // The events of old runs are removed, all but the last one; their steps stay.
    let kept = stage.engine.store().write(|tx| {
        tx.execute("CREATE TABLE kept AS SELECT * FROM run_event", &[])?;
        tx.execute("/* looks through all */ DELETE FROM run_event WHERE kind <> 'finished'", &[])
    });
    assert!(kept.await.unwrap() > 3);
    assert!(stage.engine.runs().replay(&stage.namespace, run.id).await.unwrap().is_consistent());
    let back = stage.engine.store().write(|tx| {
        tx.execute("DELETE FROM run_event", &[])?;
        tx.execute("INSERT INTO run_event SELECT * FROM kept", &[])
    });
    back.await.unwrap();
    for (sql, found) in [
        ("UPDATE run SET result = replace(result, 'done', 'lost')", "the answer"),
        ("DELETE FROM run_event WHERE seq = 3", "without a gap"),
        (
            "UPDATE run_event SET kind = 'turn_finished' WHERE kind = 'tool_finished'",
            "tool_finished events",
        ),
    ] {
        let all = format!("/* looks through all */ {sql}");
        let changed =
            stage.engine.store().write(move |tx| tx.execute_fenced(&all, &[])).await.unwrap();
        assert!(changed > 0, "{sql}");
        let report = stage.engine.runs().replay(&stage.namespace, run.id).await.unwrap();
        assert!(
            report.differences.iter().any(|line| line.contains(found)),
            "{:?}",
            report.differences
        );
    }
}
