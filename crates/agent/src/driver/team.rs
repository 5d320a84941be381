//! A run's part in a team: what its lead tells of members, when it waits for them, what it hears without asking.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use provost_core::recovery::EffectKey;
use provost_core::{EventKind, Message, Part, Role, StopReason, TeamMessage};
use provost_tool::ToolError;

use super::Driver;
use super::setup::Cx;
use crate::driver::cancel::run_until;
use crate::error::Error;
use crate::hook::{HookPoint, TeamMessageInfo, TeammateInfo};
use crate::outcome::Outcome;
use crate::run::Feed;
use crate::team::{
    Member, MemberEnd, MemberStatus, Seat, TeamAction, TeamReply, TeamWait, injected,
};

/// Tells the keys of these readings from those of tool calls, whose indices are small.
const MAIL_INDEX: u64 = 1 << 32;

impl Cx {
    /// Tells that a member came to stand where it does.
    pub(crate) async fn tell_member(&self, seat: &Seat, member: &Member, duration: Duration) {
        self.queue.emit_with(|| member.event(seat.team()));
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
            MemberStatus::Stopped => (HookPoint::TeammateLeave, Some(Err(stopped()))),
        };
        let info = TeammateInfo {
            team: seat.team().to_owned(),
            member: member.name.clone(),
            task: member.task.clone(),
            result,
            duration,
        };
        let told = AssertUnwindSafe(self.hooks.on_teammate(point, &info)).catch_unwind();
        if told.await.is_err() {
            let message = format!("a hook panicked when it was told of member `{}`", member.name);
            self.queue.emit(EventKind::Warning { message });
        }
    }

    /// Notes that a member of this run's team is over, and tells it.
    pub(crate) async fn member_over(&self, name: &str, end: MemberEnd, duration: Duration) {
        let Some(seat) = &self.relations.seat else { return };
        let over = TeamAction::Over { name: name.to_owned(), end };
        match seat.desk().act(None, over).await {
            Ok(TeamReply::Member { member, .. }) => {
                self.tell_member(seat, &member, duration).await;
            }
            Ok(_) => {}
            Err(error) => {
                let message = format!("the end of member `{name}` could not be noted: {error}");
                self.queue.emit(EventKind::Warning { message });
            }
        }
    }

    /// Ends members whose call was given up before they could begin: nobody else would.
    async fn end_unbegun(&self, seat: &Seat) {
        let Ok(TeamReply::Members { members, .. }) =
            seat.desk().act(None, TeamAction::Members).await
        else {
            return;
        };
        for member in members.iter().filter(|member| member.is_active() && member.run.is_none()) {
            let end = MemberEnd::Stopped(Some("it never began".to_owned()));
            self.member_over(&member.name, end, Duration::ZERO).await;
        }
    }

    /// Tells that this run said something to others of its team.
    pub(crate) async fn tell_message(&self, seat: &Seat, message: &TeamMessage) {
        self.queue.emit_with(|| EventKind::TeamMessage(Box::new(message.clone())));
        if self.hooks.is_empty() {
            return;
        }
        let TeamMessage { from, to, content, .. } = message.clone();
        let info = TeamMessageInfo { team: seat.team().to_owned(), from, to, content };
        self.hooks.on_team_message(&info).await;
    }

    /// Ends the team with the run of its lead, unless that goes on later.
    pub(crate) async fn close_team(&self, outcome: &Result<Outcome, Error>) {
        let Some(seat) = self.relations.seat.as_ref().filter(|seat| seat.is_lead()) else { return };
        if !matches!(outcome, Ok(Outcome::Suspended(_)))
            && let Err(error) = seat.desk().act(None, TeamAction::Close).await
        {
            let message = format!("the team could not be closed: {error}");
            self.queue.emit(EventKind::Warning { message });
        }
    }
}

impl Driver {
    /// Lets the members of a lead that has its answer come to their end; gives the outcome of a run that does not wait for that.
    pub(super) async fn leave_team(&mut self) -> Result<Option<Outcome>, Error> {
        match self.await_team().await {
            Err(StopReason::Cancelled) => self.cancel().await.map(Some),
            Ok(false) => {
                self.keep_children().await?;
                self.suspend().await.map(Some)
            }
            Ok(true) | Err(_) => Ok(None),
        }
    }

    /// Waits for the members of a lead that has its answer; false, if it is suspended until then. They are stopped where its time
    /// is over or it is cancelled.
    async fn await_team(&mut self) -> Result<bool, StopReason> {
        let Some(seat) = self.cx.relations.seat.clone().filter(Seat::is_lead) else {
            return Ok(true);
        };
        let cx = Arc::clone(&self.cx);
        let over = async {
            cx.end_unbegun(&seat).await;
            seat.desk().act(None, TeamAction::LeadDone).await?;
            if !seat.desk().suspends() {
                return seat.desk().wait(TeamWait::AllOver, None).await.map(|()| true);
            }
            let reply = seat.desk().act(None, TeamAction::Members).await?;
            let TeamReply::Members { members, .. } = reply else { return Ok(true) };
            Ok(!members.iter().any(Member::is_active))
        };
        let waited = run_until(&self.cx.control.cancel, self.deadline(), over).await?;
        Ok(waited.unwrap_or_else(|error: ToolError| {
            let message = format!("the members could not be waited for: {error}");
            self.cx.queue.emit(EventKind::Warning { message });
            true
        }))
    }

    /// Keeps the team of a lead that is suspended where it would end with this process: its members come to their end, the rest
    /// is kept with the run. False, if it was cancelled meanwhile.
    pub(super) async fn keep_team(&mut self) -> Result<bool, Error> {
        let Some(seat) = self.cx.relations.seat.clone().filter(Seat::is_lead) else {
            return Ok(true);
        };
        if self.cx.relations.local.is_none() {
            return Ok(true);
        }
        let cx = Arc::clone(&self.cx);
        let over = async {
            cx.end_unbegun(&seat).await;
            seat.desk().wait(TeamWait::AllOver, None).await
        };
        let waited = run_until(&self.cx.control.cancel, self.deadline(), over).await;
        if matches!(waited, Err(StopReason::Cancelled)) {
            return Ok(false);
        }
        self.close_children().await?;
        let no_json = |error| Error::Bug(format!("the team's book has no JSON form: {error}"));
        seat.keep(&self.cx.state).map_err(no_json)?;
        Ok(true)
    }

    /// Takes in unread messages of the team, where they are shown without being asked for.
    pub(super) async fn hear_team(&mut self) -> Result<(), Error> {
        if !self.cx.core.family.inject || !self.run.is_at_model() {
            return Ok(());
        }
        let Some(seat) = self.cx.relations.seat.clone() else { return Ok(()) };
        // The same until they are taken in, and then never again.
        let place = u64::try_from(self.run.produced().len()).unwrap_or(u64::MAX);
        let key = EffectKey::new(self.cx.run_id, place, MAIL_INDEX);
        let read = TeamAction::Read { by: seat.name().to_owned() };
        match seat.desk().act(Some(&key), read).await {
            Ok(TeamReply::Messages { messages, .. }) if !messages.is_empty() => {
                let parts = vec![Part::text(injected(messages))];
                let message = Arc::new(Message::new(Role::User, parts, self.now()));
                self.cx.queue.emit(EventKind::UserMessage { message: Arc::clone(&message) });
                self.feed(Feed::UserSaid { message })?;
            }
            Ok(_) => {}
            Err(error) => {
                let message = format!("the messages of the team could not be read: {error}");
                self.cx.queue.emit(EventKind::Warning { message });
            }
        }
        Ok(())
    }
}
