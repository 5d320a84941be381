//! The complete state of a team: members, messages and board, as a value that commands change.
//!
//! There is no I/O, clock or randomness, so the same commands produce the same state in every process.

use std::collections::VecDeque;

use provost_core::recovery::EffectKey;
use provost_core::text::first_chars;
use provost_core::usage::limits::NAME_CHARS_MAX;
use provost_core::{TeamMessage, Timestamp};
use serde::{Deserialize, Serialize};

use super::board::{NewBoardTask, RESULT_BYTES_MAX, TITLE_BYTES_MAX, TaskBoard};
use super::member::{Member, MemberOutcome, MemberStatus};
use crate::team::command::{TeamCommand, TeamError, TeamResponse};
use crate::team::inbox::{BROADCAST, Inboxes, MESSAGE_BYTES_MAX, json_bytes};

/// Name of the lead in messages and on the board.
pub const LEAD: &str = "__lead__";
/// Maximum members per run, including those that have ended.
pub const MEMBERS_MAX: usize = 256;
/// Maximum size of a member's task and stored response, in bytes.
pub const TASK_BYTES_MAX: usize = 64 * 1024;
/// Number of calls whose responses are stored, so that a repeated call after a crash gets the same response.
const REPLIES_MAX: usize = 64;

/// The state of one team in one run of its lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamState {
    team: String,
    /// Maximum active members. 0 means no limit.
    max_size: usize,
    members: Vec<Member>,
    /// The inboxes. `None` if a mailbox transports the messages.
    mail: Option<Inboxes>,
    board: TaskBoard,
    /// Number of messages sent.
    sent: u64,
    lead_done: bool,
    /// Number of changes.
    revision: u64,
    replies: VecDeque<(String, TeamResponse)>,
}

impl TeamState {
    /// Creates the state of a new team. `max_size` limits the active members; 0 means no limit.
    pub fn new(team: impl Into<String>, max_size: usize) -> Self {
        let mut mail = Inboxes::default();
        mail.register(LEAD);
        Self {
            team: team.into(),
            max_size,
            members: Vec::new(),
            mail: Some(mail),
            board: TaskBoard::default(),
            sent: 0,
            lead_done: false,
            revision: 0,
            replies: VecDeque::new(),
        }
    }

    /// Removes the inboxes. The state then validates and numbers messages, and the caller delivers them.
    #[must_use]
    pub fn without_inboxes(mut self) -> Self {
        self.mail = None;
        self
    }

    /// Returns the name of the team.
    pub fn team(&self) -> &str {
        &self.team
    }

    /// Returns the maximum number of active members. 0 means no limit.
    pub fn max_size(&self) -> usize {
        self.max_size
    }

