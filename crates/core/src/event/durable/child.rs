//! Payloads of events about child runs.

use serde::{Deserialize, Serialize};

use crate::{RunId, TaskId};

/// A child run was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChildStarted {
    /// A child that executes a tool call of its parent.
    OfCall {
        /// Run of the child.
        run: RunId,
        /// Task of the child.
        task: TaskId,
        /// Agent of the child.
        agent: String,
        /// Call that started the child.
        call_id: String,
        /// Index of the child in its call, from 0.
        index: u32,
        /// Step of the call.
        step: u64,
    },
    /// A child that outlives the call that started it.
    Detached {
        /// Run of the child.
        run: RunId,
        /// Task of the child.
        task: TaskId,
        /// Label that the parent gave the child.
        label: Option<String>,
        /// Step of the call that started the child.
        step: u64,
    },
}
