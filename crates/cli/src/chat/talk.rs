//! A conversation on the engine: say something, add to it, take it up again, begin anew.

use provost_store::query;
use std::sync::Arc;

use provost_core::command::AgentCommand;
use provost_core::id::name::{Namespace, SessionName};
use provost_core::lifecycle::LOCAL_PRINCIPAL;
use provost_core::scheduling::QueueMode;
use provost_core::usage::limits::COMMAND_TEXT_BYTES_MAX;
use provost_core::{Env, ErrorKind, InputId, Message, Part, RunId};
use provost_engine::{Engine, Focus};
use provost_host::AgentFactory;
use provost_host::agent::{AgentSpec, NAME_PREFIX};

use crate::boot::Runtime;
use crate::chat::turn::Turn;
use crate::data::engine_problem;
use crate::problem::Problem;

/// Runs among which the last one of a terminal is looked for.
const RECENT_MAX: u64 = 200;

/// A conversation with an agent.
#[derive(Clone)]
pub(crate) struct Talk {
    engine: Engine,
    agents: Arc<AgentFactory>,
    focus: Focus,
    namespace: Namespace,
    /// The stored agent that answers.
    agent: String,
    /// What a person calls the session; one without a name is not found again by name.
    name: Option<String>,
    session: String,
    /// The last run that was shown: later ones are news.
    seen: RunId,
}

/// What was said before, and what is not finished.
pub(crate) struct Past {
    /// Oldest first.
    pub(crate) messages: Vec<Arc<Message>>,
    /// The turn that somebody left, or that another terminal works on.
    pub(crate) unfinished: Option<Turn>,
}

impl Talk {
    /// A conversation under a name, or a new one without. One with a turn that cannot be finished here is refused: nobody
    /// shall lose it by opening it with the wrong environment.
    pub(crate) async fn open(runtime: &Runtime, name: Option<&str>) -> Result<Self, Problem> {
        let (engine, focus) = (&runtime.engine, &runtime.focus);
        let namespace = Namespace::default();
        let session = match name {
            Some(name) => engine
                .sessions()
                .find_or_create(&namespace, name)
                .await
                .map_err(|e| engine_problem(&e))?,
            None => engine.sessions().new_id(),
        };
        let talk = Self {
            engine: engine.clone(),
            agents: Arc::clone(&runtime.agents),
            focus: focus.clone(),
            namespace,
            agent: String::new(),
            name: name.map(str::to_owned),
            session,
            seen: Env::system().id(),
        };
        if name.is_some() {
            let found = engine.sessions().conversation(&talk.namespace, &talk.session).await;
            let found = found.map_err(|error| engine_problem(&error))?;
            if let Some(run) = found.unfinished {
                talk.check(run).await?;
            }
        }
        focus.add(&talk.namespace, &talk.session);
        Ok(talk)
    }

    /// Can this process work on a run that is not finished?
    async fn check(&self, run: RunId) -> Result<(), Problem> {
        let run = query::run::get(self.engine.store(), &self.namespace, run).await;
        let run = run.map_err(|error| engine_problem(&error.into()))?;
        if run.ended.is_some() {
            return Ok(());
        }
        let agent = self.engine.agent(&self.namespace, &run.agent).await;
        let agent = agent.map_err(|error| engine_problem(&error))?;
        self.agents.prepare(&agent).await.map_err(|error| {
            let what = format!(
                "a turn of this session is not finished, and its agent cannot be used here: {}",
                error.message
            );
            let help = error.hint.unwrap_or_else(|| "use another --session".to_owned());
            Problem::new(error.kind, what).help(help)
        })
    }

    /// Makes this agent answer from now on.
    pub(crate) async fn use_agent(&mut self, spec: &AgentSpec) -> Result<(), Problem> {
        let config = spec.config()?;
        let name = AgentSpec::name(&config)?;
        let stored = self.engine.put_agent(&self.namespace, &name, Some(&spec.model), config);
        stored.await.map_err(|error| engine_problem(&error))?;
        self.agent = name;
        Ok(())
    }

    /// What a person calls the session.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Says something that begins a turn. When this returns, nothing can lose it.
    pub(crate) async fn start(&mut self, text: &str) -> Result<Turn, Problem> {
        let command = AgentCommand {
            agent: Some(self.agent.clone()),
            // The agent may have changed since the session began; a turn of its own has the newest.
            new_task: true,
            ..self.command(text)?
        };
        let accepted = self.engine.submit(&self.namespace, command).await;
        let accepted = accepted.map_err(|error| engine_problem(&error))?;
        Ok(self.follow(accepted.run))
    }

