//! Assembles tool calls from their streamed parts, which differ between servers.

use provost_model::{ModelError, ModelEvent};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::malformed;

/// A part of a tool call in a chunk.
#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    index: Option<u32>,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// A tool call of the response so far.
struct StreamedCall {
    /// The vendor's index of the call. `None` if it sends none.
    wire_index: Option<u32>,
    id: String,
    started: bool,
    /// Arguments that arrived before the name.
    early_arguments: String,
}

/// The tool calls of the response so far.
#[derive(Default)]
pub(super) struct StreamedCalls {
    open: Vec<StreamedCall>,
}

impl StreamedCalls {
    /// Returns true if the response has no tool calls.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns true if a call has no name yet.
    pub(super) fn has_unnamed_call(&self) -> bool {
        self.open.iter().any(|call| !call.started)
    }

    /// Adds a part of a call and appends its events to `out`. Arguments that arrive before the name are kept until the
    /// name arrives.
    pub(super) fn push(
        &mut self,
        delta: CallDelta<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let id = delta.id.unwrap_or_default();
        let position = self.find_or_open(delta.index, &id);
        let (name, arguments) = match delta.function {
            Some(function) => (function.name, function.arguments),
            None => (None, None),
        };
        let arguments = match arguments {
            Some(raw) => argument_text(raw)?,
            None => String::new(),
        };
        let index = u32::try_from(position).unwrap_or(u32::MAX);
        let call = &mut self.open[position];
        if call.id.is_empty() {
            call.id = id;
        }
        let name = name.filter(|name| !name.is_empty());
        if let Some(name) = name.filter(|_| !call.started) {
            call.started = true;
            out.push(ModelEvent::ToolCallStart { index, id: call.id.clone(), name });
            if !call.early_arguments.is_empty() {
                let json = std::mem::take(&mut call.early_arguments);
                out.push(ModelEvent::ToolCallArguments { index, json });
            }
        }
        if arguments.is_empty() {
            return Ok(());
        }
        if call.started {
            out.push(ModelEvent::ToolCallArguments { index, json: arguments });
        } else {
            call.early_arguments.push_str(&arguments);
        }
        Ok(())
    }

    /// Returns the position of the call to which a part belongs. Adds a new call if no call matches. Some servers omit
    /// the index, or send the same index for all calls with different ids.
    fn find_or_open(&mut self, wire_index: Option<u32>, id: &str) -> usize {
        let same_id = |call: &StreamedCall| id.is_empty() || call.id.is_empty() || call.id == id;
        let found = match wire_index {
            Some(_) => {
                self.open.iter().rposition(|call| call.wire_index == wire_index && same_id(call))
            }
            None if id.is_empty() => self.open.len().checked_sub(1),
            None => self.open.iter().rposition(|call| call.id == id),
        };
        found.unwrap_or_else(|| {
            self.open.push(StreamedCall {
                wire_index,
                id: String::new(),
                started: false,
                early_arguments: String::new(),
            });
            self.open.len() - 1
        })
    }
}

/// Returns the arguments as text. They should be a string, but some servers send JSON. Empty for null.
fn argument_text(raw: &RawValue) -> Result<String, ModelError> {
    match raw.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw.get())
            .map_err(|cause| malformed("tool call arguments", &cause)),
        Some(b'n') => Ok(String::new()),
        _ => Ok(raw.get().to_owned()),
    }
}
