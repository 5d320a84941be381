//! Conditions of a list, put together from what was asked for: what was not asked for is not in the statement, so the database
//! finds the index that fits.

use crate::{FromRow, StoreError, ToColumn, Tx, Value};

/// Conditions and their values.
#[derive(Default)]
pub(crate) struct Filter<'a> {
    terms: Vec<String>,
    values: Vec<Value<'a>>,
}

impl<'a> Filter<'a> {
    /// Rows of a namespace.
    pub(crate) fn of(namespace: &'a str) -> Self {
        Self::default().with("namespace = {}", namespace)
    }

    /// A condition; `{}` stands for the value.
    pub(crate) fn with(mut self, term: &str, value: &'a (impl ToColumn + ?Sized)) -> Self {
        self.values.push(value.to_value());
        self.terms.push(term.replace("{}", &format!("?{}", self.values.len())));
        self
    }

    /// A condition, if there is a value for it.
    pub(crate) fn maybe(self, term: &str, value: &'a Option<impl ToColumn>) -> Self {
        match value {
            Some(value) => self.with(term, value),
            None => self,
        }
    }

    /// A condition without a value, if it is wanted.
    pub(crate) fn only(mut self, wanted: bool, term: &str) -> Self {
        if wanted {
            self.terms.push(term.to_owned());
        }
        self
    }

    /// The rows that meet all conditions, in an order, up to a limit.
    pub(crate) fn rows<T: FromRow>(
        self,
        tx: &mut Tx<'_>,
        select: fn(&str) -> String,
        order: &str,
        limit: u64,
    ) -> Result<Vec<T>, StoreError> {
        let Self { terms, mut values } = self;
        values.push(Value::Int(i64::try_from(limit).unwrap_or(i64::MAX)));
        let terms = terms.join(" AND ");
        let sql = select(&format!("WHERE {terms} ORDER BY {order} LIMIT ?{}", values.len()));
        tx.all(&sql, &values)
    }
}
