//! Tests of agents with sessions in SQLite.

use std::sync::Arc;

use provost_agent::{Agent, Error};
use provost_core::ErrorKind;
use provost_model::{ScriptedModel, text};
use provost_session::{Session, SessionError};

use crate::{open, texts};

#[tokio::test]
async fn a_conversation_goes_on_after_the_file_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let model = ScriptedModel::new().turn(text("Hello Ada.")).turn(text("You are Ada."));
    for input in ["I am Ada", "Who am I?"] {
        let agent =
            Agent::builder("tester", model.clone()).session_store(open(&path)).build().unwrap();
        agent.run(input).session("talk/1").await.unwrap();
    }
    assert_eq!(model.request(1).messages.len(), 3);
    let stored = texts(&open(&path), "talk/1").await;
    assert_eq!(stored, ["I am Ada", "Hello Ada.", "Who am I?", "You are Ada."]);
}

#[tokio::test]
async fn of_two_runs_on_one_session_the_second_is_refused_and_nothing_is_mixed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    // Each run continues after both runs have read the session.
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let run = |word: &'static str| {
        let (both, store) = (Arc::clone(&both), open(&path));
        let model = ScriptedModel::from_fn(move |_, _| text(format!("answer to {word}")));
        let agent = Agent::builder("tester", model).session_store(store);
        let agent = agent.hook(WaitForAll(both)).build().unwrap();
        agent.run(word).session("s").into_future()
    };
    let (one, two) = tokio::join!(run("one"), run("two"));
    let (won, lost) = match (one, two) {
        (Ok(_), Err(error)) => ("one", error),
        (Err(error), Ok(_)) => ("two", error),
        other => panic!("{other:?}"),
    };
    assert!(matches!(lost, Error::Session(SessionError::Conflict { .. })), "{lost}");
    assert_eq!(lost.kind(), ErrorKind::Conflict);
    assert_eq!(texts(&open(&path), "s").await, [won.to_owned(), format!("answer to {won}")]);
    let session = Session::new(Arc::new(open(&path)), "s");
    assert_eq!(session.messages(None).await.unwrap().len(), 2);
}

/// Delays the model call until all runs have arrived.
struct WaitForAll(Arc<tokio::sync::Barrier>);

#[async_trait::async_trait]
impl provost_agent::hook::Hook for WaitForAll {
    async fn before_model_call(
        &self,
        _cx: &provost::hook::RunContext,
        _request: &mut provost_model::ChatRequest,
    ) -> Result<(), provost_agent::hook::HookError> {
        self.0.wait().await;
        Ok(())
    }
}
