//! Commands that change the state of a team, and their responses.

use provost_core::{ErrorKind, RunId, TeamMessage};
use serde::{Deserialize, Serialize};

use super::board::{BoardError, BoardTask, NewBoardTask};
use super::member::{Member, MemberOutcome};
use crate::team::inbox::MailError;

/// A command of a participant of a team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum TeamCommand {
    /// A member joins.
    Join {
        /// Name of the member.
        name: String,
        /// Task of the member.
        task: String,
    },
    /// The run of a member started.
    #[serde(rename = "began")]
    MemberStarted {
        /// Name of the member.
        name: String,
        /// Run of the member.
        run: RunId,
    },
    /// A member ended. Ignored if the member is unknown or has already ended.
    #[serde(rename = "over")]
    MemberFinished {
        /// Name of the member.
        name: String,
        /// Outcome of the member.
        end: MemberOutcome,
    },
    /// The lead has responded and reads no further messages.
    #[serde(rename = "lead_done")]
    LeadFinished,
    /// Lists the current and former members.
    Members,
    /// Sends a message.
    Send {
        /// Name of the sender.
        from: String,
        /// Name of the recipient. `*` sends to all participants except the sender.
        to: String,
        /// Text of the message.
        content: String,
    },
    /// Takes the unread messages of a participant.
    Read {
        /// Name of the participant.
        by: String,
    },
    /// Creates a task on the board.
    CreateTask(NewBoardTask),
    /// Claims a task.
    Claim {
        /// Name of the participant.
        by: String,
        /// Id of the task.
        task: String,
    },
    /// Releases a claimed task.
    Unclaim {
        /// Name of the participant.
        by: String,
        /// Id of the task.
        task: String,
    },
    /// Completes a task.
    CompleteTask {
        /// Name of the participant.
        by: String,
        /// Id of the task.
        task: String,
        /// Result of the task.
        result: String,
    },
    /// Lists the tasks of the board.
    Tasks,
    /// Closes the team.
    Close,
}

impl TeamCommand {
    /// Returns the command's stable name.
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

/// The response to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum TeamResponse {
    /// The command was applied.
    #[serde(rename = "noted")]
    Acknowledged,
    /// A member after the change.
    Member {
        /// The member.
        member: Member,
        /// The notice that the lead received about the member. `None` if it received none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<TeamMessage>,
    },
    /// All current and former members, in the order of joining.
    Members {
        /// The members.
        members: Vec<Member>,
        /// True if the lead has responded and reads no further messages.
        #[serde(default)]
        lead_done: bool,
    },
    /// The message was sent.
    Sent {
        /// The message.
        message: TeamMessage,
        /// Names of the recipients.
        recipients: Vec<String>,
    },
    /// Messages, oldest first.
    Messages {
        /// The messages.
        messages: Vec<TeamMessage>,
        /// Number of unread messages that remain.
        left: usize,
    },
    /// A task after the change.
    Task {
        /// The task.
        task: BoardTask,
    },
    /// All tasks, in the order of creation.
    Tasks {
        /// The tasks.
        tasks: Vec<BoardTask>,
    },
}

/// An error of a command. The state of the team did not change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TeamError {
    /// The name is not a valid member name.
    #[error("`{0}` is not a member's name: use 1 to 64 letters, digits, `_`, `-` or `.`")]
    Name(String),
    /// An active member has this name.
    #[error("`{0}` is already active: choose another name, or send a message to `{0}`")]
    NameInUse(String),
    /// A limit is reached.
    #[error("the team has {max} active members, which is the maximum: wait until one ends")]
    Full {
        /// Maximum active members.
        max: usize,
    },
    /// The run has reached its limit on members.
    #[error("the team has had {max} members, which is the maximum per run")]
    MemberLimit {
        /// Maximum number of members per run.
        max: usize,
    },
    /// No member has this name.
    #[error("`{name}` is not in the team; known names: {known}")]
    Unknown {
        /// The unknown name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The member has ended and reads no further messages.
    #[error("`{0}` has ended and reads no more messages")]
    Inactive(String),
    /// A required text is empty.
    #[error("`{0}` is empty: say something")]
    Empty(&'static str),
    /// A text is too long.
    #[error("`{what}` has {bytes} bytes, at most {max} are allowed: shorten it")]
    TooLong {
        /// Name of the text.
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        max: usize,
    },
    /// The board rejected the command.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// The message could not be delivered.
    #[error(transparent)]
    Mail(#[from] MailError),
}

impl TeamError {
    /// Returns the error's general kind.
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
