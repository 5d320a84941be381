//! The task board of a team, as a value: no I/O and no clock.

use provost_core::text::first_chars;
use provost_core::{ErrorKind, Timestamp};
use serde::{Deserialize, Serialize};

/// Maximum tasks per board.
pub const BOARD_TASKS_MAX: usize = 200;
/// Maximum size of a title in bytes.
pub const TITLE_BYTES_MAX: usize = 2 * 1024;
/// Maximum size of a result in bytes.
pub const RESULT_BYTES_MAX: usize = 16 * 1024;

const ID_PREFIX: &str = "board-";

/// Status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoardTaskStatus {
    /// The task has no assignee.
    Open,
    /// The assignee works on the task.
    Claimed,
    /// The task has a result.
    Completed,
}

/// A task on the board of a team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardTask {
    /// Id, such as `board-1`.
    pub id: String,
    /// Description of the task.
    pub title: String,
    /// Status of the task.
    pub status: BoardTaskStatus,
    /// The participant who works on the task, or completed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// Result of the task. `None` until it is completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Tasks that must be completed before this one can be claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// Deadline. After it, other participants can claim the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The participant who created the task.
    pub created_by: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

impl BoardTask {
    /// Returns true if the deadline has passed and the task is not completed.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.status != BoardTaskStatus::Completed
            && self.deadline.is_some_and(|deadline| now > deadline)
    }
}

/// A new task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewBoardTask {
    /// The participant who creates the task.
    pub by: String,
    /// Description of the task.
    pub title: String,
    /// Tasks that must be completed before this one can be claimed.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// Deadline. `None` means no deadline.
    #[serde(default)]
    pub deadline: Option<Timestamp>,
}

/// Error of a board command. The board did not change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoardError {
    /// No task has this id.
    #[error("the board has no task `{id}`; known tasks: {known}")]
    Unknown {
        /// The unknown id.
        id: String,
        /// The known ids.
        known: String,
    },
    /// Another participant works on the task.
    #[error("task `{id}` is claimed by `{assignee}`: take another one")]
    Claimed {
        /// Id of the task.
        id: String,
        /// The assignee.
        assignee: String,
    },
    /// The task is already completed.
    #[error("task `{0}` is already completed")]
    Completed(String),
    /// The task depends on tasks that are not completed.
    #[error("task `{id}` depends on {waits_for}: complete that first")]
    Blocked {
        /// Id of the task.
        id: String,
        /// Ids of those tasks.
        waits_for: String,
    },
    /// The task belongs to another participant.
    #[error("task `{id}` is claimed by `{assignee}`, so only `{assignee}` can do that")]
    NotYours {
        /// Id of the task.
        id: String,
        /// The assignee.
        assignee: String,
    },
    /// The task has no assignee.
    #[error("task `{0}` is not claimed: claim it first")]
    Unclaimed(String),
    /// The board has the maximum number of tasks.
    #[error("the board is full: it has {BOARD_TASKS_MAX} tasks")]
    Full,
}

impl BoardError {
    /// Returns the error's general kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown { .. } => ErrorKind::NotFound,
            Self::NotYours { .. } => ErrorKind::Denied,
            Self::Full => ErrorKind::Exhausted,
            Self::Claimed { .. }
            | Self::Completed(_)
            | Self::Blocked { .. }
            | Self::Unclaimed(_) => ErrorKind::Conflict,
        }
    }
}

/// The tasks of one team, in the order of creation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskBoard {
    tasks: Vec<BoardTask>,
}

impl TaskBoard {
    /// Returns all tasks.
    pub fn tasks(&self) -> &[BoardTask] {
        &self.tasks
    }

    /// Creates a task. It can depend only on existing tasks, so there are no cycles. Returns an error if the board is
    /// full or a dependency does not exist.
    pub fn create(&mut self, new: NewBoardTask, now: Timestamp) -> Result<BoardTask, BoardError> {
        if self.tasks.len() >= BOARD_TASKS_MAX {
            return Err(BoardError::Full);
        }
        for id in &new.depends_on {
            self.find(id)?;
        }
        let NewBoardTask { by, title, depends_on, deadline } = new;
        let task = BoardTask {
            id: format!("{ID_PREFIX}{}", self.tasks.len() + 1),
            title,
            status: BoardTaskStatus::Open,
            assignee: None,
            result: None,
            depends_on,
            deadline,
            created_by: by,
            created_at: now,
            updated_at: now,
        };
        self.tasks.push(task.clone());
        Ok(task)
    }

