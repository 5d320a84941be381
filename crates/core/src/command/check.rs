//! The bounds of a command.

use crate::command::{InputProvenance, RoutingContext, TaskRequest};
use crate::lifecycle::RequestError;
use crate::usage::limits::{
    COMMAND_ATTACHMENTS_MAX, COMMAND_BYTES_MAX, COMMAND_FIELD_BYTES_MAX, COMMAND_PARTS_MAX,
    COMMAND_PROMPT_BYTES_MAX, COMMAND_TEXT_BYTES_MAX, NAME_CHARS_MAX, PRIORITY_MAX,
};
use crate::{ContentPart, MediaSource};

impl TaskRequest {
    /// Checks all fields and sizes without looking anything up. Fails for the first problem.
    pub fn validate(&self) -> Result<(), RequestError> {
        check_parts("command.message", &self.message, COMMAND_PARTS_MAX)?;
        check_parts("command.attachments", &self.attachments, COMMAND_ATTACHMENTS_MAX)?;
        self.check_not_empty()?;
        self.check_fields()?;
        if self.priority.unsigned_abs() > PRIORITY_MAX.unsigned_abs() {
            let problem = format!("{} is out of range", self.priority);
            let fix = format!("use -{PRIORITY_MAX} to {PRIORITY_MAX}");
            return Err(RequestError::invalid("command.priority", problem, fix));
        }
        if self.budget.is_some_and(|budget| budget.amount.is_sign_negative()) {
            let fix = "use zero or more, or leave it out";
            return Err(RequestError::invalid("command.budget", "less than nothing", fix));
        }
        if self.deliver && !self.best_effort_deliver && self.routing.reply_target().is_none() {
            let problem = "the answer is to be sent out and no channel is named";
            let fix = "name `channel` or `reply_channel`, or set `best_effort_deliver`";
            return Err(RequestError::invalid("command.routing", problem, fix));
        }
        if let Some(patch) = &self.policy {
            patch.validate()?;
        }
        let bytes: usize = self.message.iter().chain(&self.attachments).map(bytes_of).sum();
        check_bytes(|| "command".to_owned(), bytes, COMMAND_BYTES_MAX)
    }

    /// Fails for a request without text and attachments.
    fn check_not_empty(&self) -> Result<(), RequestError> {
        let says_something = |part: &ContentPart| !matches!(part, ContentPart::Text { text } if text.trim().is_empty());
        if self.attachments.is_empty() && !self.message.iter().any(says_something) {
            let fix = "say something, or attach something";
            return Err(RequestError::invalid("command.message", "empty", fix));
        }
        Ok(())
    }

    /// Fails if a field of the request is blank or too long.
    fn check_fields(&self) -> Result<(), RequestError> {
        if let Some(agent) = &self.agent
            && !(1..=NAME_CHARS_MAX).contains(&agent.chars().count())
        {
            let problem = format!("a name of {} characters", agent.chars().count());
            let fix = format!("use 1 to {NAME_CHARS_MAX}");
            return Err(RequestError::invalid("command.agent", problem, fix));
        }
        for (field, value) in [
            ("hook_id", &self.hook_id),
            ("session_key", &self.session_key),
            ("lane", &self.lane),
            ("idempotency_key", &self.idempotency_key),
            ("label", &self.label),
            ("spawned_by", &self.spawned_by),
            ("requested_by", &self.requested_by),
            ("user", &self.user),
        ] {
            check_field("command", field, value.as_deref())?;
        }
        let prompt_bytes = self.extra_system_prompt.as_ref().map_or(0, String::len);
        let path = || "command.extra_system_prompt".to_owned();
        check_bytes(path, prompt_bytes, COMMAND_PROMPT_BYTES_MAX)?;
        if let Some(provenance) = &self.input_provenance {
            provenance.check()?;
        }
        self.routing.check()
    }
}

