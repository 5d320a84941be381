//! Column values and their conversion, borrowed where possible.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::str::FromStr;

use provost_core::id::name::{Namespace, SessionName};
use provost_core::lifecycle::{
    ApprovalKind, ApprovalState, ApprovalTimeoutAction, AttemptReason, AttemptStatus,
    DeliveryState, InputKind, InputOutcome, InputState, JoinMode, RunKind, RunPhase, RunStatus,
    StepKind, StepState, TaskState, WaitReason, WebhookDeliveryState,
};
use provost_core::recovery::{EffectClass, EffectKey, OutcomeCode};
use provost_core::scheduling::{ClassHealth, InputMode, MissedRunPolicy, OverlapPolicy, TimerKind};
use provost_core::usage::{BudgetPeriod, BudgetScope};
use provost_core::{
    ApprovalId, AuditId, Currency, DeliveryId, ExecutionId, InputId, MessageId, RunId, TaskId,
    Timestamp, TokenId, UsageRecordId, WebhookDeliveryId, WebhookId, WorkerId,
};

use provost_core::text::first_chars;

use crate::StoreError;

/// A column value or a statement parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// SQL `NULL`.
    Null,
    /// An integer; also a boolean (0 or 1) or a time (epoch milliseconds).
    Int(i64),
    /// Text; also an id.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
}

impl Value<'_> {
    /// Returns the name of the type for error messages.
    fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Int(_) => "a number",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
        }
    }

    /// Returns the value as text, for keys and errors.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Int(number) => number.to_string(),
            Self::Text(text) => text.to_string(),
            Self::Bytes(bytes) => format!("{bytes:?}"),
        }
    }
}

/// A type that can be stored in a column.
pub trait ToColumn {
    /// Returns the value to store.
    fn to_value(&self) -> Value<'_>;
}

/// A type that can be read from a column.
pub trait FromColumn: Sized {
    /// Converts the value. The error describes the unexpected value.
    fn from_value(value: Value<'_>) -> Result<Self, String>;
}

/// A type that can be read from a row: a column, a tuple of columns, or a row struct.
pub trait FromRow: Sized {
    /// Reads the next columns of the row.
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError>;
}

/// The columns of a query's current row.
pub trait ColumnSource {
    /// Returns the value of the column with this zero-based index.
    fn cell(&self, index: usize) -> Result<Value<'_>, StoreError>;
}

/// Tells a query after each row whether to continue.
pub type RowControl = Result<ControlFlow<()>, StoreError>;

/// Number of columns that describe a row in an error.
const DESCRIBED_COLUMNS: usize = 3;
/// Maximum number of characters of a column in an error.
const DESCRIBED_CHARS_MAX: usize = 64;

/// The columns of a table within a result row.
#[derive(Clone, Copy)]
pub(crate) struct TableColumns {
    name: &'static str,
    columns: &'static [&'static str],
    /// Index of the table's first column in the result row.
    first: usize,
}

/// One result row; its columns are read from left to right.
pub struct Row<'a> {
    cells: &'a dyn ColumnSource,
    next: usize,
}

impl<'a> Row<'a> {
    /// Creates a row whose columns are read from the first on.
    pub(crate) fn new(cells: &'a dyn ColumnSource) -> Self {
        Self { cells, next: 0 }
    }

    /// Reads the next column without conversion.
    pub(crate) fn next_value(&mut self) -> Result<Value<'a>, StoreError> {
        self.next += 1;
        self.cells.cell(self.next - 1)
    }

    /// Reads and converts the next column.
    pub fn take<T: FromColumn>(&mut self) -> Result<T, StoreError> {
        let index = self.next;
        self.next += 1;
        T::from_value(self.cells.cell(index)?)
            .map_err(|found| StoreError::bug(format!("column {} of an answer {found}", index + 1)))
    }

    /// Starts to read a row of a table. The next column is the first one of the table.
    pub(crate) fn of_table(
        &self,
        name: &'static str,
        columns: &'static [&'static str],
    ) -> TableColumns {
        TableColumns { name, columns, first: self.next }
    }

    /// Reads and converts the next column of a table. The error names the table, the column and the row.
    pub(crate) fn take_of<T: FromColumn>(&mut self, table: TableColumns) -> Result<T, StoreError> {
        let index = self.next;
        self.next += 1;
        T::from_value(self.cells.cell(index)?).map_err(|problem| StoreError::Unreadable {
            table: table.name,
            column: table.columns[index - table.first],
            row: self.describe(table),
            problem,
        })
    }

    /// Describes a row by its first columns, which contain the primary key.
    fn describe(&self, table: TableColumns) -> String {
        let columns = table.columns.iter().enumerate().take(DESCRIBED_COLUMNS);
        let describe = |(place, column): (usize, &&str)| {
            let value = self.cells.cell(table.first + place).ok()?;
            Some(format!("{column} `{}`", first_chars(&value.text(), DESCRIBED_CHARS_MAX)))
        };
        columns.filter_map(describe).collect::<Vec<_>>().join(", ")
    }
}

impl<T: FromColumn> FromRow for T {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        row.take()
    }
}

