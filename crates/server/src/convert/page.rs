//! Parts of lists on the wire.

use std::fmt::Display;
use std::str::FromStr;

use provost_api::{Page, Paging, Problem};

use crate::error;
use crate::extract::limit;

/// Where a page begins. What is no cursor of this list is refused.
pub(crate) fn cursor<T: FromStr>(text: Option<&str>) -> Result<Option<T>, Problem> {
    let read = |text: &str| {
        let refused = || error::invalid("cursor", "use `next` of the page before, as it is");
        text.parse().ok().ok_or_else(refused)
    };
    text.map(read).transpose()
}

/// A page of the engine.
pub(crate) fn map<T, U, C: Display>(
    page: provost_engine::Page<T, C>,
    tell: impl Fn(T) -> Result<U, Problem>,
) -> Result<Page<U>, Problem> {
    let items = page.items.into_iter().map(tell).collect::<Result<_, _>>()?;
    Ok(Page { items, next: page.next.map(|next| next.to_string()) })
}

/// A page of a list that the engine gave up to a limit.
pub(crate) fn from_rows<T, U>(
    items: Vec<T>,
    limit: u64,
    tell: impl Fn(T) -> Result<U, Problem>,
    place: impl Fn(&U) -> String,
) -> Result<Page<U>, Problem> {
    let full = items.len() as u64 >= limit;
    let items: Vec<U> = items.into_iter().map(tell).collect::<Result<_, _>>()?;
    let next = items.last().filter(|_| full).map(place);
    Ok(Page { items, next })
}

/// A page of a list that is short and whole, in the order of a key that rises.
pub(crate) fn paginate<T, K: FromStr + Display + PartialOrd>(
    items: Vec<T>,
    asked: &Paging,
    key: impl Fn(&T) -> K,
) -> Result<Page<T>, Problem> {
    let limit = usize::try_from(limit(asked.limit)?).unwrap_or(usize::MAX);
    let after: Option<K> = cursor(asked.cursor.as_deref())?;
    let is_after = |item: &T| after.as_ref().is_none_or(|after| key(item) > *after);
    let mut items: Vec<T> = items.into_iter().filter(is_after).collect();
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|item| key(item).to_string());
    Ok(Page { items, next })
}
