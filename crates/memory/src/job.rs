//! Extraction jobs, and the read position of each session.
//!
//! This module contains data and pure rules. A store persists jobs, and the extractor runs them.

use std::sync::Arc;

use provost_core::{Message, Role, Timestamp};
use serde::{Deserialize, Serialize};

use crate::MemoryError;
use crate::memory::{Owner, SOURCE_BYTES_MAX, digest};

/// Maximum number of messages in one job. Older messages of a longer conversation are skipped.
pub const MESSAGES_MAX: usize = 10_000;
/// Maximum length of a message's text in a job, in bytes. A longer text is truncated.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Maximum length of a stored error message, in bytes.
pub(crate) const ERROR_BYTES_MAX: usize = 1024;

/// A message of a conversation, reduced to the data that extraction needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationMessage {
    /// Author of the message.
    pub role: Role,
    /// Text of the message. Empty if the message has no text or is not from the user or the assistant.
    pub text: String,
    /// The [`digest`] of the message.
    pub digest: String,
}

impl ConversationMessage {
    /// Reduces a message. Only messages of the user and the assistant keep their text, because tool results contain
    /// no facts about the user.
    pub fn from_message(message: &Message) -> Self {
        let mut text = match message.role {
            Role::User | Role::Assistant => message.text(),
            Role::System | Role::Tool | Role::Summary => String::new(),
        };
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
        Self { role: message.role, text, digest: digest(message) }
    }
}

/// A complete conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Id of the session, or of the run if the run has no session.
    pub session: String,
    /// All messages, oldest first.
    pub messages: Vec<ConversationMessage>,
}

impl Conversation {
    /// Creates a conversation from the messages of a session, oldest first.
    pub fn new(session: impl Into<String>, messages: &[Arc<Message>]) -> Self {
        let messages =
            messages.iter().map(|message| ConversationMessage::from_message(message)).collect();
        Self { session: session.into(), messages }
    }

    /// Returns an error if the session id is empty or too long.
    pub(crate) fn check(&self) -> Result<(), MemoryError> {
        if self.session.is_empty() || self.session.len() > SOURCE_BYTES_MAX {
            let problem = format!("a session id has 1 to {SOURCE_BYTES_MAX} bytes");
            return Err(MemoryError::Invalid(problem));
        }
        Ok(())
    }
}

/// Position in a session up to which messages were read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReadCursor {
    /// Number of messages that were read.
    pub end: u64,
    /// Digest of the last message that was read; empty if none was read.
    pub digest: String,
}

impl ReadCursor {
    /// Returns the position after the last of these messages.
    pub fn after(messages: &[ConversationMessage]) -> Self {
        let digest = messages.last().map(|last| last.digest.clone()).unwrap_or_default();
        Self { end: messages.len() as u64, digest }
    }

    /// Returns the index of the first unread message.
    ///
    /// The session may have lost messages since. In this case, the last read message determines the index, wherever
    /// it is now. If it is gone, the index is 0.
    pub fn resume(&self, messages: &[ConversationMessage]) -> usize {
        let end = usize::try_from(self.end).unwrap_or(usize::MAX);
        if end == 0 {
            return 0;
        }
        let is_last_read = |message: &ConversationMessage| message.digest == self.digest;
        if messages.get(end - 1).is_some_and(is_last_read) {
            return end;
        }
        messages.iter().rposition(is_last_read).map_or(0, |index| index + 1)
    }
}

/// Returns the non-empty messages after the cursor, and the cursor after them. `None` if the user has written nothing
/// new. Reads only the last [`MESSAGES_MAX`] messages of the conversation.
pub(crate) fn new_messages_since(
    conversation: &Conversation,
    cursor: &ReadCursor,
) -> Option<(Vec<ConversationMessage>, ReadCursor)> {
    let messages = &conversation.messages;
    let start = cursor.resume(messages).max(messages.len().saturating_sub(MESSAGES_MAX));
    let new = messages.get(start..).unwrap_or_default();
    let has_text = |message: &&ConversationMessage| !message.text.trim().is_empty();
    let is_from_user = |message: &ConversationMessage| message.role == Role::User;
    if !new.iter().filter(has_text).any(is_from_user) {
        return None;
    }
    let unread = new.iter().filter(has_text).cloned().collect();
    Some((unread, ReadCursor::after(messages)))
}

