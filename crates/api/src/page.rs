//! Parts of lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Items of a page if nothing is said.
pub const LIMIT_DEFAULT: u64 = 50;
/// Items of a page at most.
pub const LIMIT_MAX: u64 = 500;

/// Which part of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Paging {
    /// Items of a page: 1 to 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Where the page begins: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A part of a list, in a stable order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Page_of_{T}")]
pub struct Page<T> {
    /// What it holds.
    pub items: Vec<T>,
    /// Where the next page begins: give it as `cursor`. Nothing if this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
