//! Where a team's book is kept: in this process, or by whoever keeps runs.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use provost_core::{Env, RunId};
use provost_tool::{ToolCx, ToolError};

use super::mailbox::Mailbox;
use crate::team::command::{TeamCommand, TeamError, TeamResponse};
use crate::team::state::{LEAD, TeamState};
use crate::watched::Watched;

/// How often a mailbox of the program's own is looked into while somebody waits: it may get messages from elsewhere.
const MAILBOX_POLL: Duration = Duration::from_secs(1);

/// What a call of [`TeamStore`] gives.
pub type TeamFuture<'a, T> = BoxFuture<'a, Result<T, ToolError>>;

/// What somebody of a team waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TeamWait {
    /// Messages for this one, or that nobody is left who could send any.
    Message(String),
    /// That no member is active.
    AllFinished,
}

/// Keeps the book of one team. Every tool of a team, and everything that happens to its members, goes through it.
pub trait TeamStore: Send + Sync + 'static {
    /// Performs an action. `key` is the same whenever the same call asks for it again, which must then get the same reply;
    /// what nobody asks for twice has none.
    fn apply<'a>(
        &'a self,
        key: Option<&'a EffectKey>,
        action: TeamCommand,
    ) -> TeamFuture<'a, TeamResponse>;

    /// Waits, at most so long. It may return too early: whoever waits looks, and waits again.
    fn wait(&self, until: TeamWait, timeout: Option<Duration>) -> TeamFuture<'_, ()>;

    /// The same in a call that may wait `_timeout` in all and has this much of it `left`. True, if that was all of it: where the
    /// run is suspended meanwhile, the call is made again, and only whoever kept it knows how long it has waited.
    fn wait_in_call<'a>(
        &'a self,
        _cx: &'a ToolCx,
        until: TeamWait,
        _timeout: Duration,
        left: Duration,
    ) -> TeamFuture<'a, bool> {
        async move { self.wait(until, Some(left)).await.map(|()| false) }.boxed()
    }

    /// True if a lead that has its answer is suspended until its members are over, and does not wait for them in its place.
    fn parks_lead(&self) -> bool {
        false
    }

    /// The book as it stands, where it ends with its run and must be kept with it.
    fn snapshot(&self) -> Option<TeamState> {
        None
    }
}

/// A team's book in memory.
pub struct InMemoryTeamStore {
    run: RunId,
    book: Watched<TeamState>,
    mailbox: Option<Arc<dyn Mailbox>>,
    /// What the book let pass is delivered before it lets anything else pass: in the order of its numbers, and nobody is seen
    /// to be over whose last words are still on their way.
    delivery: tokio::sync::Mutex<()>,
    env: Env,
}

impl InMemoryTeamStore {
    /// Keeps this book for a run of its lead.
    pub fn new(run: RunId, book: TeamState, env: Env) -> Self {
        let delivery = tokio::sync::Mutex::default();
        Self { run, book: Watched::new(book), mailbox: None, delivery, env }
    }

    /// The same with a mailbox of the program's own.
    #[must_use]
    pub fn with_mailbox(mut self, mailbox: Arc<dyn Mailbox>) -> Self {
        self.mailbox = Some(mailbox);
        self.book = Watched::new(self.book.into_inner().without_inboxes());
        self
    }

    fn apply_now(&self, action: TeamCommand) -> Result<TeamResponse, TeamError> {
        self.book.update(|book| book.apply(action, self.env.now()))
    }

    /// Performs an action where messages are kept elsewhere: what the book lets pass is delivered there.
    async fn apply_with(
        &self,
        mailbox: &dyn Mailbox,
        action: TeamCommand,
    ) -> Result<TeamResponse, TeamError> {
        if let TeamCommand::Read { by } = &action {
            mailbox.register(self.run, by).await?;
            let messages = mailbox.read(self.run, by).await?;
            return Ok(TeamResponse::Messages { messages, left: 0 });
        }
        let _in_order = self.delivery.lock().await;
        let closes = action == TeamCommand::Close;
        let reply = self.apply_now(action)?;
        match &reply {
            TeamResponse::Member { member, note } => {
                mailbox.register(self.run, LEAD).await?;
                match member.is_active() {
                    true => mailbox.register(self.run, &member.name).await?,
                    false => mailbox.unregister(self.run, &member.name).await?,
                }
                if let Some(note) = note {
                    mailbox.send(self.run, note.clone()).await?;
                }
            }
            TeamResponse::Sent { message, .. } => mailbox.send(self.run, message.clone()).await?,
            _ if closes => mailbox.close(self.run).await?,
            _ => {}
        }
        // Wakes the waiting members again: the message has been delivered now.
        self.book.update(|_book| Ok(reply))
    }

    async fn until(&self, until: &TeamWait) {
        if self.mailbox.is_none() || *until == TeamWait::AllFinished {
            return self.book.wait(|book| is_reached(book, until).then_some(())).await;
        }
        // Only reading tells what an external mailbox has, so any change ends the wait.
        let mut is_second_look = false;
        let changed = self.book.wait(|book| {
            let has_changed = std::mem::replace(&mut is_second_look, true);
            (has_changed || is_reached(book, until)).then_some(())
        });
        tokio::time::timeout(MAILBOX_POLL, changed).await.unwrap_or_default();
    }
}

/// True if there is nothing more to wait for, as far as the book knows.
fn is_reached(book: &TeamState, until: &TeamWait) -> bool {
    match until {
        TeamWait::Message(name) => book.unread_count(name) > 0 || !book.can_receive(name),
        TeamWait::AllFinished => book.active() == 0,
    }
}

impl TeamStore for InMemoryTeamStore {
    fn apply<'a>(
        &'a self,
        _key: Option<&'a EffectKey>,
        action: TeamCommand,
    ) -> TeamFuture<'a, TeamResponse> {
        match &self.mailbox {
            // In memory no call is made twice.
            None => std::future::ready(self.apply_now(action).map_err(ToolError::from)).boxed(),
            Some(mailbox) => {
                async move { Ok(self.apply_with(mailbox.as_ref(), action).await?) }.boxed()
            }
        }
    }

    fn wait(&self, until: TeamWait, timeout: Option<Duration>) -> TeamFuture<'_, ()> {
        async move {
            match timeout {
                // That nothing came is no failure: whoever waits looks for itself.
                Some(timeout) => {
                    tokio::time::timeout(timeout, self.until(&until)).await.unwrap_or_default();
                }
                None => self.until(&until).await,
            }
            Ok(())
        }
        .boxed()
    }

    fn snapshot(&self) -> Option<TeamState> {
        Some(self.book.lock().clone())
    }
}
