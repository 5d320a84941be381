//! Pages of lists.

/// Rows of one page.
pub const PAGE_MAX: u64 = 500;

/// A part of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T, C> {
    /// What it holds.
    pub items: Vec<T>,
    /// Where the next one begins; nothing if this is the last.
    pub next: Option<C>,
}

impl<T, C> Page<T, C> {
    /// A page whose next one begins at the cursor of the last item, if the page is full.
    pub fn new(items: Vec<T>, limit: u64, cursor: impl FnOnce(&T) -> C) -> Self {
        let full = items.len() as u64 >= limit;
        let next = items.last().filter(|_| full).map(cursor);
        Self { items, next }
    }
}
