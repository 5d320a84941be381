//! Mailboxes: transports for team messages that the program provides.

use std::collections::HashMap;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use provost_core::{RunId, TeamMessage};

use crate::team::inbox::{Inboxes, MailError};

/// The future of a [`Mailbox`] method.
pub type MailFuture<'a, T> = BoxFuture<'a, Result<T, MailError>>;

/// Transports the messages of teams.
///
/// One mailbox serves all runs of its lead, so every method names the team by the id of the lead's run.
/// Recipients and message sizes are checked before a method is called.
pub trait Mailbox: Send + Sync + 'static {
    /// Delivers a message to its recipient. The recipient `*` means all registered participants except the sender.
    fn send(&self, team: RunId, message: TeamMessage) -> MailFuture<'_, ()>;

    /// Removes and returns the unread messages of a recipient, oldest first. Empty if there are none.
    fn read<'a>(&'a self, team: RunId, name: &'a str) -> MailFuture<'a, Vec<TeamMessage>>;

    /// Registers a participant, who can receive messages from then on. May be called more than once.
    fn register<'a>(&'a self, team: RunId, name: &'a str) -> MailFuture<'a, ()>;

    /// Removes a participant, who reads no further messages.
    fn unregister<'a>(&'a self, _team: RunId, _name: &'a str) -> MailFuture<'a, ()> {
        std::future::ready(Ok(())).boxed()
    }

    /// Closes the team. Sending and reading fail from then on.
    fn close(&self, team: RunId) -> MailFuture<'_, ()>;
}

/// A mailbox in memory, as a starting point for mailboxes that observe messages.
#[derive(Debug, Default)]
pub struct MemoryMailbox(Mutex<HashMap<RunId, Inboxes>>);

impl MemoryMailbox {
    /// Creates an empty mailbox.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Inboxes>> {
        self.0.lock()
    }

    /// Calls a function with the inboxes of a team. Returns an error for a team that is not registered or is closed.
    fn with<T: Send + 'static>(
        &self,
        team: RunId,
        act: impl FnOnce(&mut Inboxes) -> Result<T, MailError>,
    ) -> MailFuture<'static, T> {
        let done = match self.lock().get_mut(&team) {
            Some(mail) => act(mail),
            None => Err(MailError::Closed),
        };
        std::future::ready(done).boxed()
    }
}

impl Mailbox for MemoryMailbox {
    fn send(&self, team: RunId, message: TeamMessage) -> MailFuture<'_, ()> {
        self.with(team, |mail| mail.send(&message))
    }

    fn read<'a>(&'a self, team: RunId, name: &'a str) -> MailFuture<'a, Vec<TeamMessage>> {
        self.with(team, |mail| mail.read(name))
    }

    fn register<'a>(&'a self, team: RunId, name: &'a str) -> MailFuture<'a, ()> {
        self.lock().entry(team).or_default().register(name);
        std::future::ready(Ok(())).boxed()
    }

    fn unregister<'a>(&'a self, team: RunId, name: &'a str) -> MailFuture<'a, ()> {
        self.with(team, |mail| {
            mail.unregister(name);
            Ok(())
        })
    }

    fn close(&self, team: RunId) -> MailFuture<'_, ()> {
        self.lock().remove(&team);
        std::future::ready(Ok(())).boxed()
    }
}
