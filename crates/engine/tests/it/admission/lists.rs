//! Tasks and runs as lists, put away, tried again.

use provost_core::id::name::Namespace;
use provost_engine::AgentConfig;
use provost_store::query;
use provost_store::table::work::run::RunFilter;
use provost_store::table::work::task::TaskFilter;

use crate::stage::command;
use crate::talk::{Talk, text};

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_go_on_where_the_page_before_ended() {
    let talk = Talk::new().await;
    let foreign: Namespace = "other".parse().unwrap();
    talk.engine.put_agent(&foreign, "default", None, AgentConfig::default()).await.unwrap();
    talk.engine.submit(&foreign, command("chat", "theirs")).await.unwrap();
    let mut accepted = Vec::new();
    for number in 0..7 {
        accepted.push(talk.accept(&format!("s{}", number % 2), &format!("m{number}")).await);
    }
    let mut tasks: Vec<_> = accepted.iter().map(|one| one.task).collect();
    tasks.dedup();
    let mut found = Vec::new();
    let mut filter = TaskFilter::default();
    loop {
        let page = query::task::list(talk.engine.store(), &talk.namespace, filter.clone(), 1)
            .await
            .unwrap();
        found.extend(page.items.iter().map(|row| row.id));
        let Some(next) = page.next else { break };
        filter.before = Some(next);
    }
    let mut sorted = found.clone();
    sorted.sort();
    sorted.reverse();
    assert_eq!(found, sorted, "newest first");
    assert_eq!(found.len(), 2, "one for each session, none of the others");
    let of_session = RunFilter { session_id: Some("s0".to_owned()), ..RunFilter::default() };
    let runs =
        query::run::list(talk.engine.store(), &talk.namespace, of_session, 100).await.unwrap();
    assert_eq!((runs.items.len(), runs.next), (4, None));
    let _worker = talk.worker().await;
    talk.wait(accepted[6].run).await;
    let done = TaskFilter { state: Some("done".to_owned()), ..TaskFilter::default() };
    talk.wait(accepted[5].run).await;
    assert_eq!(
        query::task::list(talk.engine.store(), &talk.namespace, done.clone(), 10)
            .await
            .unwrap()
            .items
            .len(),
        2
    );
    talk.engine.tasks().archive(&talk.namespace, accepted[0].task).await.unwrap();
    talk.engine.tasks().archive(&talk.namespace, accepted[0].task).await.unwrap();
    assert_eq!(
        query::task::list(talk.engine.store(), &talk.namespace, done.clone(), 10)
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let all = TaskFilter { archived: true, ..done };
    assert_eq!(
        query::task::list(talk.engine.store(), &talk.namespace, all, 10).await.unwrap().items.len(),
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_has_ended_is_put_away_and_only_what_failed_is_tried_again() {
    let talk = Talk::new().await;
    let first = talk.accept("chat", "fail please").await;
    let refused = talk.engine.tasks().archive(&talk.namespace, first.task).await.unwrap_err();
    assert_eq!(refused.code(), "illegal_transition");
    let refused = talk.engine.tasks().retry(&talk.namespace, first.task).await.unwrap_err();
    assert_eq!(refused.code(), "illegal_transition");
    let _worker = talk.worker().await;
    assert_eq!(talk.wait(first.run).await.status, "error");
    assert_eq!(talk.task(first.task).await.state, "error");
    let again = talk.engine.tasks().retry(&talk.namespace, first.task).await.unwrap();
    assert_ne!(again, first.run);
    assert_eq!(talk.wait(again).await.status, "error");
    assert_eq!(talk.mind.told(), ["fail please", "fail please"]);
    let answered = talk.accept("chat", "hello").await;
    assert_eq!(text(&talk.wait(answered.run).await), "re: hello");
    let refused = talk.engine.tasks().retry(&talk.namespace, first.task).await.unwrap_err();
    assert_eq!(refused.code(), "already_terminal");
}
