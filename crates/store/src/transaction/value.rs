//! Column values and their conversion, borrowed where possible.

use std::borrow::Cow;
use std::ops::ControlFlow;

use provost_core::{
    ApprovalId, AuditId, DeliveryId, ExecutionId, InputId, MessageId, RunId, TaskId, Timestamp,
    TokenId, UsageRecordId, WebhookDeliveryId, WebhookId, WorkerId,
};

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
                match value {
                    Value::Text(text) => text.parse().map_err(|error| format!("is wrong: {error}")),
                    other => Err(format!("is {}, not text", other.name())),
                }
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
);
