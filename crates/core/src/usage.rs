//! Token usage.

mod budget;
pub mod limits;
pub(crate) mod money;

use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use budget::{BudgetPeriod, BudgetScope};

/// Token counts of one or more model calls.
///
/// The counts mean the same for every vendor: `input` includes cached tokens, of which `cache_read` and `cache_write`
/// are parts; `reasoning` is a part of `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// All input tokens.
    pub input: u64,
    /// All output tokens.
    pub output: u64,
    /// Input tokens that were read from the vendor's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Input tokens that were written to the vendor's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
    /// Output tokens that were reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Creates a usage with input and output tokens only.
    pub fn new(input: u64, output: u64) -> Self {
        Self { input, output, ..Self::default() }
    }

    /// Returns the sum of input and output tokens.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}