/// Identifies one claim of a job. Each claim has a new attempt number, so the store can reject the holder of an old
/// claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobClaim {
    /// Number of the job.
    pub job: u64,
    /// Number of the attempt, starting at 1.
    pub attempt: u32,
}

/// A claimed extraction job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractionJob {
    /// The claim.
    pub claim: JobClaim,
    /// Owner of the extracted memories.
    pub owner: Owner,
    /// Id of the session, or of the run if the run had no session.
    pub session: String,
    /// The messages to read.
    pub messages: Vec<ConversationMessage>,
    /// Number of earlier failures.
    pub failures: u32,
}

/// Result of an attempt to claim a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimResult {
    /// The claimed job; `None` if no job is due.
    pub job: Option<ExtractionJob>,
    /// Time at which the next job becomes due; `None` if a job was claimed or none is queued.
    pub next_due: Option<Timestamp>,
    /// Number of jobs of all owners that are not given up, including the claimed one.
    pub pending: u64,
}

/// Failure of a job and the time of its next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRetry {
    /// Time of the next attempt; `None` to give the job up.
    pub retry_at: Option<Timestamp>,
    /// Description of the failure.
    pub error: String,
}

/// State of a queued job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatus {
    /// Number of the job.
    pub job: u64,
    /// Id of the session, or of the run if the run had no session.
    pub session: String,
    /// Time at which the job was queued.
    pub created_at: Timestamp,
    /// Number of failures.
    pub failures: u32,
    /// Error of the last attempt; `None` if no attempt has failed.
    pub last_error: Option<String>,
    /// True if the job has failed too often and is not tried again.
    pub is_given_up: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, text: &str) -> ConversationMessage {
        ConversationMessage::from_message(&Message::new(
            role,
            vec![text.into()],
            Timestamp::default(),
        ))
    }

    fn conversation(texts: &[&str]) -> Conversation {
        let messages = texts.iter().map(|text| message(Role::User, text)).collect();
        Conversation { session: "s".into(), messages }
    }

    #[test]
    fn only_new_messages_are_fresh() {
        let first = conversation(&["a", "b"]);
        let (messages, cursor) = new_messages_since(&first, &ReadCursor::default()).unwrap();
        assert_eq!(messages.len(), 2);
        assert_eq!(new_messages_since(&first, &cursor), None);
        let (messages, _) = new_messages_since(&conversation(&["a", "b", "c"]), &cursor).unwrap();
        assert_eq!(messages[0].text, "c");
    }

    #[test]
    fn a_session_that_lost_messages_is_read_from_what_is_left() {
        let cursor = ReadCursor::after(&conversation(&["a", "b", "c"]).messages);
        assert_eq!(
            cursor.resume(&conversation(&["a", "b"]).messages),
            0,
            "the last one read is gone"
        );
        assert_eq!(
            cursor.resume(&conversation(&["c", "d"]).messages),
            1,
            "the first ones are gone"
        );
    }

    #[test]
    fn nothing_the_user_said_is_nothing() {
        let conversation = Conversation {
            session: "s".into(),
            messages: vec![message(Role::Assistant, "hello"), message(Role::User, " ")],
        };
        assert_eq!(new_messages_since(&conversation, &ReadCursor::default()), None);
    }

    #[test]
    fn results_of_tools_have_no_text() {
        assert_eq!(message(Role::Tool, "secret").text, "");
        assert_eq!(message(Role::Summary, "secret").text, "");
        let long = message(Role::User, &"ä".repeat(MESSAGE_BYTES_MAX));
        assert_eq!(long.text.len(), MESSAGE_BYTES_MAX);
    }
}
