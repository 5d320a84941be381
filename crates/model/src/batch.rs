//! Batches: many requests at once, by a vendor's own batch API or by a bounded number of calls at a time.
//!
//! A native batch is a value of bytes: [`BatchJob`] holds the vendor's id and the ids of the requests, so that another process goes
//! on where this one ended. A request that fails never fails the batch.

mod concurrent;

use std::collections::BTreeMap;

use provost_core::Usage;
use serde::{Deserialize, Serialize};

use crate::{ChatRequest, ModelError, ModelErrorClass, ModelResponse};

pub use concurrent::{BatchProgress, run_batch};

/// Requests of one batch, as the strictest vendor bounds it.
const REQUESTS_MAX: usize = 50_000;

/// One request of a batch.
#[derive(Debug, Clone)]
pub struct BatchRequest {
    /// What its answer is found by; no two of a batch share one.
    pub id: String,
    /// What is asked.
    pub request: ChatRequest,
}

/// One answer of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchItem {
    /// The id of its request.
    pub id: String,
    /// What came of it.
    pub outcome: Result<ModelResponse, ModelError>,
}

/// What a batch came to, in the order of its requests.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchOutcome {
    /// One for each request.
    pub items: Vec<BatchItem>,
}

impl BatchOutcome {
    /// How many were answered.
    pub fn answered(&self) -> usize {
        self.items.iter().filter(|item| item.outcome.is_ok()).count()
    }

    /// What all of them used, as far as it was told.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for response in self.items.iter().filter_map(|item| item.outcome.as_ref().ok()) {
            usage += response.usage;
        }
        usage
    }
}

/// A batch that a vendor works on. Keep it: whoever has it can go on, in any process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchJob {
    /// Whose.
    pub provider: String,
    /// Which model.
    pub model: String,
    /// The vendor's id of the batch.
    pub id: String,
    /// The ids of the requests, in their order.
    pub requests: Vec<String>,
    /// What tools were called on the wire and what they are, by request, where that is not the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_names: BTreeMap<String, BTreeMap<String, String>>,
}

/// How a native batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchState {
    /// Whether the vendor is still at work.
    pub phase: BatchPhase,
    /// Requests that are over, as far as the vendor tells.
    pub done: u64,
    /// All of them.
    pub total: u64,
}

/// Whether a native batch is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchPhase {
    /// The vendor looks at it or works on it.
    Working,
    /// All requests have their answers, good or bad.
    Ended,
    /// The vendor refused it, gave it up or was told to stop; some requests may have answers.
    Broken,
}

/// Refuses requests that no batch can hold: too many, or without an id of their own.
pub fn check_batch(requests: &[BatchRequest]) -> Result<(), ModelError> {
    let refuse = |problem: String| Err(ModelError::new(ModelErrorClass::InvalidRequest, problem));
    if requests.len() > REQUESTS_MAX {
        return refuse(format!("a batch has at most {REQUESTS_MAX} requests: make several"));
    }
    let mut ids: Vec<&str> = requests.iter().map(|request| request.id.as_str()).collect();
    ids.sort_unstable();
    if ids.first().is_some_and(|id| id.is_empty()) {
        return refuse("a request of a batch has no id: give each one".to_owned());
    }
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => refuse(format!("two requests of the batch are called `{}`", pair[0])),
        None => Ok(()),
    }
}
