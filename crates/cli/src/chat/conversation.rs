//! A conversation with an agent over the API: starts runs, adds messages, loads the history and resets the session.

use std::sync::Arc;

use provost_api::{
    Client, MessageInput, NewSession, NewTask, PageQuery, Run, RunQuery, SessionMessage,
};
use provost_core::id::name::SessionName;
use provost_core::lifecycle::{RequestError, RunPhase};
use provost_core::resource::TERMINAL_AGENT_PREFIX;
use provost_core::scheduling::InputMode;
use provost_core::usage::limits::COMMAND_TEXT_BYTES_MAX;
use provost_core::{ContentPart, ErrorKind, InputId, Message, Role, RunId};
use provost_host::agent::AGENT;

use super::run_stream::RunStream;
use crate::boot::{DEFAULT_AGENT, LocalRuns};
use crate::error::CliError;

/// Maximum number of runs in which the last run of a terminal is searched.
const RECENT_MAX: u64 = 200;
/// Maximum number of items in a page.
const PAGE: u64 = 500;

/// A conversation with an agent.
pub(crate) struct Conversation {
    client: Client,
    /// Executes the runs of the session in this process. `None` if a server executes them.
    local: Option<LocalRuns>,
    /// Agent that answers. `None` for the default agent of the namespace.
    agent: Option<String>,
    /// Name of the session. `None` if the session cannot be found by name.
    name: Option<String>,
    session: String,
    /// Last run that was shown. Later runs are new.
    last_shown: Option<RunId>,
}

/// Stored messages of a session, and its unfinished run.
pub(crate) struct History {
    /// Messages before the unfinished run, oldest first.
    pub(crate) messages: Vec<Arc<Message>>,
    /// Unfinished run. `None` if every run has ended.
    pub(crate) unfinished: Option<RunStream>,
}

/// Message that was added to an active run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddedInput {
    run: RunId,
    input: InputId,
}

impl Conversation {
    /// Opens the session with a name, or a new session. Returns an error if this process cannot execute an unfinished
    /// run of the session, because the run would fail.
    pub(crate) async fn open(
        client: Client,
        local: Option<LocalRuns>,
        name: Option<&str>,
    ) -> Result<Self, CliError> {
        let new = NewSession { key: name.map(str::to_owned), fresh: false };
        let session = client.create_session(&new).await?.id;
        let name = name.map(str::to_owned);
        let mut conversation = Self { client, local, agent: None, name, session, last_shown: None };
        if conversation.name.is_some() {
            conversation.last_shown = conversation.runs(1, None).await?.first().map(|run| run.id);
            if let Some(run) = conversation.unfinished().await? {
                conversation.check(&run).await?;
            }
        }
        conversation.execute_here();
        Ok(conversation)
    }

    /// Returns true if this process executes the runs.
    pub(crate) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// Returns the client of the API.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the name of the session. `None` for a conversation without a name.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Sets the agent of later runs.
    pub(crate) fn set_agent(&mut self, agent: Option<String>) {
        self.agent = agent;
    }

    /// Submits a message that starts a run. The message is stored durably when this function returns.
    pub(crate) async fn start(&mut self, text: &str) -> Result<RunStream, CliError> {
        let task = NewTask {
            agent: self.agent.clone(),
            // A new task uses the current agent, which may have changed since the session started.
            new_task: true,
            ..self.task(text)?
        };
        let accepted = self.client.submit(&task).await?;
        Ok(self.follow(accepted.run))
    }

    /// Adds a message to the active run.
    pub(crate) async fn steer(&self, text: &str) -> Result<AddedInput, CliError> {
        let accepted = self.client.submit(&self.task(text)?).await?;
        Ok(AddedInput { run: accepted.run, input: accepted.input })
    }

