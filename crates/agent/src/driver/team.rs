//! A run's part in a team: member notifications, waiting for members, and messages that arrive without a tool call.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use provost_core::recovery::EffectKey;
use provost_core::{ContentPart, EventKind, Message, Role, StopReason, TeamMessage};
use provost_tool::ToolError;

use super::Driver;
use super::setup::DriverContext;
use crate::driver::cancel::run_until;
use crate::error::Error;
use crate::hook::{HookPoint, TeamMessageInfo, TeammateInfo};
use crate::outcome::RunOutcome;
use crate::run::JournalEntry;
use crate::team::{
    Member, MemberOutcome, MemberStatus, TeamCommand, TeamMembership, TeamResponse, TeamWait,
    format_unrequested,
};

/// Offset that separates the idempotency keys of these reads from the keys of tool calls, whose indices are small.
const MAIL_INDEX: u64 = 1 << 32;

impl DriverContext {
    /// Emits the status of a member, and calls the hooks.
    pub(crate) async fn notify_member(
        &self,
        membership: &TeamMembership,
        member: &Member,
        duration: Duration,
    ) {
        self.events.emit_with(|| member.event(membership.team()));
        if self.hooks.is_empty() {
            return;
        }
        let stopped = || member.error.clone().unwrap_or_else(|| "it was stopped".to_owned());
        let (point, result) = match member.status {
            MemberStatus::Active => (HookPoint::TeammateJoin, None),
            MemberStatus::Completed => {
                let text = member.result.clone().unwrap_or_default();
                (HookPoint::TeammateComplete, Some(Ok(text)))
            }
            MemberStatus::Failed => (HookPoint::TeammateError, Some(Err(stopped()))),
            MemberStatus::Stopped => (HookPoint::TeammateStopped, Some(Err(stopped()))),
        };
        let info = TeammateInfo {
            team: membership.team().to_owned(),
            member: member.name.clone(),
            task: member.task.clone(),
            result,
            duration,
        };
        let told = AssertUnwindSafe(self.hooks.on_teammate(point, &info)).catch_unwind();
        if told.await.is_err() {
            let message =
                format!("a hook panicked when it was called for member `{}`", member.name);
            self.events.emit(EventKind::Warning { message });
        }
    }

    /// Records the end of a member of this run's team, emits it, and calls the hooks.
    pub(crate) async fn end_member(&self, name: &str, end: MemberOutcome, duration: Duration) {
        let Some(membership) = &self.relations.membership else { return };
        let over = TeamCommand::MemberFinished { name: name.to_owned(), end };
        match membership.store().apply(None, over).await {
            Ok(TeamResponse::Member { member, .. }) => {
                self.notify_member(membership, &member, duration).await;
            }
            Ok(_) => {}
            Err(error) => {
                let message = format!("the end of member `{name}` could not be noted: {error}");
                self.events.emit(EventKind::Warning { message });
            }
        }
    }

    /// Stops members whose call was cancelled before their run started, because nothing else would end them.
    async fn fail_unstarted_members(&self, membership: &TeamMembership) {
        let Ok(TeamResponse::Members { members, .. }) =
            membership.store().apply(None, TeamCommand::Members).await
        else {
            return;
        };
        for member in members.iter().filter(|member| member.is_active() && member.run.is_none()) {
            let end = MemberOutcome::Stopped(Some("it never began".to_owned()));
            self.end_member(&member.name, end, Duration::ZERO).await;
        }
    }

    /// Emits a message from this run to its team, and calls the hooks.
    pub(crate) async fn notify_message(&self, membership: &TeamMembership, message: &TeamMessage) {
        self.events.emit_with(|| EventKind::TeamMessage(Box::new(message.clone())));
        if self.hooks.is_empty() {
            return;
        }
        let TeamMessage { from, to, content, .. } = message.clone();
        let info = TeamMessageInfo { team: membership.team().to_owned(), from, to, content };
        self.hooks.on_team_message(&info).await;
    }

    /// Closes the team when its lead's run ends, unless the run is only suspended.
    pub(crate) async fn close_team(&self, outcome: &Result<RunOutcome, Error>) {
        let Some(membership) =
            self.relations.membership.as_ref().filter(|membership| membership.is_lead())
        else {
            return;
        };
        if !matches!(outcome, Ok(RunOutcome::Suspended(_)))
            && let Err(error) = membership.store().apply(None, TeamCommand::Close).await
        {
            let message = format!("the team could not be closed: {error}");
            self.events.emit(EventKind::Warning { message });
        }
    }
}

