//! Decodes the lines of a streamed Ollama response.

use provost_core::{StopReason, Usage};
use provost_model::{ModelError, ModelEvent};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::wire::SseEvent;
use crate::wire::arguments::Text;
use crate::wire::{DecodeStatus, Decoder, error, malformed, missing_tool_name};

#[derive(Deserialize)]
struct ResponseLine<'a> {
    model: Option<Text<'a>>,
    #[serde(borrow)]
    message: Option<MessageDelta<'a>>,
    #[serde(default)]
    done: bool,
    #[serde(borrow)]
    done_reason: Option<Text<'a>>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MessageDelta<'a> {
    content: Option<String>,
    thinking: Option<String>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<ToolCallDelta<'a>>>,
}

#[derive(Deserialize)]
struct ToolCallDelta<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// Decoder of one streamed response of Ollama.
#[derive(Default)]
pub(super) struct LineDecoder {
    started: bool,
    calls: u32,
    has_stopped: bool,
}

impl LineDecoder {
    /// Appends the events of a tool call. It arrives complete, with its arguments as JSON.
    fn push_call(
        &mut self,
        call: ToolCallDelta<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let function = call.function.ok_or_else(missing_tool_name)?;
        let name = function.name.filter(|name| !name.is_empty()).ok_or_else(missing_tool_name)?;
        let index = self.calls;
        self.calls += 1;
        out.push(ModelEvent::ToolCallStart { index, id: call.id.unwrap_or_default(), name });
        let Some(raw) = function.arguments.filter(|raw| raw.get() != "null") else {
            return Ok(());
        };
        // Some gateways send the arguments as a string, as OpenAI does.
        let json = match raw.get().starts_with('"') {
            true => serde_json::from_str(raw.get())
                .map_err(|cause| malformed("tool call arguments", &cause))?,
            false => raw.get().to_owned(),
        };
        if !json.is_empty() {
            out.push(ModelEvent::ToolCallArguments { index, json });
        }
        Ok(())
    }

    /// Appends the stop event, and an unknown reason as metadata.
    fn push_stop(&mut self, reason: Option<&str>, out: &mut Vec<ModelEvent>) {
        let stop = match reason {
            None | Some("stop" | "") if self.calls > 0 => StopReason::ToolUse,
            None | Some("stop" | "") => StopReason::EndTurn,
            Some("length") => StopReason::MaxTokens,
            Some(other) => {
                let name = "ollama.done_reason".to_owned();
                out.push(ModelEvent::Metadata(name, json!(other)));
                StopReason::Unknown
            }
        };
        self.has_stopped = true;
        out.push(ModelEvent::Stop(stop));
    }
}

impl Decoder for LineDecoder {
    fn push(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<DecodeStatus, ModelError> {
        let line: ResponseLine<'_> =
            serde_json::from_slice(event.data).map_err(|cause| malformed("a line", &cause))?;
        if line.error.is_some() {
            return Err(error::parse(None, event.data));
        }
        if !std::mem::replace(&mut self.started, true) {
            let model = line.model.map(|model| model.0.into_owned());
            out.push(ModelEvent::Started { response_id: None, model });
        }
        if let Some(delta) = line.message {
            let thinking = delta.thinking.filter(|text| !text.is_empty());
            out.extend(thinking.map(ModelEvent::Reasoning));
            let content = delta.content.filter(|text| !text.is_empty());
            out.extend(content.map(ModelEvent::Text));
            for call in delta.tool_calls.into_iter().flatten() {
                self.push_call(call, out)?;
            }
        }
        if !line.done {
            return Ok(DecodeStatus::More);
        }
        if line.prompt_eval_count.is_some() || line.eval_count.is_some() {
            let (input, output) = (line.prompt_eval_count, line.eval_count);
            let usage = Usage::new(input.unwrap_or(0), output.unwrap_or(0));
            out.push(ModelEvent::Usage(usage));
        }
        self.push_stop(line.done_reason.as_ref().map(|reason| reason.0.as_ref()), out);
        Ok(DecodeStatus::Done)
    }

    fn finish(&mut self, _out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match self.has_stopped {
            true => Ok(()),
            false => Err(ModelError::stream_truncated()),
        }
    }
}
