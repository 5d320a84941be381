//! Batches: many requests in one job, through a vendor's batch API or with a bounded number of concurrent calls.
//!
//! A [`BatchJob`] is serializable and holds everything that another process needs to collect the results. A failed
//! request never fails the batch.

mod concurrent;

use std::collections::BTreeMap;

use provost_core::Usage;
use serde::{Deserialize, Serialize};

use crate::{ChatRequest, ModelError, ModelErrorClass, ModelResponse};

pub use concurrent::{BatchProgress, run_batch};

/// Largest number of requests in a batch. It is the lowest limit of the supported vendors.
const REQUESTS_MAX: usize = 50_000;

/// A model request in a batch, with an id that is unique in the batch.
#[derive(Debug, Clone)]
pub struct BatchRequest {
    /// Id of the request, unique in the batch.
    pub id: String,
    /// The request to the model.
    pub request: ChatRequest,
}

/// Response or error of one request of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchResult {
    /// Id of the request.
    pub id: String,
    /// The response, or the error of this request.
    pub outcome: Result<ModelResponse, ModelError>,
}

/// Results of a batch, in the order of its requests.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchResults {
    /// One result for each request.
    pub results: Vec<BatchResult>,
}

impl BatchResults {
    /// Returns the number of requests that succeeded.
    pub fn succeeded(&self) -> usize {
        self.results.iter().filter(|result| result.outcome.is_ok()).count()
    }

    /// Returns the total usage of all responses. A response without reported usage counts as zero.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for response in self.results.iter().filter_map(|result| result.outcome.as_ref().ok()) {
            usage += response.usage;
        }
        usage
    }
}

/// Handle of a batch that a vendor processes. Store it to collect the results later, even in another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchJob {
    /// Name of the provider.
    pub provider: String,
    /// Id of the model.
    pub model: String,
    /// The vendor's id of the batch.
    pub id: String,
    /// Ids of the requests, in their order.
    pub requests: Vec<String>,
    /// For each request id, the tool names as sent to the vendor and the original names. Contains only names that
    /// differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_names: BTreeMap<String, BTreeMap<String, String>>,
}

/// Phase of a vendor's batch and its numbers of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchStatus {
    /// Phase of the batch.
    pub phase: BatchPhase,
    /// Number of finished requests, as the vendor reports it.
    pub done: u64,
    /// Number of all requests.
    pub total: u64,
}

/// Phase of a vendor's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchPhase {
    /// The vendor validates or processes the batch.
    #[serde(rename = "working")]
    InProgress,
    /// Every request has a result: a response or an error.
    #[serde(rename = "ended")]
    Completed,
    /// The vendor rejected, cancelled or expired the batch. Some requests may have results.
    #[serde(rename = "broken")]
    Failed,
}

/// Returns an error if the batch has too many requests, or a request has an empty or duplicate id.
pub fn check_batch(requests: &[BatchRequest]) -> Result<(), ModelError> {
    let invalid = |problem: String| Err(ModelError::new(ModelErrorClass::InvalidRequest, problem));
    if requests.len() > REQUESTS_MAX {
        return invalid(format!("a batch has at most {REQUESTS_MAX} requests: split it"));
    }
    let mut ids: Vec<&str> = requests.iter().map(|request| request.id.as_str()).collect();
    ids.sort_unstable();
    if ids.first().is_some_and(|id| id.is_empty()) {
        return invalid(
            "a request of the batch has no id: set a unique id for each request".to_owned(),
        );
    }
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => invalid(format!("two requests of the batch have the id `{}`", pair[0])),
        None => Ok(()),
    }
}
