//! Extraction that is still to be done: jobs, and how far each session was read.
//!
//! Everything here is data and pure rules; stores keep it, the keeper does it.

use std::sync::Arc;

use provost_core::{Message, Role, Timestamp};
use serde::{Deserialize, Serialize};

use crate::MemoryError;
use crate::memory::{Owner, SOURCE_BYTES_MAX, digest};

/// Messages of one conversation that are looked at; older ones are left out.
pub const MESSAGES_MAX: usize = 10_000;
/// Bytes of one message's text that are kept for extraction.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the reason of a failure that are kept.
pub(crate) const PROBLEM_BYTES_MAX: usize = 1024;

/// One message as extraction sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Who said it.
    pub role: Role,
    /// The text; empty for a message without one.
    pub text: String,
    /// The message's [`digest`].
    pub digest: String,
}

impl Said {
    /// Of a message. Only what the user and the assistant say has a text: results of tools are not about the user.
    pub fn of(message: &Message) -> Self {
        let mut text = match message.role {
            Role::User | Role::Assistant => message.text(),
            Role::System | Role::Tool | Role::Summary => String::new(),
        };
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
        Self { role: message.role, text, digest: digest(message) }
    }
}

/// A conversation from its first message on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// The session, or the run if there is no session.
    pub session: String,
    /// Its messages, oldest first, all of them.
    pub messages: Vec<Said>,
}

impl Conversation {
    /// The conversation of a session.
    pub fn new(session: impl Into<String>, messages: &[Arc<Message>]) -> Self {
        let messages = messages.iter().map(|message| Said::of(message)).collect();
        Self { session: session.into(), messages }
    }

    pub(crate) fn check(&self) -> Result<(), MemoryError> {
        if self.session.is_empty() || self.session.len() > SOURCE_BYTES_MAX {
            let problem = format!("a session id has 1 to {SOURCE_BYTES_MAX} bytes");
            return Err(MemoryError::Invalid(problem));
        }
        Ok(())
    }
}

/// How far a session was read: its first so many messages, the last of which had this digest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// How many messages.
    pub end: u64,
    /// The digest of the last of them; empty if there are none.
    pub digest: String,
}

impl Cursor {
    /// The place behind all of these messages.
    pub fn behind(messages: &[Said]) -> Self {
        let digest = messages.last().map(|last| last.digest.clone()).unwrap_or_default();
        Self { end: messages.len() as u64, digest }
    }

    /// Where reading goes on. A session can lose its newest messages; then it goes on behind the last message that was read
    /// and is still there, and from the start if there is none.
    pub fn resume(&self, messages: &[Said]) -> usize {
        let end = usize::try_from(self.end).unwrap_or(usize::MAX);
        if end == 0 {
            return 0;
        }
        let is_last = |said: &Said| said.digest == self.digest;
        if messages.get(end - 1).is_some_and(is_last) {
            return end;
        }
        messages.iter().rposition(is_last).map_or(0, |place| place + 1)
    }
}

/// What is new in a conversation since a cursor; `None` if that is nothing that anybody said.
pub(crate) fn fresh(conversation: &Conversation, cursor: &Cursor) -> Option<(Vec<Said>, Cursor)> {
    let messages = &conversation.messages;
    let start = cursor.resume(messages).max(messages.len().saturating_sub(MESSAGES_MAX));
    let new = messages.get(start..).unwrap_or_default();
    let has_words = |said: &Said| said.role == Role::User && !said.text.trim().is_empty();
    if !new.iter().any(has_words) {
        return None;
    }
    let kept = new.iter().filter(|said| !said.text.trim().is_empty()).cloned().collect();
    Some((kept, Cursor::behind(messages)))
}

/// A job and who has it: every claim gives it another attempt number, so a late comer can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobKey {
    /// The job's number.
    pub job: u64,
    /// The attempt, counted from 1.
    pub attempt: u32,
}

/// A job to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Which, and which attempt this is.
    pub key: JobKey,
    /// Whose memories.
    pub owner: Owner,
    /// The session, or the run if there was no session.
    pub session: String,
    /// What was said.
    pub messages: Vec<Said>,
    /// How often it has failed before.
    pub failures: u32,
}

/// What a claim gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claim {
    /// The job.
    pub job: Option<Job>,
    /// Without one: when the next may be due.
    pub next_due: Option<Timestamp>,
    /// Jobs of all owners that are not given up, this one included.
    pub pending: u64,
}

/// Why and until when a job waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postponed {
    /// When it is tried again; `None` gives it up.
    pub until: Option<Timestamp>,
    /// What went wrong.
    pub problem: String,
}

/// What is known about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobInfo {
    /// Its number.
    pub job: u64,
    /// The session, or the run if there was no session.
    pub session: String,
    /// When it was queued.
    pub created_at: Timestamp,
    /// How often it has failed.
    pub failures: u32,
    /// What went wrong last.
    pub problem: Option<String>,
    /// True if it is not tried again.
    pub given_up: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: Role, text: &str) -> Said {
        Said::of(&Message::new(role, vec![text.into()], Timestamp::default()))
    }

    fn talk(texts: &[&str]) -> Conversation {
        let messages = texts.iter().map(|text| said(Role::User, text)).collect();
        Conversation { session: "s".into(), messages }
    }

    #[test]
    fn only_new_messages_are_fresh() {
        let first = talk(&["a", "b"]);
        let (messages, cursor) = fresh(&first, &Cursor::default()).unwrap();
        assert_eq!(messages.len(), 2);
        assert_eq!(fresh(&first, &cursor), None);
        let (messages, _) = fresh(&talk(&["a", "b", "c"]), &cursor).unwrap();
        assert_eq!(messages[0].text, "c");
    }

    #[test]
    fn a_session_that_lost_messages_is_read_from_what_is_left() {
        let cursor = Cursor::behind(&talk(&["a", "b", "c"]).messages);
        assert_eq!(cursor.resume(&talk(&["a", "b"]).messages), 0, "the last one read is gone");
        assert_eq!(cursor.resume(&talk(&["c", "d"]).messages), 1, "the first ones are gone");
    }

    #[test]
    fn nothing_the_user_said_is_nothing() {
        let conversation = Conversation {
            session: "s".into(),
            messages: vec![said(Role::Assistant, "hello"), said(Role::User, " ")],
        };
        assert_eq!(fresh(&conversation, &Cursor::default()), None);
    }

    #[test]
    fn results_of_tools_have_no_text() {
        assert_eq!(said(Role::Tool, "secret").text, "");
        assert_eq!(said(Role::Summary, "secret").text, "");
        let long = said(Role::User, &"ä".repeat(MESSAGE_BYTES_MAX));
        assert_eq!(long.text.len(), MESSAGE_BYTES_MAX);
    }
}
