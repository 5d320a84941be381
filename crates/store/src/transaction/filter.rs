//! Builds the `WHERE` clause of a list query. An unset condition is omitted from the statement, so that the database
//! can choose a matching index.

use crate::{FromRow, StoreError, ToColumn, Tx, Value};

/// Conditions and their values.
#[derive(Default)]
pub(crate) struct Filter<'a> {
    terms: Vec<String>,
    values: Vec<Value<'a>>,
}

impl<'a> Filter<'a> {
    /// Selects the rows of a namespace.
    pub(crate) fn of(namespace: &'a str) -> Self {
        Self::default().with("namespace = {}", namespace)
    }

    /// Adds a condition. `{}` is the placeholder of the value.
    pub(crate) fn with(mut self, term: &str, value: &'a (impl ToColumn + ?Sized)) -> Self {
        self.values.push(value.to_value());
        self.terms.push(term.replace("{}", &format!("?{}", self.values.len())));
        self
    }

    /// Adds a condition if `value` is `Some`.
    pub(crate) fn maybe(self, term: &str, value: &'a Option<impl ToColumn>) -> Self {
        match value {
            Some(value) => self.with(term, value),
            None => self,
        }
    }

    /// Adds a condition without a value if `wanted` is true.
    pub(crate) fn only(mut self, wanted: bool, term: &str) -> Self {
        if wanted {
            self.terms.push(term.to_owned());
        }
        self
    }

    /// Returns at most `limit` rows that meet all conditions, sorted by `order`. `select` builds the statement from
    /// its conditions.
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
        tx.fetch_all(&sql, &values)
    }
}
