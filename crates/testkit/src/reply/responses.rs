//! Format of OpenAI Responses.

use bytes::Bytes;
use provost_core::{StopReason, Usage};

use super::{Ending, Failure, Reply, Step, openai, quoted};

pub(super) fn frames(reply: &Reply) -> Vec<Bytes> {
    let mut writer = Writer { reply, frames: Vec::new(), sequence: 0, index: 0, text: None };
    let response = writer.response("in_progress", "null");
    writer.event("response.created", &format!(r#""response":{response}"#));
    writer.event("response.in_progress", &format!(r#""response":{response}"#));
    for step in &reply.steps {
        writer.step(step);
    }
    if reply.ending == Ending::Complete {
        writer.close_text();
        writer.finish();
    }
    writer.frames
}

struct Writer<'a> {
    reply: &'a Reply,
    frames: Vec<Bytes>,
    sequence: u32,
    index: u32,
    /// Text of the open message so far. Consecutive texts share it.
    text: Option<String>,
}

impl Writer<'_> {
    fn event(&mut self, name: &str, fields: &str) {
        self.frames.push(Bytes::from(format!(
            "event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{},{fields}}}\n\n",
            self.sequence
        )));
        self.sequence += 1;
    }

    fn response(&self, status: &str, usage: &str) -> String {
        let reason = match self.reply.stop {
            _ if status != "incomplete" => None,
            Some(StopReason::MaxTokens) => Some("max_output_tokens"),
            Some(StopReason::ContentFilter) => Some("content_filter"),
            _ => Some("mystery"),
        };
        let reason = self.reply.stop_name.as_deref().filter(|_| status == "incomplete").or(reason);
        let details = match reason {
            Some(reason) => format!(r#"{{"reason":{}}}"#, quoted(reason)),
            None => "null".to_owned(),
        };
        format!(
            r#"{{"id":{},"object":"response","created_at":1700000000,"status":"{status}","error":null,"incomplete_details":{details},"instructions":null,"max_output_tokens":null,"model":{},"output":[],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{{"effort":null,"summary":null}},"store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}}}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null,"metadata":{{}}}}"#,
            quoted(&self.reply.id),
            quoted(&self.reply.model)
        )
    }

    fn refuses(&self) -> bool {
        self.reply.stop == Some(StopReason::Refusal)
    }

    fn message(&self, status: &str, content: &str) -> String {
        format!(
            r#"{{"id":"msg_{0}","type":"message","status":"{status}","content":[{content}],"role":"assistant"}}"#,
            self.index
        )
    }

    fn part(&self, text: &str) -> String {
        match self.refuses() {
            true => format!(r#"{{"type":"refusal","refusal":{}}}"#, quoted(text)),
            false => format!(
                r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":{}}}"#,
                quoted(text)
            ),
        }
    }

    fn say(&mut self, piece: &str) {
        if self.text.is_none() {
            let item = self.message("in_progress", "");
            self.event(
                "response.output_item.added",
                &format!(r#""output_index":{},"item":{item}"#, self.index),
            );
            let place = self.place();
            let part = self.part("");
            self.event("response.content_part.added", &format!(r#"{place},"part":{part}"#));
        }
        self.text.get_or_insert_default().push_str(piece);
        let place = self.place();
        let (name, extra) = match self.refuses() {
            true => ("response.refusal.delta", ""),
            false => ("response.output_text.delta", r#","logprobs":[]"#),
        };
        self.event(name, &format!(r#"{place},"delta":{}{extra}"#, quoted(piece)));
    }

    fn place(&self) -> String {
        format!(r#""item_id":"msg_{0}","output_index":{0},"content_index":0"#, self.index)
    }

    fn close_text(&mut self) {
        let Some(text) = self.text.take() else { return };
        let (place, part) = (self.place(), self.part(&text));
        if !self.refuses() {
            let done = format!(r#"{place},"text":{},"logprobs":[]"#, quoted(&text));
            self.event("response.output_text.done", &done);
        }
        self.event("response.content_part.done", &format!(r#"{place},"part":{part}"#));
        let item = self.message("completed", &part);
        self.end_item(&item);
    }

    fn end_item(&mut self, item: &str) {
        self.event(
            "response.output_item.done",
            &format!(r#""output_index":{},"item":{item}"#, self.index),
        );
        self.index += 1;
    }

    fn reason(&mut self, text: &str, sealed: &str) {
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
                let delta = format!(r#"{place},"delta":{}"#, quoted(piece));
                self.event("response.reasoning_summary_text.delta", &delta);
            }
            let done = format!(r#"{place},"text":{}"#, quoted(text));
            self.event("response.reasoning_summary_text.done", &done);
            summary = format!(r#"{{"type":"summary_text","text":{}}}"#, quoted(text));
            self.event(
                "response.reasoning_summary_part.done",
                &format!(r#"{place},"part":{summary}"#),
            );
        }
        let item = format!(
            r#"{{"id":"rs_{index}","type":"reasoning","encrypted_content":{},"summary":[{summary}]}}"#,
            quoted(sealed)
        );
        self.end_item(&item);
    }

    fn call(&mut self, id: &str, name: &str, arguments: &str) {
        let index = self.index;
        let item = |status: &str, arguments: &str| {
            format!(
                r#"{{"id":"fc_{index}","type":"function_call","status":"{status}","arguments":{},"call_id":{},"name":{}}}"#,
                quoted(arguments),
                quoted(id),
                quoted(name)
            )
        };
        let added = item("in_progress", "");
        self.event(
            "response.output_item.added",
            &format!(r#""output_index":{index},"item":{added}"#),
        );
        let place = format!(r#""item_id":"fc_{index}","output_index":{index}"#);
        for piece in self.reply.pieces(arguments) {
            let delta = format!(r#"{place},"delta":{}"#, quoted(piece));
            self.event("response.function_call_arguments.delta", &delta);
        }
        let done = format!(r#"{place},"arguments":{},"name":{}"#, quoted(arguments), quoted(name));
        self.event("response.function_call_arguments.done", &done);
        let done = item("completed", arguments);
        self.end_item(&done);
    }

    fn step(&mut self, step: &Step) {
        if !matches!(step, Step::Text(_) | Step::Raw(_)) {
            self.close_text();
        }
        match step {
            Step::Text(text) => {
                for piece in self.reply.pieces(text) {
                    self.say(piece);
                }
            }
            Step::Reasoning { text, signature } => self.reason(text, signature),
            Step::Redacted(data) => self.reason("", data),
            Step::Call { id, name, arguments } => self.call(id, name, arguments),
            Step::Raw(bytes) => self.frames.push(bytes.clone()),
            Step::Failure(kind) => {
                let (_, code, message) = openai::failure_texts(*kind);
                let code = if code.is_empty() { "server_error" } else { code };
                let fields = format!(
                    r#""code":{},"message":{},"param":null"#,
                    quoted(code),
                    quoted(message)
                );
                self.event("error", &fields);
            }
        }
    }

    fn finish(&mut self) {
        let usage = self.reply.usage.as_ref().map_or_else(|| "null".to_owned(), usage_json);
        let incomplete = matches!(
            self.reply.stop,
            Some(StopReason::MaxTokens | StopReason::ContentFilter | StopReason::Unknown)
        );
        let status =
            if incomplete || self.reply.stop_name.is_some() { "incomplete" } else { "completed" };
        let response = self.response(status, &usage);
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