    /// Returns the number of changes.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns all current and former members.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the current or most recent member with this name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().rev().find(|member| member.name == name)
    }

    /// Returns the number of active members.
    pub fn active(&self) -> usize {
        self.members.iter().filter(|member| member.is_active()).count()
    }

    /// Returns the task board.
    pub fn board(&self) -> &TaskBoard {
        &self.board
    }

    /// Returns the number of unread messages of a participant. 0 if a mailbox transports the messages.
    pub fn unread_count(&self, name: &str) -> usize {
        self.mail.as_ref().map_or(0, |mail| mail.unread_count(name))
    }

    /// Returns true if another participant could still send a message to this one.
    pub fn can_receive(&self, name: &str) -> bool {
        let lead = name != LEAD && !self.lead_done;
        lead || self.members.iter().any(|member| member.is_active() && member.name != name)
    }

    /// Applies a command of a call that may be repeated. A repeated call gets the stored response and changes nothing.
    pub fn apply_idempotent(
        &mut self,
        key: &EffectKey,
        action: TeamCommand,
        now: Timestamp,
    ) -> Result<TeamResponse, TeamError> {
        let key = format!("{key}/{}", action.name());
        if let Some((_, reply)) = self.replies.iter().find(|(of, _)| *of == key) {
            return Ok(reply.clone());
        }
        let before = self.revision;
        let reply = self.apply(action, now)?;
        // Responses without a change need not be stored.
        if self.revision != before {
            if self.replies.len() >= REPLIES_MAX {
                self.replies.pop_front();
            }
            self.replies.push_back((key, reply.clone()));
        }
        Ok(reply)
    }

    /// Applies a command. Returns an error and changes nothing if the command is not valid.
    pub fn apply(
        &mut self,
        action: TeamCommand,
        now: Timestamp,
    ) -> Result<TeamResponse, TeamError> {
        let reply = match action {
            TeamCommand::Members => {
                let (members, lead_done) = (self.members.clone(), self.lead_done);
                return Ok(TeamResponse::Members { members, lead_done });
            }
            TeamCommand::Tasks => {
                return Ok(TeamResponse::Tasks { tasks: self.board.tasks().to_vec() });
            }
            TeamCommand::Read { by } => return self.read(&by),
            TeamCommand::MemberFinished { name, end } => {
                return Ok(self.member_finished(&name, end, now));
            }
            TeamCommand::Join { name, task } => self.join(name, task, now)?,
            TeamCommand::MemberStarted { name, run } => {
                let named = |member: &&mut Member| member.name == name;
                if let Some(member) = self.members.iter_mut().rev().find(named) {
                    member.run = Some(run);
                }
                TeamResponse::Acknowledged
            }
            TeamCommand::LeadFinished => {
                self.lead_done = true;
                TeamResponse::Acknowledged
            }
            TeamCommand::Send { from, to, content } => self.send(from, to, content, now)?,
            TeamCommand::CreateTask(new) => self.create(new, now)?,
            TeamCommand::Claim { by, task } => {
                TeamResponse::Task { task: self.board.claim(&task, &by, now)? }
            }
            TeamCommand::Unclaim { by, task } => {
                TeamResponse::Task { task: self.board.unclaim(&task, &by, by == LEAD, now)? }
            }
            TeamCommand::CompleteTask { by, task, result } => {
                check_text("result", &result, RESULT_BYTES_MAX)?;
                TeamResponse::Task { task: self.board.complete(&task, &by, result, now)? }
            }
            TeamCommand::Close => {
                self.mail.iter_mut().for_each(Inboxes::close);
                TeamResponse::Acknowledged
            }
        };
        self.revision += 1;
        Ok(reply)
    }

    /// Adds a member. Returns an error if the name is invalid or in use, or the team is full.
    fn join(
        &mut self,
        name: String,
        task: String,
        now: Timestamp,
    ) -> Result<TeamResponse, TeamError> {
        check_name(&name)?;
        check_text("task", &task, TASK_BYTES_MAX)?;
        if self.member(&name).is_some_and(Member::is_active) {
            return Err(TeamError::NameInUse(name));
        }
        if self.max_size > 0 && self.active() >= self.max_size {
            return Err(TeamError::Full { max: self.max_size });
        }
        if self.members.len() >= MEMBERS_MAX {
            return Err(TeamError::MemberLimit { max: MEMBERS_MAX });
        }
        let member = Member {
            id: format!("teammate-{}", self.members.len() + 1),
            name,
            status: MemberStatus::Active,
            task,
            joined_at: now,
            run: None,
            ended_at: None,
            result: None,
            error: None,
        };
        self.mail.iter_mut().for_each(|mail| mail.register(&member.name));
        self.members.push(member.clone());
        Ok(TeamResponse::Member { member, note: None })
    }

    /// Records the end of an active member, releases its tasks and notifies the lead. Ignored for another member.
    fn member_finished(&mut self, name: &str, end: MemberOutcome, now: Timestamp) -> TeamResponse {
        let active = |member: &&mut Member| member.name == name && member.is_active();
        let Some(member) = self.members.iter_mut().find(active) else {
            return TeamResponse::Acknowledged;
        };
        let end = match end {
            MemberOutcome::Completed(text) => {
                MemberOutcome::Completed(cut_to_json_size(text, TASK_BYTES_MAX))
            }
            MemberOutcome::Failed(error) => {
                MemberOutcome::Failed(cut_to_json_size(error, TASK_BYTES_MAX))
            }
            stopped => stopped,
        };
        let notice = match &end {
            MemberOutcome::Completed(text) => Some(format!("[completed] {text}")),
            MemberOutcome::Failed(error) => Some(format!("[failed] {error}")),
            // The lead already knows which members it stopped.
            MemberOutcome::Stopped(reason) => reason.as_ref().map(|why| format!("[stopped] {why}")),
        };
        member.end(end, now);
        let member = member.clone();
        self.board.release(name, now);
        self.mail.iter_mut().for_each(|mail| mail.unregister(name));
        let note = notice.filter(|_| !self.lead_done).map(|text| {
            let content = cut_to_json_size(text, MESSAGE_BYTES_MAX);
            self.message(name.to_owned(), LEAD.to_owned(), content, now)
        });
        if let (Some(mail), Some(note)) = (&mut self.mail, &note) {
            mail.deliver_notice(note);
        }
        self.revision += 1;
        TeamResponse::Member { member, note }
    }

    /// Validates, numbers and delivers a message. Returns an error if the recipient is unknown or inactive, or its
    /// inbox is full.
    fn send(
        &mut self,
        from: String,
        to: String,
        content: String,
        now: Timestamp,
    ) -> Result<TeamResponse, TeamError> {
        check_text("to", &to, NAME_CHARS_MAX)?;
        check_text("content", &content, MESSAGE_BYTES_MAX)?;
        let bytes = json_bytes(&content);
        if bytes > MESSAGE_BYTES_MAX {
            let (what, max) = ("content", MESSAGE_BYTES_MAX);
            return Err(TeamError::TooLong { what, bytes, max });
        }
        let recipients = self.recipients(&from, &to)?;
        let message = self.message(from, to, content, now);
        if let Some(mail) = &mut self.mail
            && let Err(error) = mail.send(&message)
        {
            self.sent -= 1;
            return Err(error.into());
        }
        Ok(TeamResponse::Sent { message, recipients })
    }

    /// Returns the recipients of a message. Returns an error if the recipient is unknown or inactive.
    fn recipients(&self, from: &str, to: &str) -> Result<Vec<String>, TeamError> {
        let lead = (!self.lead_done).then(|| LEAD.to_owned());
        let active = self.members.iter().filter(|member| member.is_active());
        let active: Vec<String> = lead.into_iter().chain(active.map(|m| m.name.clone())).collect();
        if to == BROADCAST {
            return Ok(active.into_iter().filter(|name| name != from).collect());
        }
        if active.iter().any(|name| name == to) {
            return Ok(vec![to.to_owned()]);
        }
        if to == LEAD || self.member(to).is_some() {
            return Err(TeamError::Inactive(to.to_owned()));
        }
        Err(TeamError::Unknown { name: to.to_owned(), known: active.join(", ") })
    }

    fn message(&mut self, from: String, to: String, content: String, at: Timestamp) -> TeamMessage {
        self.sent += 1;
        TeamMessage { id: format!("msg-{}", self.sent), from, to, content, at }
    }

    /// Removes and returns the unread messages of a participant.
    fn read(&mut self, by: &str) -> Result<TeamResponse, TeamError> {
        let Some(mail) = &mut self.mail else {
            return Ok(TeamResponse::Messages { messages: Vec::new(), left: 0 });
        };
        let messages = mail.read(by)?;
        if !messages.is_empty() {
            self.revision += 1;
        }
        Ok(TeamResponse::Messages { messages, left: self.unread_count(by) })
    }

    fn create(&mut self, new: NewBoardTask, now: Timestamp) -> Result<TeamResponse, TeamError> {
        check_text("title", &new.title, TITLE_BYTES_MAX)?;
        Ok(TeamResponse::Task { task: self.board.create(new, now)? })
    }
}

fn check_name(name: &str) -> Result<(), TeamError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(legal) || name == LEAD {
        return Err(TeamError::Name(first_chars(name, NAME_CHARS_MAX).to_owned()));
    }
    Ok(())
}

fn check_text(what: &'static str, text: &str, max: usize) -> Result<(), TeamError> {
    if text.trim().is_empty() {
        return Err(TeamError::Empty(what));
    }
    if text.len() > max {
        return Err(TeamError::TooLong { what, bytes: text.len(), max });
    }
    Ok(())
}

/// Returns the beginning of a text, at most `bytes_max` bytes as JSON, with a mark if something is omitted.
pub(super) fn cut_to_json_size(text: String, bytes_max: usize) -> String {
    const MARK: &str = " […]";
    if json_bytes(&text) <= bytes_max {
        return text;
    }
    let mut bytes = MARK.len() + 2;
    let mut kept = String::new();
    for c in text.chars() {
        bytes += json_bytes(&c) - 2;
        if bytes > bytes_max {
            break;
        }
        kept.push(c);
    }
    kept.push_str(MARK);
    kept
}
