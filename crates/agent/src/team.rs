//! Teams: an agent that leads other agents, which run in parallel, exchange messages and share a task board.
//!
//! - [`Team`] is the definition, given to the lead with [`AgentBuilder::team`](crate::AgentBuilder::team).
//! - [`TeamState`] is the complete state of a team in one run of its lead, as a value. [`TeamStore`] stores it.
//! - [`TeamMembership`] identifies a run in its team. Members are child runs of the lead's run.

mod board;
mod board_tools;
mod command;
mod inbox;
mod mailbox;
mod member;
mod member_tools;
mod membership;
mod message_tools;
mod state;
mod store;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use provost_core::{Env, RunId};
use provost_tool::{State, Tool};

pub use crate::team::command::{TeamCommand, TeamError, TeamResponse};
pub use crate::team::inbox::{
    BROADCAST, INBOX_MESSAGES_MAX, Inboxes, MESSAGE_BYTES_MAX, MailError, READ_BYTES_MAX,
};
pub use crate::team::membership::TeamMembership;
pub use crate::team::state::{LEAD, MEMBERS_MAX, TASK_BYTES_MAX, TeamState};
pub use crate::team::store::{InMemoryTeamStore, TeamFuture, TeamStore, TeamWait};
pub use board::{
    BOARD_TASKS_MAX, BoardError, BoardTask, BoardTaskStatus, NewBoardTask, RESULT_BYTES_MAX,
    TITLE_BYTES_MAX, TaskBoard,
};
pub use mailbox::{MailFuture, Mailbox, MemoryMailbox};
pub use member::{Member, MemberOutcome, MemberStatus};
pub(crate) use message_tools::format_unrequested;

use crate::error::BuildError;
use crate::subagent::{AgentRef, HookInheritance};

/// Default limit on active members.
pub const SIZE_DEFAULT: usize = 16;
/// Name of the state value that holds the team of a suspended run.
const STATE_NAME: &str = "provost.team";
/// Maximum size of a list that a model receives, in bytes.
const LIST_BYTES_MAX: usize = 40 * 1024;

/// A team that an agent leads.
///
/// ```
/// # use provost_agent::{Agent, Team};
/// # use provost_model::ScriptedModel;
/// # use serde_json::json;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let (writer_model, lead_model) = (
/// #     ScriptedModel::new().text("A page."),
/// #     ScriptedModel::new()
/// #         .tool_call("spawn_teammate", json!({"name": "writer", "task": "Write a page."}))
/// #         .tool_call("wait_for_messages", json!({}))
/// #         .text("It is written."),
/// # );
/// let writer = Agent::builder("writer", writer_model).instructions("You write.").build()?;
/// let lead = Agent::builder("lead", lead_model)
///     .team(Team::new("press").template(&writer, "Writes pages").max_size(3))
///     .build()?;
/// assert_eq!(lead.run("We need a page.").await?.output, "It is written.");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Team {
    pub(crate) name: String,
    pub(crate) templates: Vec<(AgentRef, String)>,
    pub(crate) max_size: usize,
    pub(crate) default_timeout: Option<Duration>,
    pub(crate) coordinator_only: bool,
    pub(crate) push_messages: bool,
    pub(crate) hooks: HookInheritance,
}