    /// Says something more to the turn that is under way, whoever works on it.
    pub(crate) async fn steer(&self, text: &str) -> Result<InputId, Problem> {
        let command = self.command(text)?;
        let accepted = self.engine.submit(&self.namespace, command).await;
        accepted.map(|accepted| accepted.input).map_err(|error| engine_problem(&error))
    }

    /// Takes back what was said, if nobody has read it yet.
    pub(crate) async fn withdraw(&self, input: InputId) -> Result<(), Problem> {
        match self.engine.inputs().withdraw(&self.namespace, input).await {
            Err(error) if error.kind() != ErrorKind::Conflict => Err(engine_problem(&error)),
            _ => Ok(()),
        }
    }

    /// What was said before.
    pub(crate) async fn past(&mut self) -> Result<Past, Problem> {
        let found = self.engine.sessions().conversation(&self.namespace, &self.session).await;
        let found = found.map_err(|error| engine_problem(&error))?;
        let unfinished = found.unfinished.map(|run| self.follow(run));
        Ok(Past { messages: found.messages, unfinished })
    }

    /// The next turn of the session that was not shown yet: what was said meanwhile, here or in another terminal.
    pub(crate) async fn next_turn(&mut self) -> Result<Option<Turn>, Problem> {
        let next = self.engine.sessions().next_run(&self.namespace, &self.session, self.seen).await;
        let next = next.map_err(|error| engine_problem(&error))?;
        Ok(next.map(|run| self.follow(run)))
    }

    /// The last turn: of the session if it has a name, else of any terminal. It may be over.
    pub(crate) async fn last_turn(&mut self) -> Result<Turn, Problem> {
        if let Some(name) = &self.name {
            let found = self.engine.sessions().conversation(&self.namespace, &self.session).await;
            let found = found.map_err(|error| engine_problem(&error))?;
            let what = format!("nothing was said in session `{name}`");
            let run = found.unfinished.or(found.last);
            let run = run.ok_or_else(|| Problem::new(ErrorKind::NotFound, what))?;
            return Ok(self.follow(run));
        }
        let runs = self.engine.sessions().newest_runs(&self.namespace, RECENT_MAX).await;
        let runs = runs.map_err(|error| engine_problem(&error))?;
        let last = runs.into_iter().find(|run| run.agent.starts_with(NAME_PREFIX));
        let last = last.ok_or_else(|| Problem::new(ErrorKind::NotFound, "there is no run yet"))?;
        self.check(last.id).await?;
        self.session = last.session_id;
        self.focus.add(&self.namespace, &self.session);
        Ok(self.follow(last.id))
    }

    /// Begins anew; what was said before stays in the database.
    pub(crate) async fn begin_anew(&mut self) -> Result<(), Problem> {
        self.session = match &self.name {
            Some(name) => self
                .engine
                .sessions()
                .start_fresh(&self.namespace, name)
                .await
                .map_err(|error| engine_problem(&error))?,
            None => self.engine.sessions().new_id(),
        };
        self.focus.add(&self.namespace, &self.session);
        Ok(())
    }

    fn follow(&mut self, run: RunId) -> Turn {
        self.seen = run;
        Turn::new(&self.engine, &self.namespace, run)
    }

    fn command(&self, text: &str) -> Result<AgentCommand, Problem> {
        let session: SessionName =
            self.session.parse().map_err(|error: provost_core::lifecycle::WorkError| {
                Problem::invalid(error.to_string())
            })?;
        Ok(AgentCommand {
            message: parts(text),
            session_id: Some(session),
            queue_mode: Some(QueueMode::Steer),
            // The agent has its own limit, which says more when it is reached.
            timeout_ms: Some(0),
            requested_by: Some(LOCAL_PRINCIPAL.to_owned()),
            ..AgentCommand::default()
        })
    }
}

/// A text as parts, none of which is larger than a part may be.
fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > COMMAND_TEXT_BYTES_MAX {
        let cut = rest.floor_char_boundary(COMMAND_TEXT_BYTES_MAX);
        let (piece, left) = rest.split_at(cut);
        parts.push(Part::text(piece));
        rest = left;
    }
    parts.push(Part::text(rest));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_loses_none() {
        assert_eq!(parts("hi"), [Part::text("hi")]);
        let long = "é".repeat(COMMAND_TEXT_BYTES_MAX);
        let parts = parts(&long);
        assert_eq!(parts.len(), 2);
        let text: String = parts.iter().filter_map(Part::as_text).collect();
        assert_eq!(text, long);
    }
}
