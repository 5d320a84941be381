//! Work that has to wait: for room, for its time, for its turn.

use std::time::{Duration, Instant};

use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::InputMode;
use provost_core::{RunId, Timestamp};
use provost_store::query;

use crate::conversations::{Conversation, text};
use crate::harness::command;

const HOUR: Duration = Duration::from_secs(3600);

/// Sets how many runs of a run's class may work at once.
async fn set_target(conversation: &Conversation, run: RunId, target: u64) {
    let class = conversation.run(run).await.class_key.parse().unwrap();
    conversation
        .engine
        .classes()
        .set_target(&conversation.namespace, &class, target)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn g05_a16_01_work_without_room_waits_in_order_and_is_never_dropped() {
    let conversation = Conversation::simulated().await;
    let _worker = conversation.worker().await;
    let warm_up = conversation.accept("first", "warm up").await;
    conversation.wait(warm_up.run).await;
    set_target(&conversation, warm_up.run, 0).await;
    let mut accepted = Vec::new();
    for number in 0..6 {
        accepted.push(conversation.accept(&format!("s{number}"), &format!("m{number}")).await);
        conversation.env.advance(Duration::from_millis(1));
    }
    for _ in 0..6 {
        conversation.env.advance(HOUR / 6);
        // What happens by itself has happened when a timer of the same moment has fired.
        let soon = TaskRequest { delay_ms: Some(1), ..TaskRequest::text("tick") };
        let soon = conversation.engine.submit(&conversation.namespace, soon).await.unwrap();
        conversation.env.advance(Duration::from_millis(1));
        conversation.until(soon.run, |row| row.ready).await;
        conversation.engine.runs().cancel(&conversation.namespace, soon.run).await.unwrap();
    }
    for (number, one) in accepted.iter().enumerate() {
        let (run, task) = (conversation.run(one.run).await, conversation.task(one.task).await);
        assert_eq!((run.status.as_str(), run.phase.as_str()), ("accepted", "queued"));
        assert_eq!((task.state.as_str(), task.drop_reason.as_deref()), ("queued", None));
        let place = query::input::queue_position(
            conversation.engine.store(),
            &conversation.namespace,
            one.run,
        )
        .await
        .unwrap()
        .unwrap();
        assert_eq!((place.ahead_in_class, place.ahead_in_session), (number as u64, 0));
    }
    set_target(&conversation, warm_up.run, 1).await;
    for one in &accepted {
        assert_eq!(conversation.wait(one.run).await.status, RunStatus::Ok);
    }
    let told = conversation.mind.told();
    assert_eq!(told[1..], ["m0", "m1", "m2", "m3", "m4", "m5"], "in the order of acceptance");
}

#[tokio::test(flavor = "multi_thread")]
async fn g04_work_is_found_without_any_hint() {
    let conversation = Conversation::new().await;
    let second = conversation.another();
    let _worker = second.start().await.unwrap();
    let began = Instant::now();
    // Accepted through another store: no hint reaches the worker.
    let accepted = conversation.accept("chat", "hello").await;
    conversation.until(accepted.run, |row| row.started.is_some()).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    conversation.wait(accepted.run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_command_sleeps_until_its_time() {
    let conversation = Conversation::simulated().await;
    let _worker = conversation.worker().await;
    let later = TaskRequest { delay_ms: Some(60_000), ..command("chat", "later") };
    let later = conversation.engine.submit(&conversation.namespace, later).await.unwrap();
    let task = conversation.task(later.task).await;
    assert_eq!(task.state.as_str(), "sleeping");
    assert_eq!(task.wake_at, Some(conversation.env.now().after(Duration::from_secs(60))));
    let other = conversation.accept("other", "now").await;
    conversation.wait(other.run).await;
    assert_eq!(conversation.run(later.run).await.status, RunStatus::Accepted);
    conversation.env.advance(Duration::from_secs(60));
    assert_eq!(text(&conversation.wait(later.run).await), "re: later");
    assert_eq!(conversation.mind.told(), ["now", "later"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_must_be_done_or_begun_by_a_time_ends_when_it_is_not() {
    let conversation = Conversation::simulated().await;
    let _worker = conversation.worker().await;
    let warm_up = conversation.accept("first", "warm up").await;
    conversation.wait(warm_up.run).await;
    set_target(&conversation, warm_up.run, 0).await;
    let at = |after: u64| Some(conversation.env.now().after(Duration::from_secs(after)));
    let dead = TaskRequest { deadline: at(10), ..command("a", "too late") };
    let dead = conversation.engine.submit(&conversation.namespace, dead).await.unwrap();
    let queued = TaskRequest { queue_timeout_ms: Some(10_000), ..command("b", "waited") };
    let queued = conversation.engine.submit(&conversation.namespace, queued).await.unwrap();
    let patient = TaskRequest { timeout_ms: Some(1_000), ..command("c", "patient") };
    let patient = conversation.engine.submit(&conversation.namespace, patient).await.unwrap();
    conversation.env.advance(Duration::from_secs(11));
    for one in [&dead, &queued] {
        let run = conversation.wait(one.run).await;
        assert_eq!(
            (run.status.as_str(), run.outcome_code.map(OutcomeCode::as_str)),
            ("timeout", Some("deadline"))
        );
        assert_eq!(
            (run.started, conversation.task(one.task).await.state.as_str()),
            (None, "error")
        );
    }
    let run = conversation.run(patient.run).await;
    assert_eq!((run.status.as_str(), run.deadline), ("accepted", None::<Timestamp>));
    set_target(&conversation, warm_up.run, 8).await;
    assert_eq!(
        conversation.wait(patient.run).await.status,
        RunStatus::Ok,
        "its own time counts from its start"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_priority_counts_like_a_minute_of_waiting() {
    let conversation = Conversation::simulated().await;
    let _worker = conversation.worker().await;
    let warm_up = conversation.accept("first", "warm up").await;
    conversation.wait(warm_up.run).await;
    set_target(&conversation, warm_up.run, 0).await;
    let mut runs = Vec::new();
    for (session, priority, wait) in
        [("old", 0, 90), ("urgent", 2, 0), ("high", 1, 0), ("normal", 0, 0), ("low", -1, 0)]
    {
        let with = TaskRequest { priority, ..command(session, session) };
        runs.push(conversation.engine.submit(&conversation.namespace, with).await.unwrap().run);
        conversation.env.advance(Duration::from_secs(wait));
    }
    set_target(&conversation, warm_up.run, 1).await;
    for run in runs {
        conversation.wait(run).await;
    }
    assert_eq!(conversation.mind.told()[1..], ["urgent", "old", "high", "normal", "low"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_within_one_tick_of_the_clock_keeps_its_order() {
    let conversation = Conversation::simulated().await;
    let first = conversation.accept("chat", "m0").await;
    let mut last = first.run;
    for number in 1..20 {
        let mode = if number % 3 == 0 { InputMode::Queue } else { InputMode::Followup };
        last = conversation.say(first.task, &format!("m{number}"), mode).await.run;
    }
    let _worker = conversation.worker().await;
    conversation.wait(last).await;
    let expected: Vec<String> = (0..20).map(|number| format!("m{number}")).collect();
    assert_eq!(conversation.mind.told(), expected);
}
