//! A conversation with an agent over the API: say something, add to it, take it up again, begin anew.

use std::sync::Arc;

use provost_api::{Client, NewSession, NewTask, Paging, Run, RunList, Said, SessionMessage};
use provost_core::id::name::SessionName;
use provost_core::lifecycle::{RequestError, RunPhase};
use provost_core::scheduling::InputMode;
use provost_core::usage::limits::COMMAND_TEXT_BYTES_MAX;
use provost_core::{ContentPart, ErrorKind, InputId, Message, Role, RunId};
use provost_host::agent::{AGENT, NAME_PREFIX};

use super::run_stream::RunStream;
use crate::boot::{DEFAULT_AGENT, LocalRuns};
use crate::problem::Problem;

/// Runs among which the last one of a terminal is looked for.
const RECENT_MAX: u64 = 200;
/// Items of a page.
const PAGE: u64 = 500;

/// A conversation with an agent.
pub(crate) struct Conversation {
    client: Client,
    /// Executes the runs of the session in this process, unless a server does.
    local: Option<LocalRuns>,
    /// The agent that answers; the default agent of the namespace if none is named.
    agent: Option<String>,
    /// The name of the session; one without a name is not found again by name.
    name: Option<String>,
    session: String,
    /// The last run that was shown: later ones are news.
    seen: Option<RunId>,
}

/// What was said before, and what is not finished.
pub(crate) struct History {
    /// Oldest first.
    pub(crate) messages: Vec<Arc<Message>>,
    /// The run that is not finished.
    pub(crate) unfinished: Option<RunStream>,
}

/// A message that was added to a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddedInput {
    run: RunId,
    input: InputId,
}

impl Conversation {
    /// Opens the session with a name, or a new one. A session with a run that this process cannot finish is refused: opened
    /// with the wrong environment, the run would be lost.
    pub(crate) async fn open(
        client: Client,
        local: Option<LocalRuns>,
        name: Option<&str>,
    ) -> Result<Self, Problem> {
        let new = NewSession { key: name.map(str::to_owned), fresh: false };
        let session = client.create_session(&new).await?.id;
        let name = name.map(str::to_owned);
        let mut conversation = Self { client, local, agent: None, name, session, seen: None };
        if conversation.name.is_some() {
            conversation.seen = conversation.runs(1, None).await?.first().map(|run| run.id);
            if let Some(run) = conversation.unfinished().await? {
                conversation.check(&run).await?;
            }
        }
        conversation.execute_here();
        Ok(conversation)
    }

    /// True if this process executes the runs.
    pub(crate) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// The client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The name of the session.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Makes this agent answer from now on.
    pub(crate) fn set_agent(&mut self, agent: Option<String>) {
        self.agent = agent;
    }

    /// Submits a message that begins a turn. Once this returns, nothing can lose it.
    pub(crate) async fn start(&mut self, text: &str) -> Result<RunStream, Problem> {
        let task = NewTask {
            agent: self.agent.clone(),
            // The agent may have changed since the session began; a task of its own has the newest.
            new_task: true,
            ..self.task(text)?
        };
        let accepted = self.client.submit(&task).await?;
        Ok(self.follow(accepted.run))
    }

    /// Adds a message to the turn that is under way.
    pub(crate) async fn steer(&self, text: &str) -> Result<AddedInput, Problem> {
        let accepted = self.client.submit(&self.task(text)?).await?;
        Ok(AddedInput { run: accepted.run, input: accepted.input })
    }

