//! A mailbox of the program's own, in place of the one that a team keeps with its book.

use std::collections::HashMap;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use provost_core::{RunId, TeamMessage};

use crate::team::inbox::{Inboxes, MailError};

/// What a call of a [`Mailbox`] gives.
pub type MailFuture<'a, T> = BoxFuture<'a, Result<T, MailError>>;

/// Carries the messages of teams.
///
/// One value serves all runs of its lead, so everything is asked for one team, which is named by the lead's run.
/// Whom a message may go to, and how long it may be, is checked before.
pub trait Mailbox: Send + Sync + 'static {
    /// Delivers a message to its recipient; if that is `*`, to everybody registered but the sender.
    fn send(&self, team: RunId, message: TeamMessage) -> MailFuture<'_, ()>;

    /// Takes out what waits for a recipient, oldest first; nothing, if there is nothing.
    fn read<'a>(&'a self, team: RunId, name: &'a str) -> MailFuture<'a, Vec<TeamMessage>>;

    /// Somebody can be written to from now on. May be told twice.
    fn register<'a>(&'a self, team: RunId, name: &'a str) -> MailFuture<'a, ()>;

    /// Somebody is gone and reads no more.
    fn unregister<'a>(&'a self, _team: RunId, _name: &'a str) -> MailFuture<'a, ()> {
        std::future::ready(Ok(())).boxed()
    }

    /// The team is over: sending and reading fail from now on.
    fn close(&self, team: RunId) -> MailFuture<'_, ()>;
}

/// A mailbox in memory: to begin with, where another one only wants to watch.
#[derive(Debug, Default)]
pub struct MemoryMailbox(Mutex<HashMap<RunId, Inboxes>>);

impl MemoryMailbox {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Inboxes>> {
        self.0.lock()
    }

    /// Does something with the mail of a team; one that was never registered, or is closed, has none.
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
