//! Teams: an agent that leads others, which work at the same time, write to each other and share a board.
//!
//! - [`Team`] is the definition, given to the lead with [`AgentBuilder::team`](crate::AgentBuilder::team).
//! - [`TeamState`] is everything a team knows in one run of its lead, a pure value; [`TeamStore`] keeps it.
//! - [`Seat`] says who a run is in its team. Members are runs below the lead's run.

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
    BOARD_TASKS_MAX, BoardError, BoardTask, NewBoardTask, RESULT_BYTES_MAX, TITLE_BYTES_MAX,
    TaskBoard, TaskStatus,
};
pub use mailbox::{MailFuture, Mailbox, MemoryMailbox};
pub use member::{Member, MemberOutcome, MemberStatus};
pub(crate) use message_tools::injected;

use crate::error::BuildError;
use crate::subagent::{AgentRef, HookInheritance};

/// Members that may be active at once unless the team says otherwise.
pub const SIZE_DEFAULT: usize = 16;
/// Where a suspended run keeps its team's book.
const BOOK_NOTE: &str = "provost.team";
/// Bytes of one list that a model is shown.
const LIST_BYTES_MAX: usize = 40 * 1024;

/// A team that an agent leads.
///
/// ```
/// # use provost_agent::{Agent, Team};
/// # use provost_model::{ScriptedModel, call, text};
/// # use serde_json::json;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let (writer_model, lead_model) = (
/// #     ScriptedModel::new().turn(text("A page.")),
/// #     ScriptedModel::new()
/// #         .turn(call("spawn_teammate", json!({"name": "writer", "task": "Write a page."})))
/// #         .turn(call("wait_for_messages", json!({})))
/// #         .turn(text("It is written.")),
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
    /// A team of this name, of which nobody is a member yet.
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

    /// Lets the lead make members after this agent, by its name; the model is told what it is good for.
    #[must_use]
    pub fn template(mut self, agent: impl Into<AgentRef>, description: impl Into<String>) -> Self {
        self.templates.push((agent.into(), description.into()));
        self
    }

    /// Sets how many members may be active at once; 0 for any number.
    #[must_use]
    pub fn max_size(mut self, members: usize) -> Self {
        self.max_size = members;
        self
    }

    /// Sets the time of a member for which the lead sets none; then it is stopped.
    #[must_use]
    pub fn default_timeout(mut self, timeout: Duration) -> Self {
        self.default_timeout = Some(timeout);
        self
    }

    /// Lets the lead do nothing but lead: of all its tools only those of the team are offered and can run.
    #[must_use]
    pub fn coordinator_only(mut self) -> Self {
        self.coordinator_only = true;
        self
    }

    /// Shows unread messages to the lead and the members before their next model call, without being asked.
    #[must_use]
    pub fn push_messages(mut self) -> Self {
        self.push_messages = true;
        self
    }

    /// Sets whose hooks see what the members do.
    #[must_use]
    pub fn hooks(mut self, hooks: HookInheritance) -> Self {
        self.hooks = hooks;
        self
    }

    pub(crate) fn find_template(&self, name: &str) -> Option<&AgentRef> {
        self.templates.iter().map(|(agent, _)| agent).find(|agent| &**agent.name() == name)
    }

    /// The tools of the lead.
    pub(crate) fn lead_tools(&self) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
        let mut tools = member_tools::tools(self)?;
        tools.extend(shared_tools()?);
        Ok(tools)
    }

    /// What can be wrong with it before any run.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        for (place, (agent, _)) in self.templates.iter().enumerate() {
            let name = agent.name();
            if self.templates[..place].iter().any(|(earlier, _)| earlier.name() == name) {
                let problem = format!("team `{}` has two templates called `{name}`", self.name);
                return Err(BuildError::Setting(problem));
            }
            let Some(core) = agent.core() else { continue };
            if core.family.team.is_some() {
                return Err(BuildError::Setting(nested_team_message(name)));
            }
            let taken = core.tools.iter().find(|tool| is_team_tool(tool.spec().name()));
            if let Some(tool) = taken {
                return Err(BuildError::DuplicateTool(tool.spec().name().to_owned()));
            }
        }
        Ok(())
    }

    /// The lead's place in a run of its own, with what a suspended run had kept.
    pub(crate) fn open(
        &self,
        run: RunId,
        mailbox: Option<&Arc<dyn Mailbox>>,
        state: &State,
        env: &Env,
    ) -> TeamMembership {
        let kept = state.get::<TeamState>(BOOK_NOTE);
        let book = kept.unwrap_or_else(|| TeamState::new(self.name.as_str(), self.max_size));
        let desk = InMemoryTeamStore::new(run, book, env.clone());
        let desk = match mailbox {
            Some(mailbox) => desk.with_mailbox(Arc::clone(mailbox)),
            None => desk,
        };
        TeamMembership::lead(self.name.as_str(), Arc::new(desk))
    }
}

impl TeamMembership {
    /// Keeps the book with a run that is suspended, where it would end with it.
    pub(crate) fn save(&self, state: &State) -> Result<(), serde_json::Error> {
        match self.store().snapshot() {
            Some(book) => state.set(BOOK_NOTE, book),
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

/// Why an agent cannot be a member.
pub(crate) fn nested_team_message(agent: &str) -> String {
    format!(
        "agent `{agent}` leads a team, so it cannot be a member of one: make it a sub-agent of a member"
    )
}

/// The tools of everybody in a team.
pub(crate) fn shared_tools() -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    let mut tools = message_tools::tools()?;
    tools.extend(member_tools::shared()?);
    tools.extend(board_tools::tools()?);
    Ok(tools)
}

/// True for the name of a team's tool.
pub(crate) fn is_team_tool(name: &str) -> bool {
    member_tools::NAMES.contains(&name)
        || message_tools::NAMES.contains(&name)
        || board_tools::NAMES.contains(&name)
}
