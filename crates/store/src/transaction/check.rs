//! The check of transaction functions in tests: enforces the rules of the [module](super) that are visible in
//! statements.

use std::collections::HashSet;
use std::ops::ControlFlow;

use crate::StoreError;
use crate::transaction::aggregate::{Aggregate, RowKey};
use crate::transaction::tx::SqlExecutor;
use crate::transaction::value::{Row, RowControl, Value};

/// The protection of the rows that a statement changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fence {
    /// Locks of the transaction protect the rows.
    Locks,
    /// The statement protects and locks the rows that it changes.
    Statement,
}

/// Changes and locks of one attempt of a job.
#[derive(Default)]
pub(crate) struct Check {
    changes: Vec<String>,
    /// Changes of the first attempt; `None` during the first attempt.
    expected: Option<Vec<String>>,
    locked: HashSet<RowKey>,
}

impl Check {
    /// Returns the check for the next attempt of the same job.
    pub(crate) fn again(self) -> Self {
        Self { expected: Some(self.changes), ..Self::default() }
    }

    /// Records that a row is locked.
    pub(crate) fn lock(&mut self, row: RowKey) {
        self.locked.insert(row);
    }

    /// Fails if the row is not locked.
    pub(crate) fn require(&self, row: &RowKey, sql: &str) -> Result<(), StoreError> {
        if self.locked.contains(row) {
            return Ok(());
        }
        Err(StoreError::bug(format!(
            "a transaction changes {row} and has not locked it: call its lock function first, or let the statement \
             carry its fence; the statement is `{sql}`"
        )))
    }

    /// Executes a statement that may return or change rows, records its changes and requires their locks. Returns the
    /// number of changed rows.
    pub(crate) fn query(
        &mut self,
        sql: &mut dyn SqlExecutor,
        statement: Statement<'_>,
        each: &mut dyn FnMut(&mut Row<'_>) -> RowControl,
    ) -> Result<u64, StoreError> {
        let Statement { text, params, fence } = statement;
        let Some(verb) = verb(text) else {
            return sql.query(text, params, each).map(|()| 0);
        };
        self.repeat(format!("{text} with {params:?}"))?;
        let table = table(text, verb);
        let aggregate = match verb {
            Verb::Delete => None,
            Verb::Insert => Aggregate::of_root(table),
            Verb::Update if fence == Fence::Statement => Aggregate::find(table),
            Verb::Update => Some(Aggregate::of(table)?),
        };
        let Some(aggregate) = aggregate else { return run(sql, statement, each) };
        let mut rows = Vec::new();
        let mut done = false;
        let returning = aggregate.returning(text);
        sql.query(&returning, params, &mut |row| {
            rows.push(aggregate.row(row)?);
            if !done && text.contains("RETURNING") {
                done = each(row)?.is_break();
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for row in &rows {
            if verb == Verb::Update && fence == Fence::Locks {
                self.require(row, text)?;
            } else if aggregate.is_root() {
                self.locked.insert(row.clone());
            }
        }
        Ok(rows.len() as u64)
    }

    /// Records a change. In the second attempt, fails if it differs from the corresponding change of the first.
    fn repeat(&mut self, change: String) -> Result<(), StoreError> {
        if let Some(expected) = &self.expected
            && expected.get(self.changes.len()) != Some(&change)
        {
            let first = expected.get(self.changes.len()).map_or("nothing", String::as_str);
            return Err(not_the_same(first, &change));
        }
        self.changes.push(change);
        Ok(())
    }

    /// Fails if the first attempt made more changes than this one.
    pub(crate) fn finish(&self) -> Result<(), StoreError> {
        match self.expected.as_ref().and_then(|expected| expected.get(self.changes.len())) {
            Some(first) => Err(not_the_same(first, "nothing")),
            None => Ok(()),
        }
    }
}

/// A statement with its parameters and protection.
#[derive(Clone, Copy)]
pub(crate) struct Statement<'a> {
    pub(crate) text: &'a str,
    pub(crate) params: &'a [Value<'a>],
    pub(crate) fence: Fence,
}

/// Kind of a statement that changes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Insert,
    Update,
    Delete,
}

/// Returns the verb of a statement that changes rows; `None` for other statements.
fn verb(text: &str) -> Option<Verb> {
    let text = match text.trim_start().strip_prefix("/*") {
        Some(rest) => rest.split_once("*/").map_or("", |(_, text)| text),
        None => text,
    };
    match text.split_whitespace().next()? {
        "INSERT" => Some(Verb::Insert),
        "UPDATE" => Some(Verb::Update),
        "DELETE" => Some(Verb::Delete),
        _ => None,
    }
}

/// Returns the table that a statement changes.
fn table(text: &str, verb: Verb) -> &str {
    let before = match verb {
        Verb::Insert => "INTO ",
        Verb::Update => "UPDATE ",
        Verb::Delete => "FROM ",
    };
    let rest = text.split_once(before).map_or("", |(_, rest)| rest);
    rest.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next().unwrap_or("")
}

/// Executes a statement without inspecting the changed rows.
fn run(
    sql: &mut dyn SqlExecutor,
    statement: Statement<'_>,
    each: &mut dyn FnMut(&mut Row<'_>) -> RowControl,
) -> Result<u64, StoreError> {
    if statement.text.contains("RETURNING") {
        return sql.query(statement.text, statement.params, each).map(|()| 0);
    }
    sql.execute(statement.text, statement.params)
}

/// Creates the error of a job whose attempts differ.
fn not_the_same(first: &str, second: &str) -> StoreError {
    StoreError::bug(format!(
        "a transaction cannot be repeated: its first attempt did `{first}`, its second `{second}`"
    ))
}
