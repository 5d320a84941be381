//! A hook that panics is a defect that is told like any other end, and told once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use provost_agent::hook::{
    Hook, HookDecision, HookError, ModelCallEnd, RunEnd, StartDecision, ToolCallEnd,
};
use provost_agent::{Agent, Error};
use provost_core::{ErrorKind, EventKind, RunSummary, ToolCall};
use provost_model::{ChatRequest, ScriptedModel, call, text};
use provost_session::InMemorySessionStore;
use provost_tool::RunContext;
use serde_json::json;

use super::warnings;
use crate::support::{assert_well_formed, echo, events, final_text, roles, stored};

/// Panics at one point; counts the ends of runs.
#[derive(Clone)]
struct Boom {
    point: &'static str,
    ends: Arc<AtomicUsize>,
}

impl Boom {
    fn at(&self, point: &str) {
        assert_ne!(self.point, point, "boom");
    }
}

#[async_trait]
impl Hook for Boom {
    async fn before_run(&self, _cx: &RunContext, _input: &str) {
        self.at("before_run");
    }

    async fn before_agent(
        &self,
        _cx: &RunContext,
        _input: &str,
    ) -> Result<StartDecision, HookError> {
        self.at("before_agent");
        Ok(StartDecision::Continue)
    }

    async fn before_model_call(
        &self,
        _: &RunContext,
        _: &mut ChatRequest,
    ) -> Result<(), HookError> {
        self.at("pre_model_call");
        Ok(())
    }

    async fn after_model_call(
        &self,
        _: &RunContext,
        _: &mut ModelCallEnd<'_>,
    ) -> Result<(), HookError> {
        self.at("post_model_call");
        Ok(())
    }

    async fn before_tool_call(
        &self,
        _: &RunContext,
        _: &mut ToolCall,
    ) -> Result<HookDecision, HookError> {
        self.at("pre_tool_use");
        Ok(HookDecision::Allow)
    }

    async fn after_tool_call(
        &self,
        _: &RunContext,
        _: &mut ToolCallEnd<'_>,
    ) -> Result<(), HookError> {
        self.at("post_tool_use");
        Ok(())
    }

    async fn after_agent(&self, _: &RunContext, _: &mut RunSummary) -> Result<(), HookError> {
        self.at("after_agent");
        Ok(())
    }

    async fn after_run(&self, _cx: &RunContext, end: &RunEnd<'_>) {
        self.ends.fetch_add(1, Ordering::SeqCst);
        assert_eq!(end.error.is_some(), self.point != "after_run");
        self.at("after_run");
    }
}

fn panicking(point: &'static str) -> (Agent, Arc<AtomicUsize>, InMemorySessionStore) {
    let (ends, store) = (Arc::new(AtomicUsize::new(0)), InMemorySessionStore::new());
    let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done"));
    let agent = Agent::builder("tester", model)
        .tool(echo(&Arc::default()))
        .hook(Boom { point, ends: Arc::clone(&ends) })
        .session_store(store.clone())
        .build()
        .unwrap();
    (agent, ends, store)
}

#[tokio::test]
async fn a_hook_that_panics_fails_its_run_and_nothing_else() {
    let points = [
        "before_run",
        "before_agent",
        "pre_model_call",
        "post_model_call",
        "pre_tool_use",
        "post_tool_use",
        "after_agent",
    ];
    for point in points {
        let (agent, ends, _) = panicking(point);
        let error = agent.run("hi").await.unwrap_err();
        assert!(matches!(&error, Error::Bug(text) if text.contains("boom")), "{point}: {error}");
        assert_eq!(ends.load(Ordering::SeqCst), 1, "{point}: the run ends once");

        let (agent, ends, store) = panicking(point);
        let events = events(agent.run("hi").session("s").stream()).await;
        let EventKind::Failed { error } = &events.last().unwrap().kind else { panic!("{point}") };
        assert_eq!(error.kind, ErrorKind::Bug);
        assert_eq!(ends.load(Ordering::SeqCst), 1, "{point}: the run ends once");
        let messages = stored(&store, "s").await;
        assert_well_formed(&messages);
        // The turn that failed leaves no trace; those before it are kept.
        assert_eq!(roles(&messages).len(), if point == "after_agent" { 3 } else { 0 }, "{point}");
    }
}

#[tokio::test]
async fn a_panic_after_the_run_does_not_lose_its_outcome() {
    let (agent, ends, _) = panicking("after_run");
    assert_eq!(agent.run("hi").await.unwrap().output, "done");
    assert_eq!(ends.load(Ordering::SeqCst), 1);
    let (agent, ends, store) = panicking("after_run");
    let events = events(agent.run("hi").session("s").stream()).await;
    assert_eq!((final_text(&events).as_str(), warnings(&events).len()), ("done", 1));
    assert_eq!((ends.load(Ordering::SeqCst), stored(&store, "s").await.len()), (1, 4));
}
