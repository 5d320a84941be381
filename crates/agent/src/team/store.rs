//! Stores of team state: in this process, or in an engine.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use provost_core::{Env, RunId};
use provost_tool::{ToolContext, ToolError};

use super::mailbox::Mailbox;
use crate::team::command::{TeamCommand, TeamError, TeamResponse};
use crate::team::state::{LEAD, TeamState};
use crate::watched::Watched;

/// Polling interval of an external mailbox while a participant waits. Messages may arrive from other processes.
const MAILBOX_POLL: Duration = Duration::from_secs(1);

/// The future of a [`TeamStore`] method.
pub type TeamFuture<'a, T> = BoxFuture<'a, Result<T, ToolError>>;

/// Condition for which a participant waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TeamWait {
    /// The participant has messages, or no other participant could send one.
    Message(String),
    /// No member is active.
    AllFinished,
}

/// Stores the state of one team. All tools of the team and all changes of its members go through the store.
pub trait TeamStore: Send + Sync + 'static {
    /// Applies a command. Repeated calls have the same `key` and must get the same response. `None` marks a command
    /// that is never repeated.
    fn apply<'a>(
        &'a self,
        key: Option<&'a EffectKey>,
        action: TeamCommand,
    ) -> TeamFuture<'a, TeamResponse>;

    /// Waits until the condition holds or the timeout expires. It may return early, so the caller checks again.
    fn wait(&self, until: TeamWait, timeout: Option<Duration>) -> TeamFuture<'_, ()>;

    /// Waits like [`wait`](Self::wait) for a call that waits `_timeout` in total, of which `left` remains. Returns true
    /// if the total has expired. If the run is suspended meanwhile, the call is repeated, and only the store knows how
    /// long it has waited.
    fn wait_in_call<'a>(
        &'a self,
        _cx: &'a ToolContext,
        until: TeamWait,
        _timeout: Duration,
        left: Duration,
    ) -> TeamFuture<'a, bool> {
        async move { self.wait(until, Some(left)).await.map(|()| false) }.boxed()
    }

    /// Returns true if a lead that has responded is suspended until its members end, instead of waiting for them.
    fn parks_lead(&self) -> bool {
        false
    }

    /// Returns a copy of the state, if it must be stored with a suspended run. `None` if the store keeps it.
    fn snapshot(&self) -> Option<TeamState> {
        None
    }
}

/// A store in memory.
pub struct InMemoryTeamStore {
    run: RunId,
    state: Watched<TeamState>,
    mailbox: Option<Arc<dyn Mailbox>>,
    /// Serialises deliveries in the order of the message numbers. A member's end is applied only after its last
    /// message was delivered.
    delivery: tokio::sync::Mutex<()>,
    env: Env,
}

impl InMemoryTeamStore {
    /// Creates a store with this state for a run of the lead.
    pub fn new(run: RunId, state: TeamState, env: Env) -> Self {
        let delivery = tokio::sync::Mutex::default();
        Self { run, state: Watched::new(state), mailbox: None, delivery, env }
    }

    /// Uses an external mailbox for messages.
    #[must_use]
    pub fn with_mailbox(mut self, mailbox: Arc<dyn Mailbox>) -> Self {
        self.mailbox = Some(mailbox);
        self.state = Watched::new(self.state.into_inner().without_inboxes());
        self
    }

    fn apply_now(&self, action: TeamCommand) -> Result<TeamResponse, TeamError> {
        self.state.update(|state| state.apply(action, self.env.now()))
    }

    /// Applies a command and delivers its messages to the external mailbox.
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
        // Wakes the waiting participants again after the delivery.
        self.state.update(|_state| Ok(reply))
    }

    /// Waits until the condition is true, or until the state changes if an external mailbox has the messages.
    async fn until(&self, until: &TeamWait) {
        if self.mailbox.is_none() || *until == TeamWait::AllFinished {
            return self.state.wait(|state| is_reached(state, until).then_some(())).await;
        }
        // Only a read shows the content of an external mailbox, so any change ends the wait.
        let mut is_second_check = false;
        let changed = self.state.wait(|state| {
            let has_changed = std::mem::replace(&mut is_second_check, true);
            (has_changed || is_reached(state, until)).then_some(())
        });
        tokio::time::timeout(MAILBOX_POLL, changed).await.unwrap_or_default();
    }
}

/// Returns true if the condition is true.
fn is_reached(state: &TeamState, until: &TeamWait) -> bool {
    match until {
        TeamWait::Message(name) => state.unread_count(name) > 0 || !state.can_receive(name),
        TeamWait::AllFinished => state.active() == 0,
    }
}

impl TeamStore for InMemoryTeamStore {
    fn apply<'a>(
        &'a self,
        _key: Option<&'a EffectKey>,
        action: TeamCommand,
    ) -> TeamFuture<'a, TeamResponse> {
        match &self.mailbox {
            // Calls in memory are never repeated.
            None => std::future::ready(self.apply_now(action).map_err(ToolError::from)).boxed(),
            Some(mailbox) => {
                async move { Ok(self.apply_with(mailbox.as_ref(), action).await?) }.boxed()
            }
        }
    }

    fn wait(&self, until: TeamWait, timeout: Option<Duration>) -> TeamFuture<'_, ()> {
        async move {
            match timeout {
                // A timeout is not an error: the caller checks the condition again.
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
        Some(self.state.lock().clone())
    }
}
