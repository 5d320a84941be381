//! The one place that touches the agent: begin a turn, read its events, answer, steer and stop it.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use provost_agent::session::{SessionError, SessionStore};
use provost_agent::{Agent, HandleError, OnApproval, RunHandle, RunStream};
use provost_core::{ApprovalDecision, ApprovalId, ErrorKind, Event, Message};
use provost_model::ChatModel;

use crate::problem::Problem;

/// How long a turn may take to end in order once nobody listens.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// A conversation with an agent.
#[derive(Clone)]
pub(crate) struct Talk {
    agent: Agent,
    store: Arc<dyn SessionStore>,
    session: String,
}

impl Talk {
    /// A conversation that is kept in a store.
    pub(crate) fn new(agent: Agent, store: Arc<dyn SessionStore>, session: String) -> Self {
        Self { agent, store, session }
    }

    /// The agent answers with another model from now on.
    pub(crate) fn use_model(&mut self, model: Arc<dyn ChatModel>) {
        self.agent = self.agent.with_model(model);
    }

    /// Begins a turn. Nothing happens before its events are read.
    pub(crate) fn start(&self, text: &str) -> Turn {
        let stream = self
            .agent
            .run(text)
            .session(Arc::clone(&self.store), self.session.clone())
            .on_approval(OnApproval::Events)
            .stream();
        Turn { handle: stream.handle(), stream }
    }

    /// What was said before, oldest first.
    pub(crate) async fn history(&self) -> Result<Vec<Arc<Message>>, Problem> {
        let stored = self.store.load(&self.session).await;
        let transcript = stored.map_err(|error| session_problem(&error))?;
        Ok(transcript.map_or_else(Vec::new, |transcript| transcript.messages))
    }

    /// Forgets what was said.
    pub(crate) async fn forget(&self) -> Result<(), Problem> {
        let gone = self.store.delete(&self.session).await;
        gone.map(|_| ()).map_err(|error| session_problem(&error))
    }
}

/// A session error as a problem, with the way out where there is one.
pub(crate) fn session_problem(error: &SessionError) -> Problem {
    let problem = Problem::new(error.kind(), error.to_string());
    match error.kind() {
        ErrorKind::Invalid => problem.help("choose a shorter name with --session"),
        ErrorKind::Malformed => problem.help("choose another name with --session"),
        ErrorKind::Unavailable => problem.help("`provost doctor` checks the data directory"),
        _ => problem,
    }
}

/// A turn that runs. Dropping it stops it and leaves a valid conversation.
pub(crate) struct Turn {
    stream: RunStream,
    handle: RunHandle,
}

impl Turn {
    /// The next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        self.stream.next().await
    }

    /// The next event if it is there already.
    pub(crate) fn next_ready(&mut self) -> Option<Event> {
        self.stream.next().now_or_never().flatten()
    }

    /// Answers a question.
    pub(crate) fn decide(&self, id: ApprovalId, decision: ApprovalDecision) {
        // A run that is over asks nothing any more.
        self.handle.decide(id, decision).ok();
    }

    /// Says something more. A run that is over does not hear it; whoever said it finds out by the event that does not come.
    pub(crate) fn steer(&self, text: &str) -> Result<(), Problem> {
        match self.handle.steer(text) {
            Ok(()) | Err(HandleError::Ended) => Ok(()),
            Err(error @ (HandleError::Full | HandleError::NotAsked)) => {
                Err(Problem::new(ErrorKind::Exhausted, error.to_string()))
            }
        }
    }

    /// Stops it; its last event follows.
    pub(crate) fn cancel(&self) {
        self.handle.cancel();
    }

    /// Stops it and waits until it has ended in order, so that what was said is kept. It does not wait long.
    pub(crate) async fn end(mut self) {
        self.cancel();
        let drain = async { while self.stream.next().await.is_some() {} };
        tokio::time::timeout(END_TIMEOUT, drain).await.ok();
    }
}