    /// Takes a message back, if no run has read it.
    pub(crate) async fn withdraw(&self, added: AddedInput) -> Result<(), Problem> {
        match self.client.withdraw_input(added.run, added.input).await {
            // The run has read it, or another run has it.
            Err(error) if !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    /// What was said before.
    pub(crate) async fn history(&mut self) -> Result<History, Problem> {
        let unfinished = self.unfinished().await?.map(|run| run.id);
        let mut messages = Vec::new();
        let mut page = Paging { limit: Some(PAGE), cursor: None };
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

    /// The next run of the session that was not shown yet, begun here or by another client.
    pub(crate) async fn next_run(&mut self) -> Result<Option<RunStream>, Problem> {
        let runs = self.runs(PAGE, None).await?;
        let news = runs.into_iter().take_while(|run| self.seen.is_none_or(|seen| run.id > seen));
        // What ended before it began has nothing to show.
        let next = news.filter(|run| run.ended.is_none() || run.started.is_some()).last();
        Ok(next.map(|run| self.follow(run.id)))
    }

    /// The last run: of the session if it has a name, else of any terminal. It may be over.
    pub(crate) async fn last_run(&mut self) -> Result<RunStream, Problem> {
        if let Some(name) = &self.name {
            let what = format!("nothing was said in session `{name}`");
            let last = match self.unfinished().await? {
                Some(run) => Some(run),
                None => self.runs(1, None).await?.pop(),
            };
            let last = last.ok_or_else(|| Problem::new(ErrorKind::NotFound, what))?;
            return Ok(self.follow(last.id));
        }
        // Each agent of a terminal has a name of its own.
        let agent = self.agent.clone().filter(|_| !self.is_local());
        let list = RunList { agent, limit: Some(RECENT_MAX), ..RunList::default() };
        let mut runs = self.client.runs(&list).await?.items.into_iter();
        let last = runs.find(|run| !self.is_local() || run.agent.starts_with(NAME_PREFIX));
        let last = last.ok_or_else(|| Problem::new(ErrorKind::NotFound, "there is no run yet"))?;
        self.check(&last).await?;
        self.session.clone_from(&last.session);
        self.execute_here();
        Ok(self.follow(last.id))
    }

    /// Begins anew; what was said before stays in the database.
    pub(crate) async fn reset(&mut self) -> Result<(), Problem> {
        let new = NewSession { key: self.name.clone(), fresh: true };
        self.session = self.client.create_session(&new).await?.id;
        self.execute_here();
        Ok(())
    }

    fn follow(&mut self, run: RunId) -> RunStream {
        self.seen = Some(run);
        let agent = match (&self.local, &self.agent) {
            // The stored name of an agent of a terminal only tells it apart from others.
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

    /// Fails if this process would execute a run and cannot.
    async fn check(&self, run: &Run) -> Result<(), Problem> {
        match &self.local {
            Some(local) if run.ended.is_none() => {
                local.check(self.client.namespace(), &run.agent).await
            }
            _ => Ok(()),
        }
    }

    /// The run that holds the session, or else the one that is next.
    async fn unfinished(&self) -> Result<Option<Run>, Problem> {
        if let Some(holder) = self.client.session(&self.session).await?.holder {
            return Ok(Some(self.client.run(holder).await?));
        }
        Ok(self.runs(PAGE, Some(RunPhase::Queued)).await?.pop())
    }

    /// Runs of the session, newest first.
    async fn runs(&self, limit: u64, phase: Option<RunPhase>) -> Result<Vec<Run>, Problem> {
        let session = Some(self.session.clone());
        let list = RunList { session, phase, limit: Some(limit), ..RunList::default() };
        Ok(self.client.runs(&list).await?.items)
    }

    fn task(&self, text: &str) -> Result<NewTask, Problem> {
        let session: SessionName = self
            .session
            .parse()
            .map_err(|error: RequestError| Problem::invalid(error.to_string()))?;
        Ok(NewTask {
            message: Said::Parts(parts(text)),
            session: Some(session),
            queue_mode: Some(InputMode::Steer),
            // The agent of a terminal has its own limit, which says more when it is reached.
            timeout_ms: self.is_local().then_some(0),
            ..NewTask::default()
        })
    }
}

/// True if a message was there before the run. A summary by the run stands for messages that were.
fn is_before(item: &SessionMessage, run: Option<RunId>) -> bool {
    run != Some(item.run) || item.message.role == Role::Summary
}

/// A text as parts, none of which is larger than a part may be.
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