    /// Deletes a message that no run has read. Does nothing if a run has read it.
    pub(crate) async fn withdraw(&self, added: AddedInput) -> Result<(), CliError> {
        match self.client.delete_input(added.run, added.input).await {
            // A run has already read the message.
            Err(error) if !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    /// Loads the stored messages and the unfinished run.
    pub(crate) async fn history(&mut self) -> Result<History, CliError> {
        let unfinished = self.unfinished().await?.map(|run| run.id);
        let mut messages = Vec::new();
        let mut page = PageQuery { limit: Some(PAGE), cursor: None };
        loop {
            let found = self.client.session_messages(&self.session, &page).await?;
            let before = found.items.into_iter().filter(|item| is_before(item, unfinished));
            messages.extend(before.map(|item| Arc::new(item.message)));
            if found.next.is_none() {
                break;
            }
            page.cursor = found.next;
        }
        let unfinished = unfinished.map(|run| self.follow(run));
        Ok(History { messages, unfinished })
    }

    /// Returns the oldest run of the session that was not shown yet, whether this process or another client started it.
    pub(crate) async fn next_run(&mut self) -> Result<Option<RunStream>, CliError> {
        let runs = self.runs(PAGE, None).await?;
        let new_runs =
            runs.into_iter().take_while(|run| self.last_shown.is_none_or(|last| run.id > last));
        // A run that ended before it started has no events to show.
        let next = new_runs.filter(|run| run.ended.is_none() || run.started.is_some()).last();
        Ok(next.map(|run| self.follow(run.id)))
    }

    /// Returns the last run of the session, or the last run of any terminal if the session has no name. The run may
    /// have ended.
    pub(crate) async fn last_run(&mut self) -> Result<RunStream, CliError> {
        if let Some(name) = &self.name {
            let message = format!("session `{name}` has no runs");
            let last = match self.unfinished().await? {
                Some(run) => Some(run),
                None => self.runs(1, None).await?.pop(),
            };
            let last = last.ok_or_else(|| CliError::new(ErrorKind::NotFound, message))?;
            return Ok(self.follow(last.id));
        }
        // Every agent of a terminal has a different name, so the name cannot be a filter.
        let agent = self.agent.clone().filter(|_| !self.is_local());
        let list = RunQuery { agent, limit: Some(RECENT_MAX), ..RunQuery::default() };
        let mut runs = self.client.runs(&list).await?.items.into_iter();
        let last =
            runs.find(|run| !self.is_local() || run.agent.starts_with(TERMINAL_AGENT_PREFIX));
        let last = last.ok_or_else(|| CliError::new(ErrorKind::NotFound, "there is no run yet"))?;
        self.check(&last).await?;
        self.session.clone_from(&last.session);
        self.execute_here();
        Ok(self.follow(last.id))
    }

    /// Starts a new session under the same name. The previous conversation stays in the database.
    pub(crate) async fn reset(&mut self) -> Result<(), CliError> {
        let new = NewSession { key: self.name.clone(), fresh: true };
        self.session = self.client.create_session(&new).await?.id;
        self.execute_here();
        Ok(())
    }

    /// Returns the events of a run, and remembers the run as shown.
    fn follow(&mut self, run: RunId) -> RunStream {
        self.last_shown = Some(run);
        let agent = match (&self.local, &self.agent) {
            // The stored name of a local agent is a hash, which is not shown to the user.
            (Some(_), _) => AGENT,
            (None, Some(agent)) => agent,
            (None, None) => DEFAULT_AGENT,
        };
        RunStream::new(&self.client, run, agent, /*deltas*/ true)
    }

    /// Lets the worker of this process execute the session.
    fn execute_here(&self) {
        if let Some(local) = &self.local {
            local.execute(self.client.namespace(), &self.session);
        }
    }

    /// Returns an error if this process has to execute a run and cannot build its agent.
    async fn check(&self, run: &Run) -> Result<(), CliError> {
        match &self.local {
            Some(local) if run.ended.is_none() => {
                local.check_executable(self.client.namespace(), &run.agent).await
            }
            _ => Ok(()),
        }
    }

    /// Returns the active run of the session, or else the next queued run.
    async fn unfinished(&self) -> Result<Option<Run>, CliError> {
        if let Some(holder) = self.client.session(&self.session).await?.holder {
            return Ok(Some(self.client.run(holder).await?));
        }
        Ok(self.runs(PAGE, Some(RunPhase::Queued)).await?.pop())
    }

    /// Returns runs of the session, newest first.
    async fn runs(&self, limit: u64, phase: Option<RunPhase>) -> Result<Vec<Run>, CliError> {
        let session = Some(self.session.clone());
        let list = RunQuery { session, phase, limit: Some(limit), ..RunQuery::default() };
        Ok(self.client.runs(&list).await?.items)
    }

    /// Creates the task for a message in this session.
    fn task(&self, text: &str) -> Result<NewTask, CliError> {
        let session: SessionName = self
            .session
            .parse()
            .map_err(|error: RequestError| CliError::invalid(error.to_string()))?;
        Ok(NewTask {
            message: MessageInput::Parts(parts(text)),
            session: Some(session),
            queue_mode: Some(InputMode::Steer),
            // A local agent has its own timeout, whose error message is more precise.
            timeout_ms: self.is_local().then_some(0),
            ..NewTask::default()
        })
    }
}

/// Returns true if a message is older than the run. A summary that the run wrote replaces older messages.
fn is_before(item: &SessionMessage, run: Option<RunId>) -> bool {
    run != Some(item.run) || item.message.role == Role::Summary
}

/// Splits a text into parts of the allowed size.
fn parts(text: &str) -> Vec<ContentPart> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > COMMAND_TEXT_BYTES_MAX {
        let cut = rest.floor_char_boundary(COMMAND_TEXT_BYTES_MAX);
        let (piece, left) = rest.split_at(cut);
        parts.push(ContentPart::text(piece));
        rest = left;
    }
    parts.push(ContentPart::text(rest));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_loses_none() {
        assert_eq!(parts("hi"), [ContentPart::text("hi")]);
        let long = "é".repeat(COMMAND_TEXT_BYTES_MAX);
        let parts = parts(&long);
        assert_eq!(parts.len(), 2);
        let text: String = parts.iter().filter_map(ContentPart::as_text).collect();
        assert_eq!(text, long);
    }
}
