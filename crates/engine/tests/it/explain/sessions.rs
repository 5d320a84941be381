//! Sessions, and tasks that say more than their run.

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::lifecycle::GrantScope;
use provost_core::scheduling::InputMode;
use provost_engine::InputRequest;
use provost_model as scripted;
use serde_json::json;

use super::queued::{behind, gated};
use super::{commands, named};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_idle_works_has_unread_messages_or_waits() {
    let cluster = gated().await;
    let accepted = cluster.say("chat", "go").await;
    let run = accepted.run;
    let names: [&dyn std::fmt::Display; 3] = [&"1 run waits", &run, &"no worker is alive"];
    let told = named(&cluster, "chat", "session_next_waits", &names).await;
    assert_eq!(told.state, "queued");
    let _worker = cluster.engine.start().await.unwrap();
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    cluster.accept(behind("chat", "later")).await;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"`chat`", &"1 run waits behind it"];
    named(&cluster, "chat", "session_working", &names).await;
    let steer = InputRequest::text("faster").mode(InputMode::Steer);
    cluster.engine.inputs().send(&cluster.namespace, accepted.task, steer).await.unwrap();
    let names: [&dyn std::fmt::Display; 2] = [&run, &"will read 1 message"];
    named(&cluster, "chat", "session_unread_messages", &names).await;
    gate.open(9);
    cluster.ended(run).await;
    let free = Cluster::new(vec![scripted::text("hello")]).await;
    let _worker = free.engine.start().await.unwrap();
    let run = free.say("quiet", "go").await.run;
    free.ended(run).await;
    let told = named(&free, "quiet", "session_idle", &[&"`quiet`", &"is idle"]).await;
    assert_eq!(commands(&told), ["provost session messages quiet"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_held_by_a_run_that_waits() {
    let cluster = Cluster::new(vec![scripted::call("risky", json!({}))]).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    cluster.parked(run).await;
    let asked = cluster.questions().await[0].id;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"`chat`", &"parked for approval"];
    let told = named(&cluster, "chat", "session_holder_waits", &names).await;
    assert_eq!(told.related, [run.to_string(), asked.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_the_session_is_behind_nobody_in_it() {
    let cluster = Cluster::new(vec![scripted::call("risky", json!({}))]).await;
    let worker = cluster.engine.start().await.unwrap();
    let first = cluster.say("chat", "go").await.run;
    cluster.parked(first).await;
    let asked = cluster.questions().await[0].id;
    worker.stop(Duration::ZERO).await;
    let urgent = TaskRequest { priority: 5, ..behind("chat", "now") };
    let second = cluster.accept(urgent).await.run;
    cluster
        .engine
        .approvals()
        .approve(&cluster.namespace, asked, GrantScope::Once, "ann")
        .await
        .unwrap();
    named(&cluster, first, "waiting_no_worker", &[&first]).await;
    named(&cluster, second, "waiting_session_held", &[&second, &first, &"is queued"]).await;
    named(&cluster, "chat", "session_holder_waits", &[&first, &"is queued"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_where_its_run_is_until_it_is_done_or_put_away() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let accepted = cluster.say("chat", "go").await;
    let (task, run) = (accepted.task, accepted.run);
    let told = named(&cluster, task, "waiting_no_worker", &[&run, &"no worker"]).await;
    assert_eq!((told.state.as_str(), told.related[0].clone()), ("queued", run.to_string()));
    let _worker = cluster.engine.start().await.unwrap();
    cluster.ended(run).await;
    named(&cluster, task, "task_done", &[&task, &run]).await;
    named(&cluster, run, "ended_ok", &[&run, &"1 attempt"]).await;
    cluster.engine.tasks().archive(&cluster.namespace, task).await.unwrap();
    cluster.clock.advance(Duration::from_secs(3600));
    let names: [&dyn std::fmt::Display; 3] = [&task, &"1 h ago", &"it was done"];
    let told = named(&cluster, task, "task_archived", &names).await;
    assert_eq!(told.state, "done, archived");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_was_dropped_or_has_no_run() {
    let cluster = gated().await;
    let task = cluster.say("chat", "go").await.task;
    cluster.meddle("UPDATE task SET current_run_id = NULL").await;
    named(&cluster, task, "task_without_run", &[&task, &"queued"]).await;
    cluster
        .meddle("UPDATE task SET state = 'dropped', drop_reason = 'run_materialization_failed'")
        .await;
    let names: [&dyn std::fmt::Display; 2] = [&task, &"run_materialization_failed"];
    let told = named(&cluster, task, "task_dropped", &names).await;
    assert_eq!(commands(&told), [format!("provost task retry {task}")]);
}
