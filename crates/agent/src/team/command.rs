//! What is asked of a team's book and what it answers.

use provost_core::{ErrorKind, RunId, TeamMessage};
use serde::{Deserialize, Serialize};

use super::board::{BoardError, BoardTask, NewBoardTask};
use super::member::{Member, MemberOutcome};
use crate::team::inbox::MailError;

/// Something that somebody of a team does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum TeamCommand {
    /// A member joins.
    Join {
        /// Its name.
        name: String,
        /// What it is asked.
        task: String,
    },
    /// A member's run began.
    #[serde(rename = "began")]
    MemberStarted {
        /// Its name.
        name: String,
        /// The run.
        run: RunId,
    },
    /// A member is over. Of an unknown one, and of one that is over already, nothing is noted.
    #[serde(rename = "over")]
    MemberFinished {
        /// Its name.
        name: String,
        /// How it ended.
        end: MemberOutcome,
    },
    /// The lead has given its answer and reads no more.
    #[serde(rename = "lead_done")]
    LeadFinished,
    /// Who is there, and who was.
    Members,
    /// Somebody says something.
    Send {
        /// Who.
        from: String,
        /// To whom; `*` for everybody.
        to: String,
        /// What.
        content: String,
    },
    /// Somebody takes its messages out.
    Read {
        /// Who.
        by: String,
    },
    /// A task is put on the board.
    CreateTask(NewBoardTask),
    /// Somebody takes a task.
    Claim {
        /// Who.
        by: String,
        /// Which.
        task: String,
    },
    /// Somebody gives a task back.
    Unclaim {
        /// Who.
        by: String,
        /// Which.
        task: String,
    },
    /// Somebody has done a task.
    CompleteTask {
        /// Who.
        by: String,
        /// Which.
        task: String,
        /// What came of it.
        result: String,
    },
    /// What is on the board.
    Tasks,
    /// The team is over.
    Close,
}

impl TeamCommand {
    /// Its stable name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Join { .. } => "join",
            Self::MemberStarted { .. } => "began",
            Self::MemberFinished { .. } => "over",
            Self::LeadFinished => "lead_done",
            Self::Members => "members",
            Self::Send { .. } => "send",
            Self::Read { .. } => "read",
            Self::CreateTask(_) => "create_task",
            Self::Claim { .. } => "claim",
            Self::Unclaim { .. } => "unclaim",
            Self::CompleteTask { .. } => "complete_task",
            Self::Tasks => "tasks",
            Self::Close => "close",
        }
    }
}

/// What came of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum TeamResponse {
    /// It is noted.
    #[serde(rename = "noted")]
    Acknowledged,
    /// A member, as it stands now.
    Member {
        /// The member.
        member: Member,
        /// What the lead was told about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<TeamMessage>,
    },
    /// Everybody who was ever there, in the order of joining.
    Members {
        /// Them.
        members: Vec<Member>,
        /// True if the lead has given its answer and reads no more.
        #[serde(default)]
        lead_done: bool,
    },
    /// A message went out.
    Sent {
        /// The message.
        message: TeamMessage,
        /// Who got it.
        recipients: Vec<String>,
    },
    /// Messages, oldest first.
    Messages {
        /// Them.
        messages: Vec<TeamMessage>,
        /// How many more wait.
        left: usize,
    },
    /// A task, as it stands now.
    Task {
        /// The task.
        task: BoardTask,
    },
    /// Every task, in the order of creation.
    Tasks {
        /// Them.
        tasks: Vec<BoardTask>,
    },
}

/// Why a team's book stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TeamError {
    /// A name that nobody can have.
    #[error("`{0}` is not a member's name: use 1 to 64 letters, digits, `_`, `-` or `.`")]
    Name(String),
    /// The name is taken.
    #[error("`{0}` is at work already: give the new member another name, or write to `{0}`")]
    NameInUse(String),
    /// There is no room.
    #[error("the team has {max} active members, which is the most: wait until one is done")]
    Full {
        /// How many it may have at once.
        max: usize,
    },
    /// Too many have come and gone.
    #[error("the team has had {max} members, which is the most of one run")]
    MemberLimit {
        /// How many it may have in all.
        max: usize,
    },
    /// Nobody of this name was ever there.
    #[error("`{name}` is not in the team; there are: {known}")]
    Unknown {
        /// Who was asked for.
        name: String,
        /// Who is there.
        known: String,
    },
    /// It reads no more.
    #[error("`{0}` is done and reads no more messages")]
    Inactive(String),
    /// Something that must be said was not.
    #[error("`{0}` is empty: say something")]
    Empty(&'static str),
    /// Too much was said.
    #[error("`{what}` is {bytes} bytes long, at most {max} are taken: make it shorter")]
    TooLong {
        /// What.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// The board does not allow it.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// The message was not taken.
    #[error(transparent)]
    Mail(#[from] MailError),
}

impl TeamError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Name(_) | Self::Empty(_) | Self::TooLong { .. } => ErrorKind::Invalid,
            Self::NameInUse(_) | Self::Inactive(_) => ErrorKind::Conflict,
            Self::Full { .. } | Self::MemberLimit { .. } => ErrorKind::Exhausted,
            Self::Unknown { .. } => ErrorKind::NotFound,
            Self::Board(error) => error.kind(),
            Self::Mail(error) => error.kind(),
        }
    }
}
