//! What belongs to a run, and lists by what people ask for.

use provost_core::ApprovalDecision;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::{ApprovalState, RunPhase, RunStatus};
use provost_engine::{NewSession, Page};
use provost_model::{self as scripted};
use provost_store::query;
use provost_store::query::task_log::LogStream;
use provost_store::table::governance::approval::ApprovalFilter;
use provost_store::table::work::run::RunFilter;
use provost_store::table::work::session::SessionFilter;
use provost_store::table::work::task::TaskFilter;
use serde_json::json;

use crate::cluster::{Cluster, last_result};
use crate::conversations::Conversation;
use crate::harness::command;

async fn cluster() -> Cluster {
    Cluster::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("risky", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_tells_its_steps_its_attempts_and_the_changes_of_its_life() {
    let cluster = cluster().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    cluster.parked(accepted.run).await;
    let id = cluster.questions().await.remove(0).id;
    cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    cluster.ended(accepted.run).await;
    let (engine, ns, run) = (&cluster.engine, &cluster.namespace, accepted.run);
    let mut steps = Vec::new();
    let mut after = Some(0);
    while let Some(from) = after {
        let page: Page<_, u64> = query::step::list(engine.store(), ns, run, from, 2).await.unwrap();
        after = page.next;
        steps.extend(page.items);
    }
    assert!(steps.iter().zip(1..).all(|(row, step)| row.step == step) && steps.len() > 3);
    let attempts = query::run::attempts(engine.store(), ns, run).await.unwrap();
    assert_eq!(attempts.iter().map(|row| row.attempt_no).collect::<Vec<_>>(), [1, 2]);
    let told = query::run_history::snapshots(engine.store(), ns, run, 500).await.unwrap().changes;
    let told: Vec<_> = told.iter().map(|one| (one.kind.as_str(), one.status)).collect();
    assert_eq!(
        told,
        [
            ("accepted", RunStatus::Accepted),
            ("attempt_started", RunStatus::Running),
            ("parked", RunStatus::Running),
            ("attempt_started", RunStatus::Running),
            ("finished", RunStatus::Ok),
        ]
    );
    let last = query::run_history::snapshots(engine.store(), ns, run, 1).await.unwrap().changes;
    assert_eq!((last.len(), last[0].kind.as_str(), &last[0].error), (1, "finished", &None));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_task_says_who_said_what() {
    let cluster = cluster().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    cluster.parked(accepted.run).await;
    let id = cluster.questions().await.remove(0).id;
    let no = ApprovalDecision::Deny { reason: "too risky".to_owned() };
    cluster.engine.approvals().answer(&cluster.namespace, id, no, "me").await.unwrap();
    cluster.ended(accepted.run).await;
    let mut lines = Vec::new();
    let (mut next, mut more) = (0, true);
    while more {
        let page = query::task_log::of_task(
            cluster.engine.store(),
            &cluster.namespace,
            accepted.task,
            next,
            3,
        )
        .await
        .unwrap();
        (next, more) = (page.next, page.has_more);
        lines.extend(page.entries);
    }
    let of = |stream: LogStream| -> Vec<&str> {
        lines.iter().filter(|one| one.stream == stream).map(|one| one.text.as_str()).collect()
    };
    assert_eq!(of(LogStream::User), ["go"]);
    assert!(of(LogStream::Tool)[0].starts_with("risky: "), "{lines:?}");
    assert!(of(LogStream::Tool)[0].contains("too risky"), "{lines:?}");
    assert!(of(LogStream::Assistant)[0].starts_with("told: "), "{lines:?}");
    assert!(of(LogStream::System).contains(&"parked: approval"), "{lines:?}");
    assert!(lines.iter().all(|line| line.task == accepted.task && line.run == accepted.run));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_by_label_parent_phase_agent_and_name() {
    let conversation = Conversation::new().await;
    let labelled = TaskRequest { label: Some("nightly".to_owned()), ..command("s1", "one") };
    let first = conversation.engine.submit(&conversation.namespace, labelled).await.unwrap();
    let second = conversation.accept("s2", "two").await;
    let (engine, ns) = (&conversation.engine, &conversation.namespace);
    let named = TaskFilter { label: Some("nightly".to_owned()), ..TaskFilter::default() };
    let found = query::task::list(engine.store(), ns, named, 9).await.unwrap().items;
    assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), [first.task]);
    let below = TaskFilter { parent: Some(first.task), ..TaskFilter::default() };
    assert_eq!(query::task::list(engine.store(), ns, below, 9).await.unwrap().items, []);
    let queued = RunFilter { phase: Some(RunPhase::Queued), ..RunFilter::default() };
    assert_eq!(
        query::run::list(engine.store(), ns, queued.clone(), 9).await.unwrap().items.len(),
        2
    );
    let both = RunFilter { task_id: Some(second.task), ..queued };
    let found = query::run::list(engine.store(), ns, both, 9).await.unwrap().items;
    assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), [second.run]);
    let below = RunFilter { parent: Some(first.run), ..RunFilter::default() };
    assert_eq!(query::run::list(engine.store(), ns, below, 9).await.unwrap().items, []);
    let home = NewSession { key: Some("home".to_owned()), fresh: false };
    let key = engine.sessions().create(ns, home).await.unwrap().row.id;
    let page = query::session::list(engine.store(), ns, SessionFilter::default(), 2).await.unwrap();
    assert_eq!(page.items.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), [&key, "s2"]);
    let rest = SessionFilter { before: page.next, ..SessionFilter::default() };
    let page = query::session::list(engine.store(), ns, rest, 2).await.unwrap();
    assert_eq!((page.items[0].id.as_str(), page.next), ("s1", None));
    let home = SessionFilter { key: Some("home".to_owned()), ..SessionFilter::default() };
    assert_eq!(query::session::list(engine.store(), ns, home, 9).await.unwrap().items[0].id, key);
    assert_eq!(query::session::get(engine.store(), ns, "s1").await.unwrap().id, "s1");
    let nobody = SessionFilter { agent: Some("nobody".to_owned()), ..SessionFilter::default() };
    assert_eq!(query::session::list(engine.store(), ns, nobody, 9).await.unwrap().items, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_listed_in_any_state() {
    let cluster = cluster().await;
    let _worker = cluster.engine.start().await.unwrap();
    let (one, two) = (cluster.say("s1", "go").await, cluster.say("s2", "go").await);
    cluster.parked(one.run).await;
    cluster.parked(two.run).await;
    let (engine, ns) = (&cluster.engine, &cluster.namespace);
    let all = query::approval::list(engine.store(), ns, ApprovalFilter::default(), 9)
        .await
        .unwrap()
        .items;
    assert!(all.len() == 2 && all[0].id > all[1].id, "newest first");
    let of_one = ApprovalFilter { run: Some(one.run), ..ApprovalFilter::default() };
    let id =
        query::approval::list(engine.store(), ns, of_one.clone(), 9).await.unwrap().items[0].id;
    engine.approvals().answer(ns, id, ApprovalDecision::Approve, "me").await.unwrap();
    cluster.ended(one.run).await;
    let count = async |filter: ApprovalFilter| {
        query::approval::list(engine.store(), ns, filter, 9).await.unwrap().items.len()
    };
    let pending = Some(ApprovalState::Pending);
    assert_eq!(count(ApprovalFilter { state: pending, ..ApprovalFilter::default() }).await, 1);
    assert_eq!(count(ApprovalFilter { state: pending, ..of_one }).await, 0);
    let approved = Some(ApprovalState::Approved);
    let of_task =
        ApprovalFilter { state: approved, task: Some(one.task), ..ApprovalFilter::default() };
    assert_eq!(count(of_task).await, 1);
    let page =
        query::approval::list(engine.store(), ns, ApprovalFilter::default(), 1).await.unwrap();
    let rest = ApprovalFilter { before: page.next, ..ApprovalFilter::default() };
    let rest = query::approval::list(engine.store(), ns, rest, 9).await.unwrap().items;
    assert_eq!(rest.iter().map(|row| row.id).collect::<Vec<_>>(), [all[1].id]);
}