    /// Claims a task for a participant. An overdue claim of another participant is replaced. Returns an error if the
    /// task is completed, claimed, or depends on a task that is not completed.
    pub fn claim(&mut self, id: &str, by: &str, now: Timestamp) -> Result<BoardTask, BoardError> {
        let task = self.find(id)?;
        match (task.status, &task.assignee) {
            (BoardTaskStatus::Completed, _) => return Err(BoardError::Completed(id.to_owned())),
            (BoardTaskStatus::Claimed, Some(assignee))
                if assignee == by || !task.is_overdue(now) =>
            {
                let (id, assignee) = (id.to_owned(), assignee.clone());
                return Err(BoardError::Claimed { id, assignee });
            }
            _ => {}
        }
        let open = |other: &&String| {
            self.find(other).is_ok_and(|other| other.status != BoardTaskStatus::Completed)
        };
        let waits_for: Vec<String> = task.depends_on.iter().filter(open).cloned().collect();
        if !waits_for.is_empty() {
            let waits_for = waits_for.join(", ");
            return Err(BoardError::Blocked { id: id.to_owned(), waits_for });
        }
        self.change(id, now, |task| {
            task.status = BoardTaskStatus::Claimed;
            task.assignee = Some(by.to_owned());
        })
    }

    /// Releases a claimed task. Returns an error if `by` is neither its assignee nor the lead, or the task is not
    /// claimed.
    pub fn unclaim(
        &mut self,
        id: &str,
        by: &str,
        is_lead: bool,
        now: Timestamp,
    ) -> Result<BoardTask, BoardError> {
        if !is_lead {
            self.check_assignee(id, by)?;
        } else if self.find(id)?.status != BoardTaskStatus::Claimed {
            return Err(BoardError::Unclaimed(id.to_owned()));
        }
        self.change(id, now, |task| {
            task.status = BoardTaskStatus::Open;
            task.assignee = None;
        })
    }

    /// Completes a task with its result. Returns an error if `by` is not its assignee, or it is completed.
    pub fn complete(
        &mut self,
        id: &str,
        by: &str,
        result: String,
        now: Timestamp,
    ) -> Result<BoardTask, BoardError> {
        self.check_assignee(id, by)?;
        self.change(id, now, |task| {
            task.status = BoardTaskStatus::Completed;
            task.result = Some(result);
        })
    }

    /// Releases all tasks of a participant that has ended.
    pub(super) fn release(&mut self, assignee: &str, now: Timestamp) {
        let claimed = |task: &&mut BoardTask| {
            task.status == BoardTaskStatus::Claimed && task.assignee.as_deref() == Some(assignee)
        };
        for task in self.tasks.iter_mut().filter(claimed) {
            task.status = BoardTaskStatus::Open;
            task.assignee = None;
            task.updated_at = now;
        }
    }

    /// Returns an error unless the participant works on the task.
    fn check_assignee(&self, id: &str, by: &str) -> Result<(), BoardError> {
        let task = self.find(id)?;
        match (task.status, &task.assignee) {
            (BoardTaskStatus::Completed, _) => Err(BoardError::Completed(id.to_owned())),
            (_, Some(assignee)) if assignee == by => Ok(()),
            (_, Some(assignee)) => {
                let (id, assignee) = (id.to_owned(), assignee.clone());
                Err(BoardError::NotYours { id, assignee })
            }
            (_, None) => Err(BoardError::Unclaimed(id.to_owned())),
        }
    }

    /// Returns the task with this id. Returns an error that names the known ids if there is none.
    fn find(&self, id: &str) -> Result<&BoardTask, BoardError> {
        self.tasks.iter().find(|task| task.id == id).ok_or_else(|| self.unknown(id))
    }

    /// Changes a task and sets its time of change. Returns an error if it does not exist.
    fn change(
        &mut self,
        id: &str,
        now: Timestamp,
        change: impl FnOnce(&mut BoardTask),
    ) -> Result<BoardTask, BoardError> {
        let unknown = self.unknown(id);
        let task = self.tasks.iter_mut().find(|task| task.id == id).ok_or(unknown)?;
        change(task);
        task.updated_at = now;
        Ok(task.clone())
    }

    /// Creates the error for an unknown id.
    fn unknown(&self, id: &str) -> BoardError {
        let id = first_chars(id, 64).to_owned();
        let known = match self.tasks.len() {
            0 => "none".to_owned(),
            1 => format!("{ID_PREFIX}1"),
            count => format!("{ID_PREFIX}1 to {ID_PREFIX}{count}"),
        };
        BoardError::Unknown { id, known }
    }
}