impl Driver {
    /// Waits for the members of a lead that has its final response. Returns an outcome if the run is cancelled or
    /// suspended instead.
    pub(super) async fn leave_team(&mut self) -> Result<Option<RunOutcome>, Error> {
        match self.await_team().await {
            Err(StopReason::Cancelled) => self.cancel().await.map(Some),
            Ok(false) => {
                self.keep_children().await?;
                self.suspend().await.map(Some)
            }
            Ok(true) | Err(_) => Ok(None),
        }
    }

    /// Waits for the members of a lead that has its final response. Returns false if the lead must be suspended until
    /// they finish. If the deadline passes or the run is cancelled, the members are stopped.
    async fn await_team(&mut self) -> Result<bool, StopReason> {
        let Some(membership) = self.cx.relations.membership.clone().filter(TeamMembership::is_lead)
        else {
            return Ok(true);
        };
        let cx = Arc::clone(&self.cx);
        let over = async {
            cx.fail_unstarted_members(&membership).await;
            membership.store().apply(None, TeamCommand::LeadFinished).await?;
            if !membership.store().parks_lead() {
                return membership.store().wait(TeamWait::AllFinished, None).await.map(|()| true);
            }
            let reply = membership.store().apply(None, TeamCommand::Members).await?;
            let TeamResponse::Members { members, .. } = reply else { return Ok(true) };
            Ok(!members.iter().any(Member::is_active))
        };
        let waited = run_until(&self.cx.control.cancel, self.deadline(), over).await?;
        Ok(waited.unwrap_or_else(|error: ToolError| {
            let message = format!("the members could not be waited for: {error}");
            self.cx.events.emit(EventKind::Warning { message });
            true
        }))
    }

    /// Saves the team of a suspended lead if the team lives only in this process: waits until its members finish, then
    /// stores the team with the run. Returns false if the run was cancelled meanwhile.
    pub(super) async fn keep_team(&mut self) -> Result<bool, Error> {
        let Some(membership) = self.cx.relations.membership.clone().filter(TeamMembership::is_lead)
        else {
            return Ok(true);
        };
        if self.cx.relations.local.is_none() {
            return Ok(true);
        }
        let cx = Arc::clone(&self.cx);
        let over = async {
            cx.fail_unstarted_members(&membership).await;
            membership.store().wait(TeamWait::AllFinished, None).await
        };
        let waited = run_until(&self.cx.control.cancel, self.deadline(), over).await;
        if matches!(waited, Err(StopReason::Cancelled)) {
            return Ok(false);
        }
        self.close_children().await?;
        let no_json = |error| Error::Bug(format!("the team's book has no JSON form: {error}"));
        membership.save(&self.cx.state).map_err(no_json)?;
        Ok(true)
    }

    /// Adds unread team messages to the conversation, if the team delivers them without a tool call.
    pub(super) async fn add_team_messages(&mut self) -> Result<(), Error> {
        if !self.cx.definition.family.pushes_messages || !self.run.awaits_model() {
            return Ok(());
        }
        let Some(membership) = self.cx.relations.membership.clone() else { return Ok(()) };
        // Stays the same until the messages are read, and is never reused.
        let place = u64::try_from(self.run.new_messages().len()).unwrap_or(u64::MAX);
        let key = EffectKey::new(self.cx.run_id, place, MAIL_INDEX);
        let read = TeamCommand::Read { by: membership.name().to_owned() };
        match membership.store().apply(Some(&key), read).await {
            Ok(TeamResponse::Messages { messages, .. }) if !messages.is_empty() => {
                let parts = vec![ContentPart::text(format_unrequested(messages))];
                let message = Arc::new(Message::new(Role::User, parts, self.now()));
                self.cx.events.emit(EventKind::UserMessage { message: Arc::clone(&message) });
                self.apply_entry(JournalEntry::UserMessage { message })?;
            }
            Ok(_) => {}
            Err(error) => {
                let message = format!("the messages of the team could not be read: {error}");
                self.cx.events.emit(EventKind::Warning { message });
            }
        }
        Ok(())
    }
}
