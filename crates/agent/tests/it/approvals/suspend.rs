//! Runs that end in order to wait: stored, decided elsewhere, resumed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use provost_agent::hook::{Hook, HookEvent, HookPoint, ObserverHook};
use provost_agent::{
    Agent, ApprovalMode, Error, RunOutcome, RunResult, SuspendedRun, SuspendedRunError,
};
use provost_core::{ApprovalDecision, Env, EventKind, ToolCall};
use provost_model::{ScriptedModel, calls, text};
use provost_session::{InMemorySessionStore, SessionError, SessionStore};
use provost_tool::{FnTool, RequiresApproval, ToolError, tool_fn};
use serde_json::json;

use super::{asking, deny, free, guarded};
use crate::support::{Say, assert_well_formed, events};

/// What outlives the process: the model's service, the store, and the effects in the world.
#[derive(Default, Clone)]
struct World {
    model: ScriptedModel,
    sessions: InMemorySessionStore,
    echoes: Arc<AtomicUsize>,
    frees: Arc<AtomicUsize>,
    starts: Arc<AtomicUsize>,
    ends: Arc<AtomicUsize>,
    points: Arc<Mutex<Vec<String>>>,
}

/// Changes what the guarded tool is called with.
struct Polish;

#[async_trait]
impl Hook for Polish {
    async fn before_tool_call(
        &self,
        _cx: &provost_tool::RunContext,
        call: &mut ToolCall,
    ) -> Result<provost_agent::hook::HookDecision, provost_agent::hook::HookError> {
        if call.name == "echo" {
            call.arguments = call.arguments.replace("buy", "sell");
        }
        Ok(provost_agent::hook::HookDecision::Allow)
    }
}

impl World {
    fn new(turns: impl IntoIterator<Item = provost_model::ScriptedTurn>) -> Self {
        let model = turns.into_iter().fold(ScriptedModel::new(), ScriptedModel::turn);
        Self { model, ..Self::default() }
    }

    /// The agent of a fresh process: nothing is shared but the world.
    fn agent(&self, name: &str) -> Agent {
        let points = Arc::clone(&self.points);
        let note = move |event: &HookEvent| {
            if matches!(event.point, HookPoint::BeforeToolCall | HookPoint::AfterToolCall) {
                let id = event.call_id.clone().unwrap();
                points.lock().unwrap().push(format!("{:?} {id}", event.point));
            }
        };
        Agent::builder(name, self.model.clone())
            .tool(guarded(&self.echoes))
            .tool(free(&self.frees))
            .tool(asking(&self.starts, &self.ends))
            .hook(Polish)
            .hook(ObserverHook::new(note))
            .session_store(self.sessions.clone())
            .approvals(ApprovalMode::Suspend)
            .build()
            .unwrap()
    }

    async fn suspended(&self) -> SuspendedRun {
        match self.agent("tester").run("hi").session("s").outcome().await.unwrap() {
            RunOutcome::Suspended(suspended) => suspended,
            other => panic!("{other:?}"),
        }
    }

