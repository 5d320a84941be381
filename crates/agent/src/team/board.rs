//! The tasks that a team shares. A value: nothing here waits or reads a clock.

use provost_core::text::first_chars;
use provost_core::{ErrorKind, Timestamp};
use serde::{Deserialize, Serialize};

/// Tasks of one board.
pub const BOARD_TASKS_MAX: usize = 200;
/// Bytes of a title.
pub const TITLE_BYTES_MAX: usize = 2 * 1024;
/// Bytes of a result.
pub const RESULT_BYTES_MAX: usize = 16 * 1024;

const ID_PREFIX: &str = "board-";

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody works on it.
    Open,
    /// Its assignee works on it.
    Claimed,
    /// It has its result.
    Completed,
}

/// A task that the team shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardTask {
    /// `board-1`.
    pub id: String,
    /// What is to be done.
    pub title: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// Who works on it, or did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Tasks that must be completed before it can be claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// When it must be completed; a claim that has not kept it lapses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Who put it there.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl BoardTask {
    /// True if it should have been completed by now.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.status != TaskStatus::Completed && self.deadline.is_some_and(|deadline| now > deadline)
    }
}

/// A task to be put on the board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewBoardTask {
    /// Who puts it there.
    pub by: String,
    /// What is to be done.
    pub title: String,
    /// Tasks that must be completed before it can be claimed.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// When it must be completed.
    #[serde(default)]
    pub deadline: Option<Timestamp>,
}

/// Why the board stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoardError {
    /// Nothing of this id is there.
    #[error("there is no task `{id}` on the board; it has: {known}")]
    Unknown {
        /// What was asked for.
        id: String,
        /// What is there.
        known: String,
    },
    /// Somebody works on it.
    #[error("task `{id}` is claimed by `{assignee}`: take another one")]
    Claimed {
        /// Which.
        id: String,
        /// By whom.
        assignee: String,
    },
    /// It is done.
    #[error("task `{0}` is completed already")]
    Completed(String),
    /// Others come first.
    #[error("task `{id}` must wait for {waits_for}: complete that first")]
    Blocked {
        /// Which.
        id: String,
        /// For which others.
        waits_for: String,
    },
    /// It is somebody else's.
    #[error("task `{id}` is claimed by `{assignee}`, so only `{assignee}` can do that")]
    NotYours {
        /// Which.
        id: String,
        /// Whose.
        assignee: String,
    },
    /// Nobody works on it.
    #[error("task `{0}` is not claimed: claim it first")]
    Unclaimed(String),
    /// There is no room.
    #[error("the board is full: it has {BOARD_TASKS_MAX} tasks")]
    Full,
}

impl BoardError {
    /// The shared kind.
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

/// The tasks of one team, in the order they were created.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskBoard {
    tasks: Vec<BoardTask>,
}

impl TaskBoard {
    /// All of them.
    pub fn tasks(&self) -> &[BoardTask] {
        &self.tasks
    }

    /// Puts a task on the board. It can depend only on tasks that are there, so there are no cycles.
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
            status: TaskStatus::Open,
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

    /// Makes a task somebody's.
    pub fn claim(&mut self, id: &str, by: &str, now: Timestamp) -> Result<BoardTask, BoardError> {
        let task = self.find(id)?;
        match (task.status, &task.assignee) {
            (TaskStatus::Completed, _) => return Err(BoardError::Completed(id.to_owned())),
            (TaskStatus::Claimed, Some(assignee)) if assignee == by || !task.is_overdue(now) => {
                let (id, assignee) = (id.to_owned(), assignee.clone());
                return Err(BoardError::Claimed { id, assignee });
            }
            _ => {}
        }
        let open = |other: &&String| {
            self.find(other).is_ok_and(|other| other.status != TaskStatus::Completed)
        };
        let waits_for: Vec<String> = task.depends_on.iter().filter(open).cloned().collect();
        if !waits_for.is_empty() {
            let waits_for = waits_for.join(", ");
            return Err(BoardError::Blocked { id: id.to_owned(), waits_for });
        }
        self.change(id, now, |task| {
            task.status = TaskStatus::Claimed;
            task.assignee = Some(by.to_owned());
        })
    }

    /// Gives a task back. Whoever leads may do that for others.
    pub fn unclaim(
        &mut self,
        id: &str,
        by: &str,
        leads: bool,
        now: Timestamp,
    ) -> Result<BoardTask, BoardError> {
        if !leads {
            self.check_assignee(id, by)?;
        } else if self.find(id)?.status != TaskStatus::Claimed {
            return Err(BoardError::Unclaimed(id.to_owned()));
        }
        self.change(id, now, |task| {
            task.status = TaskStatus::Open;
            task.assignee = None;
        })
    }

    /// Gives a task its result; only whoever claimed it can, and once.
    pub fn complete(
        &mut self,
        id: &str,
        by: &str,
        result: String,
        now: Timestamp,
    ) -> Result<BoardTask, BoardError> {
        self.check_assignee(id, by)?;
        self.change(id, now, |task| {
            task.status = TaskStatus::Completed;
            task.result = Some(result);
        })
    }

    /// Gives back what somebody had claimed who is gone.
    pub(super) fn release(&mut self, assignee: &str, now: Timestamp) {
        let claimed = |task: &&mut BoardTask| {
            task.status == TaskStatus::Claimed && task.assignee.as_deref() == Some(assignee)
        };
        for task in self.tasks.iter_mut().filter(claimed) {
            task.status = TaskStatus::Open;
            task.assignee = None;
            task.updated_at = now;
        }
    }

    fn check_assignee(&self, id: &str, by: &str) -> Result<(), BoardError> {
        let task = self.find(id)?;
        match (task.status, &task.assignee) {
            (TaskStatus::Completed, _) => Err(BoardError::Completed(id.to_owned())),
            (_, Some(assignee)) if assignee == by => Ok(()),
            (_, Some(assignee)) => {
                let (id, assignee) = (id.to_owned(), assignee.clone());
                Err(BoardError::NotYours { id, assignee })
            }
            (_, None) => Err(BoardError::Unclaimed(id.to_owned())),
        }
    }

    fn find(&self, id: &str) -> Result<&BoardTask, BoardError> {
        self.tasks.iter().find(|task| task.id == id).ok_or_else(|| self.unknown(id))
    }

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

    fn unknown(&self, id: &str) -> BoardError {
        let id = first_chars(id, 64).to_owned();
        let known = match self.tasks.len() {
            0 => "nothing".to_owned(),
            1 => format!("{ID_PREFIX}1"),
            count => format!("{ID_PREFIX}1 to {ID_PREFIX}{count}"),
        };
        BoardError::Unknown { id, known }
    }
}
