//! Steering a live run.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use provost_core::usage::limits::INBOX_MESSAGES_MAX;
use provost_core::{ApprovalDecision, ApprovalId, Document, Image, Part, RunId};
use tokio_util::sync::CancellationToken;

use crate::watched::Watched;

/// Why a live run did not take something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// It is over.
    #[error("the run is over")]
    Ended,
    /// It does not wait for this decision.
    #[error("the run does not wait for this decision")]
    NotAsked,
    /// Too much waits already.
    #[error("the run already has {INBOX_MESSAGES_MAX} messages waiting: send fewer, or wait")]
    Full,
}

/// What a user says: text, or any parts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UserInput(pub Vec<Part>);

/// Everything that is one part is a whole input.
macro_rules! one_part {
    ($($from:ty),+) => {$(
        impl From<$from> for UserInput {
            fn from(part: $from) -> Self {
                Self(vec![part.into()])
            }
        }
    )+};
}

one_part!(&str, String, Part, Image, Document);

impl From<&String> for UserInput {
    fn from(text: &String) -> Self {
        Self(vec![Part::text(text)])
    }
}

impl From<Vec<Part>> for UserInput {
    fn from(parts: Vec<Part>) -> Self {
        Self(parts)
    }
}

impl UserInput {
    /// The text in it.
    pub fn text(&self) -> String {
        self.0.iter().filter_map(Part::as_text).collect()
    }
}

/// A way to a live run, from anywhere. Clones reach the same run.
#[derive(Clone)]
pub struct RunHandle {
    run_id: RunId,
    control: Arc<Control>,
}

impl RunHandle {
    pub(crate) fn new(run_id: RunId, control: Arc<Control>) -> Self {
        Self { run_id, control }
    }

    /// The run.
    pub fn run_id(&self) -> RunId {
        self.run_id
    }

    /// Says something that the model sees before its next call.
    pub fn steer(&self, input: impl Into<UserInput>) -> Result<(), HandleError> {
        self.control.put(input.into(), |inbox| &mut inbox.steer)
    }

    /// Says something that the model sees once it is done with what it does now.
    pub fn follow_up(&self, input: impl Into<UserInput>) -> Result<(), HandleError> {
        self.control.put(input.into(), |inbox| &mut inbox.follow_up)
    }

    /// Makes the run wait at its next safe point: between model calls and rounds of tools.
    pub fn pause(&self) {
        self.control.inbox.update(|inbox| inbox.paused = true);
    }

    /// Lets a paused run go on.
    pub fn unpause(&self) {
        self.control.inbox.update(|inbox| inbox.paused = false);
    }

    /// Answers a question of the run. The first answer counts.
    pub fn decide(&self, id: ApprovalId, decision: ApprovalDecision) -> Result<(), HandleError> {
        self.control.inbox.update(|inbox| {
            // A run that accepts no more messages may still wait for children that wait for a decision.
            if inbox.over {
                return Err(HandleError::Ended);
            }
            let answer = inbox.questions.get_mut(&id).ok_or(HandleError::NotAsked)?;
            answer.get_or_insert(decision);
            Ok(())
        })
    }

    /// Stops the run: the model call and all tools end, and the conversation stays valid.
    pub fn cancel(&self) {
        self.control.cancel.cancel();
    }
}

/// The driver's side of a handle.
#[derive(Default)]
pub(crate) struct Control {
    inbox: Watched<Inbox>,
    pub(crate) cancel: CancellationToken,
}

#[derive(Default)]
struct Inbox {
    steer: VecDeque<UserInput>,
    follow_up: VecDeque<UserInput>,
    /// Questions that were asked, with their first answer.
    questions: HashMap<ApprovalId, Option<ApprovalDecision>>,
    paused: bool,
    /// No more messages are taken.
    closed: bool,
    /// Nobody reads the events any more.
    over: bool,
}

impl Control {
    pub(crate) fn new(cancel: CancellationToken) -> Self {
        Self { cancel, ..Self::default() }
    }

    fn put(
        &self,
        input: UserInput,
        queue: impl FnOnce(&mut Inbox) -> &mut VecDeque<UserInput>,
    ) -> Result<(), HandleError> {
        let mut inbox = self.inbox.lock();
        // A run that was told to stop answers nobody any more.
        if inbox.closed || self.cancel.is_cancelled() {
            return Err(HandleError::Ended);
        }
        let queue = queue(&mut inbox);
        if queue.len() >= INBOX_MESSAGES_MAX {
            return Err(HandleError::Full);
        }
        queue.push_back(input);
        Ok(())
    }

    /// The next thing said for the next model call.
    pub(crate) fn take_steering(&self) -> Option<UserInput> {
        self.inbox.lock().steer.pop_front()
    }

    /// What comes after the run's own end: what was said too late to steer, then follow-ups, one at a time.
    /// With nothing left the inbox closes, so that no message can be accepted and then lost.
    pub(crate) fn take_follow_up_or_close(&self) -> Option<UserInput> {
        let mut inbox = self.inbox.lock();
        let next = inbox.steer.pop_front().or_else(|| inbox.follow_up.pop_front());
        inbox.closed = next.is_none();
        next
    }

    /// Takes nothing more; tells how many accepted messages nobody will answer.
    pub(crate) fn close(&self) -> usize {
        self.inbox.update(|inbox| {
            inbox.closed = true;
            inbox.over = true;
            inbox.steer.len() + inbox.follow_up.len()
        })
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.inbox.lock().paused
    }

    /// Waits while the run is paused.
    pub(crate) async fn unpaused(&self) {
        self.inbox.wait(|inbox| (!inbox.paused).then_some(())).await;
    }

    /// Lets a question be answered; to be called before anybody is told of it.
    pub(crate) fn expect_decision(&self, id: ApprovalId) {
        self.inbox.lock().questions.insert(id, None);
    }

    /// Waits for the answer to a question; it is no, where the run whose events tell of it ended first.
    pub(crate) async fn decision(&self, id: ApprovalId) -> ApprovalDecision {
        let unasked = || ApprovalDecision::Deny { reason: "nobody was left to ask".to_owned() };
        let answer = |inbox: &mut Inbox| {
            let answer = inbox.questions.get(&id).cloned().flatten();
            answer.or_else(|| inbox.over.then(unasked))
        };
        self.inbox.wait(answer).await
    }
}