    async fn resumed(&self, suspended: SuspendedRun) -> RunResult {
        match self.agent("tester").resume(suspended).outcome().await.unwrap() {
            RunOutcome::Completed(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn counts(&self) -> [usize; 4] {
        [&self.echoes, &self.frees, &self.starts, &self.ends]
            .map(|count| count.load(Ordering::SeqCst))
    }
}

/// Through storage and back, as another process would read it.
fn stored(suspended: &SuspendedRun) -> SuspendedRun {
    let back = SuspendedRun::from_bytes(&suspended.to_bytes().unwrap()).unwrap();
    assert_eq!(back, *suspended);
    back
}

fn two_calls() -> World {
    let turn = calls([("free", json!({})), ("echo", json!({ "text": "buy" }))]);
    World::new([turn, text("done")])
}

#[tokio::test]
async fn s238_a_stored_run_executes_its_approved_call_exactly_once() {
    let world = two_calls();
    let suspended = world.suspended().await;
    assert_eq!(world.counts(), [0, 1, 0, 0], "the sibling ran, the guarded tool did not");
    let questions = suspended.approvals();
    assert_eq!((questions.len(), questions[0].call.id.as_str()), (1, "call_2"));
    assert_eq!(questions[0].call.arguments, r#"{"text":"sell"}"#, "a person sees what would run");

    let result = world.resumed(stored(&suspended).approve_all()).await;
    assert_eq!((result.output.as_str(), result.turns, result.tool_calls), ("done", 2, 2));
    assert_eq!(result.run_id, suspended.run_id(), "it is the same run");
    assert_eq!(world.counts(), [1, 1, 0, 0], "each call once");
    let told = world.model.request(1);
    assert_well_formed(&told.messages);
    let told: Vec<_> = told.messages[2].tool_results().map(|result| result.to_text()).collect();
    assert_eq!(told, ["ran", "echo: sell"], "in call order");
    let points = world.points.lock().unwrap().clone();
    let count = |wanted: &str| points.iter().filter(|point| *point == wanted).count();
    for point in [
        "BeforeToolCall call_1",
        "AfterToolCall call_1",
        "BeforeToolCall call_2",
        "AfterToolCall call_2",
    ] {
        assert_eq!(count(point), 1, "{point}: {points:?}");
    }
    let transcript = world.sessions.load("s").await.unwrap().unwrap();
    assert_eq!(transcript.messages.len(), 4);
    assert_well_formed(&transcript.messages);
}

#[tokio::test]
async fn a_stored_run_cannot_be_resumed_twice_on_its_session() {
    let world = two_calls();
    let suspended = world.suspended().await.approve_all();
    world.resumed(stored(&suspended)).await;
    let again = world.agent("tester").resume(stored(&suspended)).await;
    assert!(matches!(again, Err(Error::Session(SessionError::Conflict { .. }))), "{again:?}");
    assert_eq!(world.counts(), [1, 1, 0, 0], "the effect is not repeated");
}

#[tokio::test]
async fn a_denied_call_does_not_run_after_the_resume() {
    let world = two_calls();
    let suspended = stored(&world.suspended().await);
    let result = world.resumed(suspended.reject_all("too dear")).await;
    assert_eq!(result.output, "done");
    assert_eq!(world.counts(), [0, 1, 0, 0]);
    let request = world.model.request(1);
    let told = request.messages[2].tool_results().nth(1).unwrap();
    assert!(told.is_error && told.to_text().contains("too dear"), "{told:?}");
}

#[tokio::test]
async fn an_undecided_run_stays_suspended_and_decisions_can_come_one_by_one() {
    let turn = calls([("echo", json!({ "text": "1" })), ("echo", json!({ "text": "2" }))]);
    let world = World::new([turn, text("done")]);
    let suspended = world.suspended().await;
    let outcome = world.agent("tester").resume(stored(&suspended)).outcome().await.unwrap();
    let RunOutcome::Suspended(suspended) = outcome else { panic!("{outcome:?}") };
    let ids: Vec<_> = suspended.approvals().iter().map(|question| question.id).collect();
    assert_eq!((ids.len(), world.counts()[0]), (2, 0));

    let suspended = suspended.decide(ids[1], ApprovalDecision::Approve).unwrap();
    let outcome = world.agent("tester").resume(stored(&suspended)).outcome().await.unwrap();
    let RunOutcome::Suspended(suspended) = outcome else { panic!("{outcome:?}") };
    assert_eq!(world.counts()[0], 1, "what is decided runs");
    assert_eq!(suspended.approvals().len(), 1);
    let twice = suspended.clone().decide(ids[1], deny("no"));
    assert!(matches!(twice, Err(SuspendedRunError::Decision(_))), "an answer is good once");
    let foreign = suspended.clone().decide(Env::simulated(9).id(), ApprovalDecision::Approve);
    assert!(matches!(foreign, Err(SuspendedRunError::Decision(_))));

    let suspended = suspended.decide(ids[0], deny("no")).unwrap();
    assert_eq!(world.resumed(stored(&suspended)).await.output, "done");
    assert_eq!(world.counts()[0], 1);
}

#[tokio::test]
async fn another_agent_and_another_version_are_refused() {
    let world = two_calls();
    let suspended = world.suspended().await.approve_all();
    let refused = world.agent("somebody").resume(suspended.clone()).await;
    assert!(matches!(&refused, Err(Error::Start(why)) if why.contains("tester")), "{refused:?}");
    let mut value: serde_json::Value =
        serde_json::from_slice(&suspended.to_bytes().unwrap()).unwrap();
    value["run"]["version"] = json!(2);
    value["run"]["phase"] = json!("a shape of the future");
    let refused = SuspendedRun::from_bytes(value.to_string().as_bytes());
    assert!(matches!(refused, Err(SuspendedRunError::Version)), "{refused:?}");
    assert!(matches!(SuspendedRun::from_bytes(b"{}"), Err(SuspendedRunError::Format(_))));
    // A value that was read without the check is refused at the door, too.
    value = serde_json::from_slice(&suspended.to_bytes().unwrap()).unwrap();
    value["run"]["version"] = json!(2);
    let unchecked: SuspendedRun = serde_json::from_value(value).unwrap();
    let refused = world.agent("tester").resume(unchecked).await;
    assert!(matches!(refused, Err(Error::Start(_))), "{refused:?}");
    assert_eq!(world.counts()[0], 0, "nothing ran");
}

#[tokio::test]
async fn a_tool_that_asks_itself_suspends_and_starts_again_with_the_answer() {
    for (decision, ends) in [(ApprovalDecision::Approve, 1), (deny("no"), 0)] {
        let turn = calls([("asking", json!({ "text": "it" })), ("free", json!({}))]);
        let world = World::new([turn, text("done")]);
        let suspended = stored(&world.suspended().await);
        assert_eq!(world.counts(), [0, 1, 1, 0]);
        let question = suspended.approvals()[0].clone();
        assert_eq!(question.hint.as_deref(), Some("really?"));
        assert_eq!(question.payload, Some(json!({ "cost": 5 })));
        let suspended = suspended.decide(question.id, decision).unwrap();
        assert_eq!(world.resumed(suspended).await.output, "done");
        assert_eq!(world.counts()[1], 1, "the sibling is not run again");
        assert_eq!(world.counts()[3], ends);
        let pre = "BeforeToolCall call_1";
        let points = world.points.lock().unwrap();
        assert_eq!(points.iter().filter(|point| *point == pre).count(), 1, "{points:?}");
    }
}

/// A tool that needs approval and, once it runs, asks for more.
fn twice_careful(ends: &Arc<AtomicUsize>) -> FnTool {
    let ends = Arc::clone(ends);
    let tool = tool_fn("careful", "Asks and asks", move |cx, _args: Say| {
        let ends = Arc::clone(&ends);
        async move {
            cx.confirm("open the safe?").await?;
            cx.confirm("take the money?").await?;
            ends.fetch_add(1, Ordering::SeqCst);
            Ok::<_, ToolError>("taken")
        }
    });
    tool.unwrap().with_spec(|spec| spec.approval(RequiresApproval::Always))
}

#[tokio::test]
async fn an_answer_is_good_for_its_own_question_only() {
    let ends = Arc::default();
    let model = ScriptedModel::new().turn(calls([("careful", json!({}))])).turn(text("done"));
    let agent = Agent::builder("tester", model)
        .tool(twice_careful(&ends))
        .approvals(ApprovalMode::Suspend)
        .build()
        .unwrap();
    let mut hints = Vec::new();
    let mut outcome = agent.run("hi").outcome().await.unwrap();
    while let RunOutcome::Suspended(suspended) = outcome {
        assert!(hints.len() < 3, "{hints:?}");
        assert_eq!(ends.load(Ordering::SeqCst), 0, "{hints:?}");
        hints.push(suspended.approvals()[0].hint.clone().unwrap_or_default());
        outcome = agent.resume(stored(&suspended).approve_all()).outcome().await.unwrap();
    }
    assert_eq!(hints, ["", "open the safe?", "take the money?"]);
    assert_eq!(ends.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_stream_of_a_suspended_run_ends_with_its_questions() {
    let world = two_calls();
    let all = events(world.agent("tester").run("hi").stream()).await;
    let EventKind::Suspended { approvals, .. } = &all.last().unwrap().kind else { panic!() };
    assert_eq!((approvals.len(), approvals[0].call.name.as_str()), (1, "echo"));
    let awaited = two_calls().agent("tester").run("hi").await;
    assert!(
        matches!(&awaited, Err(Error::Suspended(run)) if run.approvals().len() == 1),
        "{awaited:?}"
    );
}

#[tokio::test]
async fn state_travels_with_a_suspended_run() {
    let model = ScriptedModel::new().turn(calls([("note", json!({})), ("check", json!({}))]));
    let model = model.turn(text("done"));
    let note = tool_fn("note", "Takes a note", |cx, _args: Say| async move {
        cx.state().set("note", "remembered")?;
        Ok::<_, ToolError>("noted")
    });
    let check = tool_fn("check", "Reads it", |cx, _args: Say| async move {
        Ok::<_, ToolError>(cx.state().get::<String>("note").unwrap_or_default())
    });
    let check = check.unwrap().with_spec(|spec| spec.approval(RequiresApproval::Always));
    let agent = Agent::builder("tester", model.clone())
        .tool(note.unwrap())
        .tool(check)
        .approvals(ApprovalMode::Suspend)
        .build()
        .unwrap();
    let outcome = agent.run("hi").outcome().await.unwrap();
    let RunOutcome::Suspended(suspended) = outcome else { panic!("{outcome:?}") };
    let result = agent.resume(stored(&suspended).approve_all()).await.unwrap();
    assert_eq!(model.request(1).last_tool_result().unwrap().call_id, "call_1");
    assert_eq!(result.tool_results[1].to_text(), "remembered");
    assert_eq!(result.state["note"], "remembered");
}

#[tokio::test]
async fn s238_of_two_that_resume_the_same_bytes_at_once_one_runs_the_tool() {
    let count = Arc::new(AtomicUsize::new(0));
    let store: Arc<dyn SessionStore> = Arc::new(InMemorySessionStore::new());
    let model = ScriptedModel::from_fn(|request, _| match request.last_tool_result() {
        None => calls([("echo", json!({}))]),
        Some(_) => text("done"),
    });
    let agent = Agent::builder("twin", model).tool(guarded(&count)).build().unwrap();
    let run = agent.run("go").session_in(Arc::clone(&store), "s").approvals(ApprovalMode::Suspend);
    let RunOutcome::Suspended(suspended) = run.outcome().await.unwrap() else { panic!() };
    let bytes = suspended.to_bytes().unwrap();
    let resume = || {
        let suspended = SuspendedRun::from_bytes(&bytes).unwrap().approve_all();
        agent.resume(suspended).session_in(Arc::clone(&store), "s").outcome()
    };
    let (first, second) = tokio::join!(resume(), resume());
    let lost = [&first, &second]
        .into_iter()
        .filter(|ended| matches!(ended, Err(Error::Session(SessionError::Conflict { .. }))))
        .count();
    assert_eq!((lost, count.load(Ordering::SeqCst)), (1, 1), "{first:?} {second:?}");
}
