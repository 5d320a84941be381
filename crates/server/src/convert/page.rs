//! Converts pages and cursors.

use std::fmt::Display;
use std::str::FromStr;

use provost_api::{Page, PageQuery, Problem};

use crate::error;
use crate::extract::limit;

/// Parses the cursor of a page. Text that is not a cursor of this list is rejected.
pub(crate) fn cursor<T: FromStr>(text: Option<&str>) -> Result<Option<T>, Problem> {
    let parse = |text: &str| {
        let malformed =
            || error::invalid("cursor", "send the `next` value of the previous page unchanged");
        text.parse().ok().ok_or_else(malformed)
    };
    text.map(parse).transpose()
}

/// Converts the items of a page.
pub(crate) fn map<T, U, C: Display>(
    page: provost_engine::Page<T, C>,
    convert: impl Fn(T) -> Result<U, Problem>,
) -> Result<Page<U>, Problem> {
    let items = page.items.into_iter().map(convert).collect::<Result<_, _>>()?;
    Ok(Page { items, next: page.next.map(|next| next.to_string()) })
}

/// Creates a page from rows that were read up to a limit.
pub(crate) fn from_rows<T, U>(
    items: Vec<T>,
    limit: u64,
    convert: impl Fn(T) -> Result<U, Problem>,
    cursor_of: impl Fn(&U) -> String,
) -> Result<Page<U>, Problem> {
    let full = items.len() as u64 >= limit;
    let items: Vec<U> = items.into_iter().map(convert).collect::<Result<_, _>>()?;
    let next = items.last().filter(|_| full).map(cursor_of);
    Ok(Page { items, next })
}

/// Creates a page of a complete list, sorted by an ascending key.
pub(crate) fn paginate<T, K: FromStr + Display + PartialOrd>(
    items: Vec<T>,
    query: &PageQuery,
    key: impl Fn(&T) -> K,
) -> Result<Page<T>, Problem> {
    let limit = usize::try_from(limit(query.limit)?).unwrap_or(usize::MAX);
    let after: Option<K> = cursor(query.cursor.as_deref())?;
    let is_after = |item: &T| after.as_ref().is_none_or(|after| key(item) > *after);
    let mut items: Vec<T> = items.into_iter().filter(is_after).collect();
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|item| key(item).to_string());
    Ok(Page { items, next })
}
