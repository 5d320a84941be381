//! Pages of lists.

/// Maximum number of rows in one page.
pub const PAGE_MAX: u64 = 500;

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T, C> {
    /// Items of the page, in order.
    pub items: Vec<T>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<C>,
}

impl<T, C> Page<T, C> {
    /// Creates a page. If it is full, the cursor of the last item becomes the cursor of the next page.
    pub fn new(items: Vec<T>, limit: u64, cursor: impl FnOnce(&T) -> C) -> Self {
        let is_full = items.len() as u64 >= limit;
        let next = items.last().filter(|_| is_full).map(cursor);
        Self { items, next }
    }
}