impl Team {
    /// Creates a team without members.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            templates: Vec::new(),
            max_size: SIZE_DEFAULT,
            default_timeout: None,
            coordinator_only: false,
            push_messages: false,
            hooks: HookInheritance::Inherit,
        }
    }

    /// Lets the lead start members from this agent, by its name. The description tells the model what the agent is for.
    #[must_use]
    pub fn template(mut self, agent: impl Into<AgentRef>, description: impl Into<String>) -> Self {
        self.templates.push((agent.into(), description.into()));
        self
    }

    /// Sets how many members may be active at the same time. 0 means no limit.
    #[must_use]
    pub fn max_size(mut self, members: usize) -> Self {
        self.max_size = members;
        self
    }

    /// Sets the timeout of members for which the lead sets none. A member that exceeds it is stopped.
    #[must_use]
    pub fn default_timeout(mut self, timeout: Duration) -> Self {
        self.default_timeout = Some(timeout);
        self
    }

    /// Restricts the lead to coordination: only the tools of the team are offered and can run.
    #[must_use]
    pub fn coordinator_only(mut self) -> Self {
        self.coordinator_only = true;
        self
    }

    /// Adds unread messages to the next model call of the lead and of the members.
    #[must_use]
    pub fn push_messages(mut self) -> Self {
        self.push_messages = true;
        self
    }

    /// Sets which hooks observe the members.
    #[must_use]
    pub fn hooks(mut self, hooks: HookInheritance) -> Self {
        self.hooks = hooks;
        self
    }

    /// Returns the template with this name. `None` if there is none.
    pub(crate) fn find_template(&self, name: &str) -> Option<&AgentRef> {
        self.templates.iter().map(|(agent, _)| agent).find(|agent| &**agent.name() == name)
    }

    /// Creates the tools of the lead.
    pub(crate) fn lead_tools(&self) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
        let mut tools = member_tools::tools(self)?;
        tools.extend(shared_tools()?);
        Ok(tools)
    }

    /// Returns an error if two templates have the same name, a template leads a team itself, or a template has a tool
    /// with a reserved name.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        for (place, (agent, _)) in self.templates.iter().enumerate() {
            let name = agent.name();
            if self.templates[..place].iter().any(|(earlier, _)| earlier.name() == name) {
                let problem = format!("team `{}` has two templates named `{name}`", self.name);
                return Err(BuildError::Setting(problem));
            }
            let Some(definition) = agent.definition() else { continue };
            if definition.family.team.is_some() {
                return Err(BuildError::Setting(nested_team_message(name)));
            }
            let taken = definition.tools.iter().find(|tool| is_team_tool(tool.spec().name()));
            if let Some(tool) = taken {
                return Err(BuildError::DuplicateTool(tool.spec().name().to_owned()));
            }
        }
        Ok(())
    }

    /// Creates the lead's membership for one run, with the state of a suspended run if there is one.
    pub(crate) fn open(
        &self,
        run: RunId,
        mailbox: Option<&Arc<dyn Mailbox>>,
        state: &State,
        env: &Env,
    ) -> TeamMembership {
        let stored = state.get::<TeamState>(STATE_NAME);
        let team = stored.unwrap_or_else(|| TeamState::new(self.name.as_str(), self.max_size));
        let store = InMemoryTeamStore::new(run, team, env.clone());
        let store = match mailbox {
            Some(mailbox) => store.with_mailbox(Arc::clone(mailbox)),
            None => store,
        };
        TeamMembership::lead(self.name.as_str(), Arc::new(store))
    }
}

impl TeamMembership {
    /// Stores the team in the state of a suspended run, if the team's store ends with the run.
    pub(crate) fn save(&self, state: &State) -> Result<(), serde_json::Error> {
        match self.store().snapshot() {
            Some(team) => state.set(STATE_NAME, team),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team")
            .field("name", &self.name)
            .field("templates", &self.templates)
            .finish_non_exhaustive()
    }
}

/// Returns the error text for a member that leads a team itself.
pub(crate) fn nested_team_message(agent: &str) -> String {
    format!(
        "agent `{agent}` leads a team, so it cannot be a member of one: make it a subagent of a member"
    )
}

/// Creates the tools that all participants of a team have.
pub(crate) fn shared_tools() -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    let mut tools = message_tools::tools()?;
    tools.extend(member_tools::shared()?);
    tools.extend(board_tools::tools()?);
    Ok(tools)
}

/// Returns true for the names of team tools.
pub(crate) fn is_team_tool(name: &str) -> bool {
    member_tools::NAMES.contains(&name)
        || message_tools::NAMES.contains(&name)
        || board_tools::NAMES.contains(&name)
}
