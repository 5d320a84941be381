//! A run is the fold of its feeds, whatever happens in it; and it can be taken up after any of them.

use std::sync::{Arc, Mutex};

use provost_core::{Env, Message, RunId};
use provost_model::{self as scripted, ScriptedModel, ScriptedTurn};
use provost_session::{InMemorySessionStore, SessionStore};
use provost_tool::{ToolContext, ToolError, tool_fn};
use serde_json::json;

use super::{ContextEdit, JournalEntry, RunStarted};
use crate::journal::{Effect, EffectStart, Journal, JournalError, JournalFuture};
use crate::run::Run;
use crate::{Agent, HostContext, RunOutcome};

/// Keeps everything in memory; refuses the n-th thing, as a crash would.
#[derive(Default)]
struct Notebook {
    pages: Mutex<Pages>,
    crash_at: Option<usize>,
}

#[derive(Default)]
struct Pages {
    beginning: Option<RunStarted>,
    feeds: Vec<JournalEntry>,
    effects: Vec<Effect>,
    inputs: Vec<Arc<Message>>,
    written: usize,
}

impl Notebook {
    fn crash_at(place: usize) -> Self {
        Self { crash_at: Some(place), ..Self::default() }
    }

    fn write(&self, what: impl FnOnce(&mut Pages)) -> Result<(), JournalError> {
        let mut pages = self.pages.lock().unwrap();
        if self.crash_at == Some(pages.written) {
            let crash = provost_core::ErrorInfo::new(
                provost_core::ErrorKind::Unavailable,
                "crash",
                "crash",
            );
            return Err(JournalError(crash));
        }
        pages.written += 1;
        what(&mut pages);
        Ok(())
    }

    fn fold(&self, id: RunId, history: Vec<Arc<Message>>) -> Option<Run> {
        let pages = self.pages.lock().unwrap();
        // Through text, as a database would keep it.
        let text = serde_json::to_string(pages.beginning.as_ref()?).unwrap();
        let mut run = Run::start(id, serde_json::from_str(&text).unwrap(), history).unwrap();
        for feed in &pages.feeds {
            let text = serde_json::to_string(feed).unwrap();
            run.apply(serde_json::from_str(&text).unwrap()).unwrap();
        }
        Some(run)
    }
}

impl Journal for Notebook {
    fn run_started<'a>(&'a self, beginning: &'a RunStarted) -> JournalFuture<'a, ()> {
        Box::pin(async { self.write(|pages| pages.beginning = Some(beginning.clone())) })
    }

    fn begin_effect(&self, effect: Effect) -> JournalFuture<'_, EffectStart> {
        Box::pin(async {
            self.write(|pages| pages.effects.push(effect)).map(|()| EffectStart::Proceed)
        })
    }

    fn record(&self, feed: &JournalEntry) -> Result<(), JournalError> {
        self.write(|pages| pages.feeds.push(feed.clone()))
    }

    fn take_inputs(&self) -> JournalFuture<'_, Vec<Arc<Message>>> {
        Box::pin(async { Ok(std::mem::take(&mut self.pages.lock().unwrap().inputs)) })
    }
}

fn script() -> Vec<ScriptedTurn> {
    vec![
        scripted::calls([("note", json!({"text": "one"})), ("note", json!({"text": "two"}))]),
        scripted::call("note", json!({"text": "three"})),
        scripted::text("done"),
    ]
}

fn model(skip: usize) -> ScriptedModel {
    script().into_iter().skip(skip).fold(ScriptedModel::new(), ScriptedModel::turn)
}

fn agent(model: ScriptedModel, sessions: &InMemorySessionStore) -> Agent {
    let note = |cx: ToolContext, arguments: serde_json::Value| async move {
        let count: u32 = cx.state().get("count").unwrap_or(0);
        cx.state().set("count", count + 1)?;
        Ok::<_, ToolError>(format!("noted {arguments}"))
    };
    let tool = tool_fn("note", "Notes a text", note).unwrap();
    Agent::builder("scribe", model).tool(tool).session_store(sessions.clone()).build().unwrap()
}

fn journaled(run_id: Option<RunId>, journal: &Arc<Notebook>) -> HostContext {
    let journal: Arc<dyn Journal> = journal.clone();
    HostContext { run_id, journal: Some(journal), ..HostContext::default() }
}

#[tokio::test]
async fn the_fold_of_the_feeds_is_the_run() {
    let sessions = InMemorySessionStore::default();
    let notebook = Arc::new(Notebook::default());
    notebook.pages.lock().unwrap().inputs.push(Arc::new(Message::user("and hurry")));
    let id: RunId = Env::system().id();
    let agent = agent(model(0), &sessions);
    let run = agent.run("note it").session("s").host(journaled(Some(id), &notebook));
    let result = run.await.unwrap();
    let folded = notebook.fold(id, Vec::new()).unwrap();
    assert_eq!(result.run_id, id);
    assert_eq!(folded.new_messages(), result.messages);
    assert_eq!(folded.usage(), result.usage);
    assert_eq!(folded.state(), &result.state);
    assert!(folded.is_done());
    assert!(!folded.has_unsaved());
    let heard = result.messages.iter().any(|message| message.text() == "and hurry");
    assert!(heard, "what the journal holds for the run is heard");
}

#[tokio::test]
async fn a_run_goes_on_from_wherever_it_was_cut_off() {
    let mut finished_uncut = false;
    for place in 0..64 {
        let sessions = InMemorySessionStore::default();
        let notebook = Arc::new(Notebook::crash_at(place));
        let id: RunId = Env::system().id();
        let first = agent(model(0), &sessions);
        let cut = first.run("note it").session("s").host(journaled(Some(id), &notebook));
        finished_uncut = cut.await.is_ok();
        let again = Arc::new(Notebook::default());
        let Some(run) = notebook.fold(id, Vec::new()) else { continue };
        // A model that goes on where the recorded answers end.
        let answered = run.turns() as usize;
        let revision = sessions.load("s").await.unwrap().map_or(0, |t| t.revision);
        let second = agent(model(answered), &sessions);
        let resumed = second.restore(run, revision).session("s").host(journaled(None, &again));
        let RunOutcome::Completed(result) = resumed.outcome().await.unwrap() else {
            panic!("cut at {place}: the run does not end");
        };
        assert_eq!(result.output, "done", "cut at {place}");
        assert_eq!(result.tool_calls, 3, "cut at {place}");
        if finished_uncut {
            break;
        }
    }
    assert!(finished_uncut, "64 places are not enough to come to the end");
}

#[test]
fn a_conversation_is_told_by_what_stayed_of_it() {
    let sessions: Vec<Arc<Message>> =
        ["a", "b", "c", "d"].map(|text| Arc::new(Message::user(text))).to_vec();
    let beginning: RunStarted = serde_json::from_value(json!({
        "agent": "a", "mirrors_session": true, "with": {"with": "nothing"}, "at": 0,
        "config": {"limits": {}, "at_limit": "stop", "execute_tools": true, "output": "text", "output_retries": 0, "depth": 0},
    }))
    .unwrap();
    let mut run = Run::start(Env::system().id(), beginning, sessions.clone()).unwrap();
    let summary = Arc::new(Message::user("sum"));
    let next = vec![Arc::clone(&summary), Arc::clone(&sessions[2]), Arc::clone(&sessions[3])];
    let pieces = run.diff_context(&next);
    assert_eq!(pieces, [ContextEdit::Insert(summary), ContextEdit::Keep { from: 2, count: 2 }]);
    run.apply(JournalEntry::ContextChanged { messages: pieces }).unwrap();
    assert_eq!(run.context(), next);
}
