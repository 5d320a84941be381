//! Tool calls of a streamed answer, put together from the pieces that many servers cut in many ways.

use provost_model::{ModelError, ModelEvent};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::malformed;

/// A piece of a call.
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

/// A call that is being written.
struct OpenCall {
    /// The vendor's own position, if it gives one.
    wire_index: Option<u32>,
    id: String,
    started: bool,
    /// What came before the name did.
    early_arguments: String,
}

/// The calls of one answer.
#[derive(Default)]
pub(super) struct OpenCalls {
    open: Vec<OpenCall>,
}

impl OpenCalls {
    /// True if the model called nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// True if there is a call whose name never came.
    pub(super) fn has_nameless(&self) -> bool {
        self.open.iter().any(|call| !call.started)
    }

    /// Takes one piece in.
    pub(super) fn push(
        &mut self,
        delta: CallDelta<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let id = delta.id.unwrap_or_default();
        let place = self.place_of(delta.index, &id);
        let (name, arguments) = match delta.function {
            Some(function) => (function.name, function.arguments),
            None => (None, None),
        };
        let arguments = match arguments {
            Some(raw) => argument_text(raw)?,
            None => String::new(),
        };
        let index = u32::try_from(place).unwrap_or(u32::MAX);
        let call = &mut self.open[place];
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

    /// Which call a piece belongs to. Servers leave out indexes, or give every call the same one with its own id.
    fn place_of(&mut self, wire_index: Option<u32>, id: &str) -> usize {
        let same_id = |call: &OpenCall| id.is_empty() || call.id.is_empty() || call.id == id;
        let known = match wire_index {
            Some(_) => {
                self.open.iter().rposition(|call| call.wire_index == wire_index && same_id(call))
            }
            None if id.is_empty() => self.open.len().checked_sub(1),
            None => self.open.iter().rposition(|call| call.id == id),
        };
        known.unwrap_or_else(|| {
            self.open.push(OpenCall {
                wire_index,
                id: String::new(),
                started: false,
                early_arguments: String::new(),
            });
            self.open.len() - 1
        })
    }
}

/// Arguments are a string of JSON, but some servers send the JSON itself.
fn argument_text(raw: &RawValue) -> Result<String, ModelError> {
    match raw.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw.get())
            .map_err(|cause| malformed("tool call arguments", &cause)),
        Some(b'n') => Ok(String::new()),
        _ => Ok(raw.get().to_owned()),
    }
}
