//! What many tests share.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use provost_agent::{Agent, RunStream};
use provost_core::{Event, EventKind, Message, Role};
use provost_session::{SessionStore, SqliteSessionOptions, SqliteSessionStore};
use provost_tool::{FnTool, ToolError, tool_fn};

/// Arguments of test tools: any one text.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Say {
    #[serde(default)]
    pub(crate) text: String,
}

/// A tool that answers `echo: <text>` and counts how often it ran.
pub(crate) fn echo(count: &Arc<AtomicUsize>) -> FnTool {
    let count = Arc::clone(count);
    tool_fn("echo", "Says it again", move |_cx, args: Say| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, ToolError>(format!("echo: {}", args.text)) }
    })
    .unwrap()
}

/// A tool that always fails with a sentence.
pub(crate) fn broken() -> FnTool {
    tool_fn("broken", "Never works", |_cx, _args: Say| async move {
        Err::<String, _>(ToolError::failed("it broke"))
    })
    .unwrap()
}

/// All events of a run.
pub(crate) async fn events<O: Send + 'static>(mut stream: RunStream<O>) -> Vec<Event> {
    let mut all = Vec::new();
    while let Some(event) = stream.next().await {
        all.push(event);
    }
    assert!(all.last().is_some_and(|event| event.kind.is_terminal()), "{all:?}");
    assert_eq!(all.iter().filter(|event| event.kind.is_terminal()).count(), 1);
    for (place, event) in all.iter().enumerate() {
        assert_eq!(event.seq, place as u64, "the stream has no gaps");
    }
    all
}

/// The kinds of a run's events, by their stable names.
pub(crate) fn names(events: &[Event]) -> Vec<String> {
    let name = |event: &Event| {
        let value = serde_json::to_value(&event.kind).unwrap();
        value["type"].as_str().unwrap().to_owned()
    };
    events.iter().map(name).collect()
}

/// The final text of a stream that ended well.
pub(crate) fn final_text(events: &[Event]) -> String {
    match &events.last().unwrap().kind {
        EventKind::Finished { summary } => summary.text.clone(),
        other => panic!("{other:?}"),
    }
}

/// An agent with the echo tool.
pub(crate) fn echo_agent(model: &provost_model::ScriptedModel) -> (Agent, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let agent = Agent::builder("tester", model.clone()).tool(echo(&count)).build().unwrap();
    (agent, count)
}

/// Everything a session has, oldest first.
pub(crate) async fn stored(store: &dyn SessionStore, id: &str) -> Vec<Arc<Message>> {
    store.load(id).await.unwrap().unwrap_or_default().messages
}

/// Sessions in a file of this directory.
pub(crate) fn in_file(dir: &Path) -> SqliteSessionStore {
    SqliteSessionStore::open(dir.join("sessions.db"), SqliteSessionOptions::default()).unwrap()
}

/// Who speaks, in order.
pub(crate) fn roles(messages: &[Arc<Message>]) -> Vec<Role> {
    messages.iter().map(|message| message.role).collect()
}

/// Checks what every provider insists on: each call has its one result directly after it, and no result is without a call.
pub(crate) fn assert_well_formed(messages: &[Arc<Message>]) {
    let mut owed: Vec<&str> = Vec::new();
    for message in messages {
        let given: Vec<&str> =
            message.tool_results().map(|result| result.call_id.as_str()).collect();
        assert_eq!(given, owed, "{messages:#?}");
        assert_eq!(message.role == Role::Tool, !given.is_empty(), "{messages:#?}");
        owed = message.tool_calls().map(|call| call.id.as_str()).collect();
    }
    assert!(owed.is_empty(), "{messages:#?}");
}

/// How a run ended: awaited, or read from the last event of its stream.
pub(crate) async fn ended<O: Send + 'static>(
    run: provost_agent::RunBuilder<O>,
    streaming: bool,
) -> Result<provost_core::RunSummary, provost_core::ErrorInfo> {
    if !streaming {
        return run.await.map(|result| result.summary()).map_err(|error| error.info());
    }
    match events(run.stream()).await.pop().unwrap().kind {
        EventKind::Finished { summary } => Ok(*summary),
        EventKind::Failed { error } => Err(*error),
        EventKind::Denied { reason } => {
            let denied = provost_core::ErrorKind::Denied;
            Err(provost_core::ErrorInfo::new(denied, "denied", reason))
        }
        other => panic!("{other:?}"),
    }
}

/// Counts itself for as long as it lives: shows whether dropped work is really gone.
pub(crate) struct Alive(Arc<AtomicUsize>);

impl Alive {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A tool that never ends by itself; the count says how many of its calls are alive.
pub(crate) fn endless(alive: &Arc<AtomicUsize>) -> FnTool {
    let alive = Arc::clone(alive);
    tool_fn("endless", "Never ends", move |_cx, _args: Say| {
        let guard = Alive::new(&alive);
        async move {
            let _guard = guard;
            std::future::pending::<Result<String, ToolError>>().await
        }
    })
    .unwrap()
}
