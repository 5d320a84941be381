//! The messages of the participants of a team, as a value: no I/O and no clock.

use std::collections::{BTreeMap, VecDeque};

use provost_core::{ErrorKind, TeamMessage};
use serde::{Deserialize, Serialize};

/// The recipient name that addresses all participants.
pub const BROADCAST: &str = "*";
/// Maximum unread messages per recipient. Further messages are rejected.
pub const INBOX_MESSAGES_MAX: usize = 100;
/// Maximum size of one message as JSON, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Maximum size of the messages of one read as JSON, in bytes, so that a model receives them completely. The rest
/// remains unread.
pub const READ_BYTES_MAX: usize = 40 * 1024;

/// An error of sending or reading messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    /// The recipient has too many unread messages.
    #[error(
        "the inbox of `{name}` is full with {INBOX_MESSAGES_MAX} unread messages: send again later"
    )]
    Full {
        /// Name of the recipient.
        name: String,
    },
    /// No inbox has this name.
    #[error("`{0}` has no inbox")]
    Unknown(String),
    /// The team has ended.
    #[error("the mailbox is closed because the team has ended")]
    Closed,
    /// The service of the mailbox failed.
    #[error("the mailbox: {0}")]
    Service(String),
}

impl MailError {
    /// Returns the error's general kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Full { .. } => ErrorKind::Exhausted,
            Self::Unknown(_) => ErrorKind::NotFound,
            Self::Closed => ErrorKind::Conflict,
            Self::Service(_) => ErrorKind::Unavailable,
        }
    }
}

/// The inboxes of one team, each in the order of sending.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inboxes {
    inboxes: BTreeMap<String, VecDeque<TeamMessage>>,
    closed: bool,
}

impl Inboxes {
    /// Creates an inbox. An existing inbox keeps its messages.
    pub fn register(&mut self, name: &str) {
        self.inboxes.entry(name.to_owned()).or_default();
    }

    /// Removes an inbox and its messages.
    pub fn unregister(&mut self, name: &str) {
        self.inboxes.remove(name);
    }

    /// Delivers a message to its recipient, or to all participants except its sender. Returns an error, and delivers
    /// nothing, if one inbox is full, the recipient is unknown or the inboxes are closed.
    pub fn send(&mut self, message: &TeamMessage) -> Result<(), MailError> {
        if self.closed {
            return Err(MailError::Closed);
        }
        let is_broadcast = message.to == BROADCAST;
        if !is_broadcast && !self.inboxes.contains_key(&message.to) {
            return Err(MailError::Unknown(message.to.clone()));
        }
        let goes_to = |name: &str| {
            if is_broadcast { name != message.from } else { name == message.to }
        };
        let is_full = |(name, inbox): &(&String, &VecDeque<_>)| {
            goes_to(name) && inbox.len() >= INBOX_MESSAGES_MAX
        };
        if let Some((name, _)) = self.inboxes.iter().find(is_full) {
            return Err(MailError::Full { name: name.clone() });
        }
        for (_, inbox) in self.inboxes.iter_mut().filter(|(name, _)| goes_to(name)) {
            inbox.push_back(message.clone());
        }
        Ok(())
    }

    /// Delivers a notice of the team itself, even to a full inbox. There is at most one such notice per member.
    pub(super) fn deliver_notice(&mut self, message: &TeamMessage) {
        if let (false, Some(inbox)) = (self.closed, self.inboxes.get_mut(&message.to)) {
            inbox.push_back(message.clone());
        }
    }

    /// Removes and returns the unread messages of a recipient, oldest first, up to the size limit of one read. Empty if
    /// there is no such inbox. Returns an error if the inboxes are closed.
    pub fn read(&mut self, name: &str) -> Result<Vec<TeamMessage>, MailError> {
        if self.closed {
            return Err(MailError::Closed);
        }
        let Some(inbox) = self.inboxes.get_mut(name) else { return Ok(Vec::new()) };
        let mut read: Vec<TeamMessage> = Vec::new();
        let mut bytes = 0;
        while let Some(message) = inbox.front() {
            bytes += json_bytes(message);
            if !read.is_empty() && bytes > READ_BYTES_MAX {
                break;
            }
            read.extend(inbox.pop_front());
        }
        Ok(read)
    }

    /// Returns the number of unread messages of a recipient.
    pub fn unread_count(&self, name: &str) -> usize {
        self.inboxes.get(name).map_or(0, VecDeque::len)
    }

    /// Closes the inboxes. Sending and reading fail from then on.
    pub fn close(&mut self) {
        self.closed = true;
        self.inboxes.clear();
    }
}

/// Returns the size of a value as JSON, in bytes.
pub(super) fn json_bytes(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}
