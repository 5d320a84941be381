//! Format of OpenAI Responses.

use bytes::Bytes;
use provost_core::{StopReason, Usage};

use super::{Ending, Failure, Reply, Step, json_string, openai};

pub(super) fn frames(reply: &Reply) -> Vec<Bytes> {
    let mut writer = Writer { reply, frames: Vec::new(), sequence: 0, index: 0, text: None };
    let response = writer.response_json("in_progress", "null");
    writer.event("response.created", &format!(r#""response":{response}"#));
    writer.event("response.in_progress", &format!(r#""response":{response}"#));
    for step in &reply.steps {
        writer.write_step(step);
    }
    if reply.ending == Ending::Complete {
        writer.close_text();
        writer.finish();
    }
    writer.frames
}

/// Frames of a stream so far, with the position of the next item.
struct Writer<'a> {
    reply: &'a Reply,
    frames: Vec<Bytes>,
    sequence: u32,
    index: u32,
    /// Text of the open message so far. Consecutive texts share it.
    text: Option<String>,
}

impl Writer<'_> {
    /// Adds an event with the next sequence number.
    fn event(&mut self, name: &str, fields: &str) {
        self.frames.push(Bytes::from(format!(
            "event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{},{fields}}}\n\n",
            self.sequence
        )));
        self.sequence += 1;
    }

    /// Returns the JSON of the response object with a status.
    fn response_json(&self, status: &str, usage: &str) -> String {
        let reason = match self.reply.stop {
            _ if status != "incomplete" => None,
            Some(StopReason::MaxTokens) => Some("max_output_tokens"),
            Some(StopReason::ContentFilter) => Some("content_filter"),
            _ => Some("mystery"),
        };
        let reason = self.reply.stop_name.as_deref().filter(|_| status == "incomplete").or(reason);
        let details = match reason {
            Some(reason) => format!(r#"{{"reason":{}}}"#, json_string(reason)),
            None => "null".to_owned(),
        };
        format!(
            r#"{{"id":{},"object":"response","created_at":1700000000,"status":"{status}","error":null,"incomplete_details":{details},"instructions":null,"max_output_tokens":null,"model":{},"output":[],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{{"effort":null,"summary":null}},"store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}}}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#,
            json_string(&self.reply.id),
            json_string(&self.reply.model)
        )
    }

    /// Returns true if the reply stops with a refusal.
    fn is_refusal(&self) -> bool {
        self.reply.stop == Some(StopReason::Refusal)
    }

    fn message_json(&self, status: &str, content: &str) -> String {
        format!(
            r#"{{"id":"msg_{0}","type":"message","status":"{status}","content":[{content}],"role":"assistant"}}"#,
            self.index
        )
    }

    fn part_json(&self, text: &str) -> String {
        match self.is_refusal() {
            true => format!(r#"{{"type":"refusal","refusal":{}}}"#, json_string(text)),
            false => format!(
                r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":{}}}"#,
                json_string(text)
            ),
        }
    }

    /// Adds a piece of text, and opens a message if none is open.
    fn write_text(&mut self, piece: &str) {
        if self.text.is_none() {
            let item = self.message_json("in_progress", "");
            self.event(
                "response.output_item.added",
                &format!(r#""output_index":{},"item":{item}"#, self.index),
            );
            let place = self.position_json();
            let part = self.part_json("");
            self.event("response.content_part.added", &format!(r#"{place},"part":{part}"#));
        }
        self.text.get_or_insert_default().push_str(piece);
        let place = self.position_json();
        let (name, extra) = match self.is_refusal() {
            true => ("response.refusal.delta", ""),
            false => ("response.output_text.delta", r#","logprobs":[]"#),
        };
        self.event(name, &format!(r#"{place},"delta":{}{extra}"#, json_string(piece)));
    }

    /// Returns the fields that identify the open content part.
    fn position_json(&self) -> String {
        format!(r#""item_id":"msg_{0}","output_index":{0},"content_index":0"#, self.index)
    }

    /// Ends the open message, if there is one.
    fn close_text(&mut self) {
        let Some(text) = self.text.take() else { return };
        let (place, part) = (self.position_json(), self.part_json(&text));
        if !self.is_refusal() {
            let done = format!(r#"{place},"text":{},"logprobs":[]"#, json_string(&text));
            self.event("response.output_text.done", &done);
        }
        self.event("response.content_part.done", &format!(r#"{place},"part":{part}"#));
        let item = self.message_json("completed", &part);
        self.end_item(&item);
    }

    /// Adds the last event of an item.
    fn end_item(&mut self, item: &str) {
        self.event(
            "response.output_item.done",
            &format!(r#""output_index":{},"item":{item}"#, self.index),
        );
        self.index += 1;
    }

    fn write_reasoning(&mut self, text: &str, sealed: &str) {
        let index = self.index;
        let added = format!(
            r#""output_index":{index},"item":{{"id":"rs_{index}","type":"reasoning","summary":[]}}"#
        );
        self.event("response.output_item.added", &added);
        let place = format!(r#""item_id":"rs_{index}","output_index":{index},"summary_index":0"#);
        let mut summary = String::new();
        if !text.is_empty() {
            let part = r#"{"type":"summary_text","text":""}"#;
            self.event(
                "response.reasoning_summary_part.added",
                &format!(r#"{place},"part":{part}"#),
            );
            for piece in self.reply.pieces(text) {
                let delta = format!(r#"{place},"delta":{}"#, json_string(piece));
                self.event("response.reasoning_summary_text.delta", &delta);
            }
            let done = format!(r#"{place},"text":{}"#, json_string(text));
            self.event("response.reasoning_summary_text.done", &done);
            summary = format!(r#"{{"type":"summary_text","text":{}}}"#, json_string(text));
            self.event(
                "response.reasoning_summary_part.done",
                &format!(r#"{place},"part":{summary}"#),
            );
        }
        let item = format!(
            r#"{{"id":"rs_{index}","type":"reasoning","encrypted_content":{},"summary":[{summary}]}}"#,
            json_string(sealed)
        );
        self.end_item(&item);
    }

    fn write_call(&mut self, id: &str, name: &str, arguments: &str) {
        let index = self.index;
        let item = |status: &str, arguments: &str| {
            format!(
                r#"{{"id":"fc_{index}","type":"function_call","status":"{status}","arguments":{},"call_id":{},"name":{}}}"#,
                json_string(arguments),
                json_string(id),
                json_string(name)
            )
        };
        let added = item("in_progress", "");
        self.event(
            "response.output_item.added",
            &format!(r#""output_index":{index},"item":{added}"#),
        );
        let place = format!(r#""item_id":"fc_{index}","output_index":{index}"#);
        for piece in self.reply.pieces(arguments) {
            let delta = format!(r#"{place},"delta":{}"#, json_string(piece));
            self.event("response.function_call_arguments.delta", &delta);
        }
        let done = format!(
            r#"{place},"arguments":{},"name":{}"#,
            json_string(arguments),
            json_string(name)
        );
        self.event("response.function_call_arguments.done", &done);
        let done = item("completed", arguments);
        self.end_item(&done);
    }

    fn write_step(&mut self, step: &Step) {
        if !matches!(step, Step::Text(_) | Step::Raw(_)) {
            self.close_text();
        }
        match step {
            Step::Text(text) => {
                for piece in self.reply.pieces(text) {
                    self.write_text(piece);
                }
            }
            Step::Reasoning { text, signature } => self.write_reasoning(text, signature),
            Step::Redacted(data) => self.write_reasoning("", data),
            Step::Call { id, name, arguments } => self.write_call(id, name, arguments),
            Step::Raw(bytes) => self.frames.push(bytes.clone()),
            Step::Failure(kind) => {
                let (_, code, message_json) = openai::failure_texts(*kind);
                let code = if code.is_empty() { "server_error" } else { code };
                let fields = format!(
                    r#""code":{},"message":{},"param":null"#,
                    json_string(code),
                    json_string(message_json)
                );
                self.event("error", &fields);
            }
        }
    }

    /// Adds the final event with the status and the usage.
    fn finish(&mut self) {
        let usage = self.reply.usage.as_ref().map_or_else(|| "null".to_owned(), usage_json);
        let incomplete = matches!(
            self.reply.stop,
            Some(StopReason::MaxTokens | StopReason::ContentFilter | StopReason::Unknown)
        );
        let status =
            if incomplete || self.reply.stop_name.is_some() { "incomplete" } else { "completed" };
        let response = self.response_json(status, &usage);
        self.event(&format!("response.{status}"), &format!(r#""response":{response}"#));
    }
}

fn usage_json(usage: &Usage) -> String {
    format!(
        r#"{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{}}},"output_tokens":{},"output_tokens_details":{{"reasoning_tokens":{}}},"total_tokens":{}}}"#,
        usage.input,
        usage.cache_read,
        usage.output,
        usage.reasoning,
        usage.total()
    )
}

/// The vendor has the same failures on all its wires.
pub(super) fn failure(failure: Failure) -> (u16, String) {
    openai::failure(failure)
}
