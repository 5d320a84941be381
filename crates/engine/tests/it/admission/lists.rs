//! Tasks and runs as lists, put away, tried again.

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{RunStatus, TaskState};
use provost_core::resource::AgentSpec;
use provost_store::query;
use provost_store::table::work::run::RunFilter;
use provost_store::table::work::task::TaskFilter;

use crate::conversations::{Conversation, text};
use crate::harness::command;

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_go_on_where_the_page_before_ended() {
    let conversation = Conversation::new().await;
    let foreign: Namespace = "other".parse().unwrap();
    conversation.engine.put_agent(&foreign, "default", None, AgentSpec::default()).await.unwrap();
    conversation.engine.submit(&foreign, command("chat", "theirs")).await.unwrap();
    let mut accepted = Vec::new();
    for number in 0..7 {
        accepted
            .push(conversation.accept(&format!("s{}", number % 2), &format!("m{number}")).await);
    }
    let mut tasks: Vec<_> = accepted.iter().map(|one| one.task).collect();
    tasks.dedup();
    let mut found = Vec::new();
    let mut filter = TaskFilter::default();
    loop {
        let page = query::task::list(
            conversation.engine.store(),
            &conversation.namespace,
            filter.clone(),
            1,
        )
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
        query::run::list(conversation.engine.store(), &conversation.namespace, of_session, 100)
            .await
            .unwrap();
    assert_eq!((runs.items.len(), runs.next), (4, None));
    let _worker = conversation.worker().await;
    conversation.wait(accepted[6].run).await;
    let done = TaskFilter { state: Some(TaskState::Done), ..TaskFilter::default() };
    conversation.wait(accepted[5].run).await;
    assert_eq!(
        query::task::list(conversation.engine.store(), &conversation.namespace, done.clone(), 10)
            .await
            .unwrap()
            .items
            .len(),
        2
    );
    conversation.engine.tasks().archive(&conversation.namespace, accepted[0].task).await.unwrap();
    conversation.engine.tasks().archive(&conversation.namespace, accepted[0].task).await.unwrap();
    assert_eq!(
        query::task::list(conversation.engine.store(), &conversation.namespace, done.clone(), 10)
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let all = TaskFilter { archived: true, ..done };
    assert_eq!(
        query::task::list(conversation.engine.store(), &conversation.namespace, all, 10)
            .await
            .unwrap()
            .items
            .len(),
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_has_ended_is_put_away_and_only_what_failed_is_tried_again() {
    let conversation = Conversation::new().await;
    let first = conversation.accept("chat", "fail please").await;
    let refused =
        conversation.engine.tasks().archive(&conversation.namespace, first.task).await.unwrap_err();
    assert_eq!(refused.code(), "illegal_transition");
    let refused =
        conversation.engine.tasks().retry(&conversation.namespace, first.task).await.unwrap_err();
    assert_eq!(refused.code(), "illegal_transition");
    let _worker = conversation.worker().await;
    assert_eq!(conversation.wait(first.run).await.status, RunStatus::Error);
    assert_eq!(conversation.task(first.task).await.state.as_str(), "error");
    let again =
        conversation.engine.tasks().retry(&conversation.namespace, first.task).await.unwrap();
    assert_ne!(again, first.run);
    assert_eq!(conversation.wait(again).await.status, RunStatus::Error);
    assert_eq!(conversation.mind.told(), ["fail please", "fail please"]);
    let answered = conversation.accept("chat", "hello").await;
    assert_eq!(text(&conversation.wait(answered.run).await), "re: hello");
    let refused =
        conversation.engine.tasks().retry(&conversation.namespace, first.task).await.unwrap_err();
    assert_eq!(refused.code(), "already_terminal");
}
