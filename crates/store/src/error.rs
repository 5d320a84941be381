//! Errors of the store, independent of the database behind it.

use std::io;
use std::path::{Path, PathBuf};

use provost_core::ErrorKind;

/// An error of the store. Each message names the next step for the operator.
///
/// The type is `Clone` because one failed commit fails every job of its group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another process is writing, or the write queue is full.
    #[error(
        "the database is busy ({detail}); nothing was changed: try again, and look for a process that holds it for long"
    )]
    Busy {
        /// The resource that was not available in time.
        detail: String,
    },
    /// The disk is full, or the database reached its configured size.
    #[error(
        "the database has no room left ({detail}); nothing was changed: free space on its disk or raise its size limit"
    )]
    DiskFull {
        /// The message of the database.
        detail: String,
    },
    /// The stored data contradicts itself.
    #[error(
        "the database is damaged ({detail}): stop all processes that use it, look with `provost db check`, \
         then bring back the last backup with `provost db restore`"
    )]
    Corrupt {
        /// The message of the database.
        detail: String,
    },
    /// A stored value has no meaning for this program. A newer program or a person wrote it.
    #[error(
        "column `{column}` of table `{table}` {problem} (row with {row}): use the newest program that has opened this \
         database, or correct the value"
    )]
    Unreadable {
        /// Name of the table.
        table: &'static str,
        /// Name of the column.
        column: &'static str,
        /// The first columns of the row, which identify it.
        row: String,
        /// Description of the value.
        problem: String,
    },
    /// A newer program has migrated the schema.
    #[error(
        "the database has schema version {found} and this program knows versions up to {known}; \
         nothing was changed: use a newer program"
    )]
    SchemaTooNew {
        /// Schema version of the database.
        found: u32,
        /// Newest schema version that this program supports.
        known: u32,
    },
    /// A table of another program has a name that the store needs.
    #[error("the file has a table `{table}` of another program: choose another table prefix")]
    TableTaken {
        /// Name of that table.
        table: String,
    },
    /// A running process holds the lock.
    #[error("`{}` is held by a running process: stop it first", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The file, its directory or its file system does not permit writing.
    #[error(
        "the database cannot be written ({detail}): check owner, permissions and mount options of its directory"
    )]
    ReadOnly {
        /// The rejected operation.
        detail: String,
    },
    /// The change violates a constraint of the schema.
    #[error("the change breaks a {rule} rule of the schema ({detail}); nothing was changed")]
    Constraint {
        /// Kind of the violated constraint.
        rule: ConstraintKind,
        /// Table and columns of the constraint.
        detail: String,
    },
    /// Reading or writing a file failed.
    #[error(
        "the database's disk does not work ({detail}); nothing is known to be changed: check the disk and try again"
    )]
    Io {
        /// The message of the operating system.
        detail: String,
    },
    /// This process has closed the store.
    #[error("the database was closed by this process: open it again")]
    Closed,
    /// The file is not a Provost database.
    #[error("`{}` is not a database of Provost ({detail}): name another file", path.display())]
    NotADatabase {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        detail: String,
    },
    /// The target file exists.
    #[error("`{}` exists already: name another file, or ask to replace it", path.display())]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
    /// A defect of Provost itself.
    #[error("a defect in the store ({detail}); nothing was changed: please report it")]
    Bug {
        /// Description of the defect.
        detail: String,
    },
}

/// Kinds of schema constraints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintKind {
    /// A primary key or a unique index.
    Unique,
    /// A foreign key.
    Reference,
    /// A `CHECK` condition.
    Check,
    /// A `NOT NULL` column.
    NotNull,
}

impl ConstraintKind {
    /// Returns the name that error messages use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unique => "uniqueness",
            Self::Reference => "reference",
            Self::Check => "value",
            Self::NotNull => "presence",
        }
    }
}

impl std::fmt::Display for ConstraintKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl StoreError {
    /// Returns the stable error code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "store_busy",
            Self::DiskFull { .. } => "store_full",
            Self::Corrupt { .. } => "store_damaged",
            Self::Unreadable { .. } => "unreadable",
            Self::SchemaTooNew { .. } => "store_newer_schema",
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

    /// Returns the category that decides how callers handle the error.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Busy { .. } | Self::DiskFull { .. } | Self::Io { .. } | Self::Closed => {
                ErrorKind::Unavailable
            }
            Self::Corrupt { .. } | Self::Unreadable { .. } => ErrorKind::Malformed,
            Self::SchemaTooNew { .. } | Self::NotADatabase { .. } => ErrorKind::Invalid,
            Self::TableTaken { .. }
            | Self::Locked { .. }
            | Self::Exists { .. }
            | Self::Constraint { .. } => ErrorKind::Conflict,
            Self::ReadOnly { .. } => ErrorKind::Denied,
            Self::Bug { .. } => ErrorKind::Bug,
        }
    }

    /// Returns true if a primary key or a unique index rejected the change.
    pub const fn is_duplicate(&self) -> bool {
        matches!(self, Self::Constraint { rule: ConstraintKind::Unique, .. })
    }

    /// Creates a [`StoreError::Bug`].
    pub(crate) fn bug(detail: impl Into<String>) -> Self {
        Self::Bug { detail: detail.into() }
    }

    /// Converts an I/O error at `path`.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        let detail = format!("{}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { detail }
            }
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::DiskFull { detail },
            _ => Self::Io { detail },
        }
    }
}
