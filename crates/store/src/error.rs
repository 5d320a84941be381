//! How the database fails, in words that do not depend on which database it is.

use std::io;
use std::path::{Path, PathBuf};

use provost_core::ErrorKind;

/// How the database fails. Each message says what to do about it.
///
/// It can be cloned because one failed commit fails every job of its group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Somebody else writes, or too many jobs wait.
    #[error(
        "the database is busy ({detail}); nothing was changed: try again, and look for a process that holds it for long"
    )]
    Busy {
        /// What was waited for.
        detail: String,
    },
    /// No room on the disk, or the configured size is reached.
    #[error(
        "the database has no room left ({detail}); nothing was changed: free space on its disk or raise its size limit"
    )]
    Full {
        /// What the database says.
        detail: String,
    },
    /// What is stored contradicts itself.
    #[error(
        "the database is damaged ({detail}): stop all processes that use it, look with `provost db check`, \
         then bring back the last backup with `provost db restore`"
    )]
    Damaged {
        /// What the database says.
        detail: String,
    },
    /// A newer program has changed the schema.
    #[error(
        "the database has schema version {found} and this program knows versions up to {known}; \
         nothing was changed: use a newer program"
    )]
    NewerSchema {
        /// The version of the database.
        found: u32,
        /// The newest version this program knows.
        known: u32,
    },
    /// A table of another program has the name of one of ours.
    #[error("the file has a table `{table}` of another program: choose another table prefix")]
    TableTaken {
        /// The table.
        table: String,
    },
    /// A living process holds the lock.
    #[error("`{}` is held by a running process: stop it first", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// Writing is not permitted.
    #[error(
        "the database cannot be written ({detail}): check owner, permissions and mount options of its directory"
    )]
    ReadOnly {
        /// What was refused.
        detail: String,
    },
    /// A rule of the schema forbids the change.
    #[error("the change breaks a {rule} rule of the schema ({detail}); nothing was changed")]
    Constraint {
        /// Which sort of rule.
        rule: Rule,
        /// The table and columns of the rule.
        detail: String,
    },
    /// Reading or writing a file did not work.
    #[error(
        "the database's disk does not work ({detail}); nothing is known to be changed: check the disk and try again"
    )]
    Io {
        /// What the system says.
        detail: String,
    },
    /// The store was closed.
    #[error("the database was closed by this process: open it again")]
    Closed,
    /// The file is something else.
    #[error("`{}` is not a database of Provost ({detail}): name another file", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        detail: String,
    },
    /// The target is already there.
    #[error("`{}` exists already: name another file, or ask to replace it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A defect of Provost itself.
    #[error("a defect in the store ({detail}); nothing was changed: please report it")]
    Bug {
        /// What went wrong.
        detail: String,
    },
}

/// The sorts of rules a schema has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A primary key or a unique index.
    Unique,
    /// A reference to another row.
    Reference,
    /// A condition on values.
    Check,
    /// A value that must be there.
    NotNull,
}

impl Rule {
    /// The word used in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unique => "uniqueness",
            Self::Reference => "reference",
            Self::Check => "value",
            Self::NotNull => "presence",
        }
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl StoreError {
    /// The stable code of this failure.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "store_busy",
            Self::Full { .. } => "store_full",
            Self::Damaged { .. } => "store_damaged",
            Self::NewerSchema { .. } => "store_newer_schema",
            Self::TableTaken { .. } => "store_table_taken",
            Self::Locked { .. } => "store_locked",
            Self::ReadOnly { .. } => "store_read_only",
            Self::Constraint { .. } => "store_constraint",
            Self::Io { .. } => "store_io",
            Self::Closed => "store_closed",
            Self::NotADatabase { .. } => "store_not_a_database",
            Self::Exists { .. } => "store_exists",
            Self::Bug { .. } => "store_bug",
        }
    }

    /// What sort of failure this is.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Busy { .. } | Self::Full { .. } | Self::Io { .. } | Self::Closed => {
                ErrorKind::Unavailable
            }
            Self::Damaged { .. } => ErrorKind::Malformed,
            Self::NewerSchema { .. } | Self::NotADatabase { .. } => ErrorKind::Invalid,
            Self::TableTaken { .. }
            | Self::Locked { .. }
            | Self::Exists { .. }
            | Self::Constraint { .. } => ErrorKind::Conflict,
            Self::ReadOnly { .. } => ErrorKind::Denied,
            Self::Bug { .. } => ErrorKind::Bug,
        }
    }

    /// True if a primary key or a unique index refused the change.
    pub const fn is_duplicate(&self) -> bool {
        matches!(self, Self::Constraint { rule: Rule::Unique, .. })
    }

    pub(crate) fn bug(detail: impl Into<String>) -> Self {
        Self::Bug { detail: detail.into() }
    }

    /// A failure of the file system at `path`.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        let detail = format!("{}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { detail }
            }
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::Full { detail },
            _ => Self::Io { detail },
        }
    }
}