macro_rules! tuple_rows {
    ($(($($name:ident),+))*) => {$(
        impl<$($name: FromColumn),+> FromRow for ($($name,)+) {
            fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
                Ok(($(row.take::<$name>()?,)+))
            }
        }
    )*};
}
tuple_rows! { (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

/// Builds the parameters of a statement: `params![id, now]`. Each value must implement [`ToColumn`].
#[macro_export]
macro_rules! params {
    ($($param:expr),* $(,)?) => {
        &[$($crate::ToColumn::to_value(&$param)),*]
    };
}

impl<T: ToColumn + ?Sized> ToColumn for &T {
    fn to_value(&self) -> Value<'_> {
        (**self).to_value()
    }
}

impl<T: ToColumn> ToColumn for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToColumn::to_value)
    }
}

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl ToColumn for i64 {
    fn to_value(&self) -> Value<'_> {
        Value::Int(*self)
    }
}

impl FromColumn for i64 {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        match value {
            Value::Int(number) => Ok(number),
            other => Err(format!("is {}, not a number", other.name())),
        }
    }
}

impl ToColumn for u64 {
    fn to_value(&self) -> Value<'_> {
        number(*self)
    }
}

/// Converts a number to a value. Numbers above `i64::MAX` become `i64::MAX`; no counter reaches it.
pub(crate) fn number(number: u64) -> Value<'static> {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

impl FromColumn for u64 {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        let number = i64::from_value(value)?;
        Self::try_from(number).map_err(|error| format!("is {number}: {error}"))
    }
}

impl ToColumn for bool {
    fn to_value(&self) -> Value<'_> {
        Value::Int(i64::from(*self))
    }
}

impl FromColumn for bool {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        match i64::from_value(value)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("is {other}, neither 0 nor 1")),
        }
    }
}

impl ToColumn for Timestamp {
    fn to_value(&self) -> Value<'_> {
        Value::Int(self.as_millis())
    }
}

impl FromColumn for Timestamp {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        i64::from_value(value).map(Self::from_millis)
    }
}

impl ToColumn for str {
    fn to_value(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }
}

impl ToColumn for String {
    fn to_value(&self) -> Value<'_> {
        self.as_str().to_value()
    }
}

impl FromColumn for String {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        match value {
            Value::Text(text) => Ok(text.into_owned()),
            other => Err(format!("is {}, not text", other.name())),
        }
    }
}

impl ToColumn for [u8] {
    fn to_value(&self) -> Value<'_> {
        Value::Bytes(Cow::Borrowed(self))
    }
}

impl ToColumn for Vec<u8> {
    fn to_value(&self) -> Value<'_> {
        self.as_slice().to_value()
    }
}

impl FromColumn for Vec<u8> {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        match value {
            Value::Bytes(bytes) => Ok(bytes.into_owned()),
            other => Err(format!("is {}, not bytes", other.name())),
        }
    }
}

/// Implements storage of a type in its text form.
macro_rules! text_columns {
    ($($name:ty),* $(,)?) => {$(
        impl ToColumn for $name {
            fn to_value(&self) -> Value<'_> {
                Value::Text(Cow::Owned(self.to_string()))
            }
        }

        impl FromColumn for $name {
            fn from_value(value: Value<'_>) -> Result<Self, String> {
                parse_text(value)
            }
        }
    )*};
}
text_columns!(
    ApprovalId,
    DeliveryId,
    ExecutionId,
    AuditId,
    InputId,
    UsageRecordId,
    MessageId,
    RunId,
    TaskId,
    TokenId,
    WebhookId,
    WebhookDeliveryId,
    WorkerId,
    BudgetScope,
    MissedRunPolicy,
);

/// Implements storage of a type that holds its text form: an enum of fixed texts, a name or a key.
macro_rules! borrowed_text_columns {
    ($($name:ty),* $(,)?) => {$(
        impl ToColumn for $name {
            fn to_value(&self) -> Value<'_> {
                Value::Text(Cow::Borrowed(self.as_str()))
            }
        }

        impl FromColumn for $name {
            fn from_value(value: Value<'_>) -> Result<Self, String> {
                parse_text(value)
            }
        }
    )*};
}
borrowed_text_columns!(
    ApprovalKind,
    ApprovalState,
    ApprovalTimeoutAction,
    AttemptReason,
    AttemptStatus,
    BudgetPeriod,
    ClassHealth,
    Currency,
    DeliveryState,
    EffectClass,
    EffectKey,
    InputKind,
    InputMode,
    InputOutcome,
    InputState,
    JoinMode,
    Namespace,
    OutcomeCode,
    OverlapPolicy,
    RunKind,
    RunPhase,
    RunStatus,
    SessionName,
    StepKind,
    StepState,
    TaskState,
    TimerKind,
    WaitReason,
    WebhookDeliveryState,
);

/// A text column whose type the reader knows, for example an id whose type depends on another column.
pub(crate) struct TextColumn<'a> {
    pub(crate) table: &'static str,
    pub(crate) column: &'static str,
    /// Id of the row, for the error.
    pub(crate) row: &'a dyn Display,
    pub(crate) text: &'a str,
}

impl TextColumn<'_> {
    /// Parses the text. The error names the table, the column and the row.
    pub(crate) fn parse<T: FromColumn>(self) -> Result<T, StoreError> {
        let Self { table, column, row, text } = self;
        T::from_value(Value::Text(Cow::Borrowed(text))).map_err(|problem| StoreError::Unreadable {
            table,
            column,
            row: row.to_string(),
            problem,
        })
    }
}

/// Parses a text column. The error names the rejected value.
fn parse_text<T: FromStr<Err: Display>>(value: Value<'_>) -> Result<T, String> {
    match value {
        Value::Text(text) => text.parse().map_err(|error| format!("is wrong: {error}")),
        other => Err(format!("is {}, not text", other.name())),
    }
}