impl RoutingContext {
    /// Fails if a field is blank or too long.
    fn check(&self) -> Result<(), RequestError> {
        for (field, value) in [
            ("to", &self.to),
            ("reply_to", &self.reply_to),
            ("channel", &self.channel),
            ("reply_channel", &self.reply_channel),
            ("account_id", &self.account_id),
            ("reply_account_id", &self.reply_account_id),
            ("thread_id", &self.thread_id),
            ("group_id", &self.group_id),
            ("group_channel", &self.group_channel),
            ("group_space", &self.group_space),
        ] {
            check_field("command.routing", field, value.as_deref())?;
        }
        Ok(())
    }
}

impl InputProvenance {
    /// Fails if a field is blank or too long.
    fn check(&self) -> Result<(), RequestError> {
        for (field, value) in [
            ("source", &self.source),
            ("message_id", &self.message_id),
            ("channel", &self.channel),
            ("tool_call_id", &self.tool_call_id),
            ("correlation_id", &self.correlation_id),
        ] {
            check_field("command.input_provenance", field, value.as_deref())?;
        }
        Ok(())
    }
}

/// Checks the parts of a message that comes from outside. Fails for parts that only a model or a tool may create, too
/// many parts, and more than the permitted bytes.
pub(super) fn check_parts(
    path: &str,
    parts: &[ContentPart],
    max: usize,
) -> Result<(), RequestError> {
    if parts.len() > max {
        let problem = format!("{} parts", parts.len());
        return Err(RequestError::invalid(path, problem, format!("send at most {max}")));
    }
    for (index, part) in parts.iter().enumerate() {
        let path = || format!("{path}[{index}]");
        match part {
            ContentPart::Text { text } => check_bytes(path, text.len(), COMMAND_TEXT_BYTES_MAX)?,
            ContentPart::Image(_) | ContentPart::Document(_) => {}
            ContentPart::Reasoning(_)
            | ContentPart::ToolCall(_)
            | ContentPart::ToolResult(_)
            | ContentPart::Unknown(_) => {
                let fix = "send text, images and documents only";
                return Err(RequestError::invalid(
                    &path(),
                    "not a part that a caller may send",
                    fix,
                ));
            }
        }
    }
    Ok(())
}

/// Checks the key of a session that is created without a command.
pub fn check_session_key(key: &str) -> Result<(), RequestError> {
    check_field("session", "key", Some(key))
}

/// Checks that a field is absent, or neither blank nor too long. The path is only formatted for an error.
fn check_field(parent: &str, field: &str, value: Option<&str>) -> Result<(), RequestError> {
    let path = || format!("{parent}.{field}");
    match value {
        None => Ok(()),
        Some(text) if text.trim().is_empty() => {
            Err(RequestError::invalid(&path(), "empty", "leave it out, or say something"))
        }
        Some(text) => check_bytes(path, text.len(), COMMAND_FIELD_BYTES_MAX),
    }
}

/// Fails if `bytes` exceeds `max`. The path is only formatted for the error.
fn check_bytes(
    path: impl FnOnce() -> String,
    bytes: usize,
    max: usize,
) -> Result<(), RequestError> {
    if bytes <= max {
        return Ok(());
    }
    Err(RequestError::TooLarge { path: path(), bytes, max })
}

/// Returns the size of a part, in bytes. 0 for kinds that a message from outside must not contain.
fn bytes_of(part: &ContentPart) -> usize {
    let source = |source: &MediaSource| match source {
        MediaSource::Url(url) => url.len(),
        MediaSource::Base64 { media_type, data } => media_type.len() + data.len(),
    };
    match part {
        ContentPart::Text { text } => text.len(),
        ContentPart::Image(image) => {
            source(&image.source) + image.detail.as_ref().map_or(0, String::len)
        }
        ContentPart::Document(document) => {
            source(&document.source) + document.name.as_ref().map_or(0, String::len)
        }
        // Refused before.
        ContentPart::Reasoning(_)
        | ContentPart::ToolCall(_)
        | ContentPart::ToolResult(_)
        | ContentPart::Unknown(_) => 0,
    }
}
