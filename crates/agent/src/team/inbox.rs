//! Who has which messages. A value: nothing here waits or reads a clock.

use std::collections::{BTreeMap, VecDeque};

use provost_core::{ErrorKind, TeamMessage};
use serde::{Deserialize, Serialize};

/// To whom a message to everybody goes.
pub const BROADCAST: &str = "*";
/// Messages that may wait for one recipient; a sender that floods it is refused.
pub const INBOX_MESSAGES_MAX: usize = 100;
/// Bytes of one message, as JSON.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Bytes of what one reading gives, as JSON, so that a model gets all of it; what is left is for the next.
pub const READ_BYTES_MAX: usize = 40 * 1024;

/// Why a message was not taken or could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    /// The recipient does not keep up.
    #[error(
        "the inbox of `{name}` is full: {INBOX_MESSAGES_MAX} messages wait there; write again once it has read some"
    )]
    Full {
        /// Whose inbox.
        name: String,
    },
    /// Nobody of this name has an inbox.
    #[error("`{0}` has no inbox")]
    Unknown(String),
    /// The team is over.
    #[error("the mailbox is closed: the team is over")]
    Closed,
    /// The service behind the mailbox failed.
    #[error("the mailbox: {0}")]
    Service(String),
}

impl MailError {
    /// The shared kind.
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
    /// Gives a recipient an inbox; one that it has is kept.
    pub fn register(&mut self, name: &str) {
        self.inboxes.entry(name.to_owned()).or_default();
    }

    /// Takes an inbox away, with what is in it.
    pub fn unregister(&mut self, name: &str) {
        self.inboxes.remove(name);
    }

    /// Delivers a message to its recipient, or to everybody but its sender: to all of them or, if one inbox is full, to none.
    pub fn send(&mut self, message: &TeamMessage) -> Result<(), MailError> {
        if self.closed {
            return Err(MailError::Closed);
        }
        let everybody = message.to == BROADCAST;
        if !everybody && !self.inboxes.contains_key(&message.to) {
            return Err(MailError::Unknown(message.to.clone()));
        }
        let goes_to = |name: &str| {
            if everybody { name != message.from } else { name == message.to }
        };
        let full = |(name, inbox): &(&String, &VecDeque<_>)| {
            goes_to(name) && inbox.len() >= INBOX_MESSAGES_MAX
        };
        if let Some((name, _)) = self.inboxes.iter().find(full) {
            return Err(MailError::Full { name: name.clone() });
        }
        for (_, inbox) in self.inboxes.iter_mut().filter(|(name, _)| goes_to(name)) {
            inbox.push_back(message.clone());
        }
        Ok(())
    }

    /// Delivers what the team itself has to say, however full the inbox is: there is one such note for each member.
    pub(super) fn deliver_notice(&mut self, message: &TeamMessage) {
        if let (false, Some(inbox)) = (self.closed, self.inboxes.get_mut(&message.to)) {
            inbox.push_back(message.clone());
        }
    }

    /// Takes out what waits for a recipient, oldest first, as much as one reading may give.
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

    /// How many messages wait for a recipient.
    pub fn unread_count(&self, name: &str) -> usize {
        self.inboxes.get(name).map_or(0, VecDeque::len)
    }

    /// Ends it: nothing is taken and nothing given any more.
    pub fn close(&mut self) {
        self.closed = true;
        self.inboxes.clear();
    }
}

/// The size of a value where a model reads it.
pub(super) fn json_bytes(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}
