//! Control of a live run: messages, decisions, pause and cancel.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use provost_core::usage::limits::RUN_MESSAGES_PENDING_MAX;
use provost_core::{ApprovalDecision, ApprovalId, ContentPart, Document, Image, RunId};
use tokio_util::sync::CancellationToken;

use crate::watched::Watched;

/// A request that a live run rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RunHandleError {
    /// The run has ended.
    #[error("the run is over")]
    RunEnded,
    /// The run does not wait for this approval.
    #[error("the run does not wait for this decision")]
    NoSuchApproval,
    /// The input queue is full.
    #[error("the run already has {RUN_MESSAGES_PENDING_MAX} messages waiting: send fewer, or wait")]
    QueueFull,
}

/// A user's input: text, or any parts of a message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UserInput(pub Vec<ContentPart>);

/// Converts a value that is one part into an input.
macro_rules! one_part {
    ($($from:ty),+) => {$(
        impl From<$from> for UserInput {
            fn from(part: $from) -> Self {
                Self(vec![part.into()])
            }
        }
    )+};
}

one_part!(&str, String, ContentPart, Image, Document);

impl From<&String> for UserInput {
    fn from(text: &String) -> Self {
        Self(vec![ContentPart::text(text)])
    }
}

impl From<Vec<ContentPart>> for UserInput {
    fn from(parts: Vec<ContentPart>) -> Self {
        Self(parts)
    }
}

impl UserInput {
    /// The text of all parts.
    pub fn text(&self) -> String {
        self.0.iter().filter_map(ContentPart::as_text).collect()
    }
}

/// A handle to a live run. It can be used from any task. Clones refer to the same run.
#[derive(Clone)]
pub struct RunHandle {
    run_id: RunId,
    control: Arc<RunControl>,
}

impl RunHandle {
    pub(crate) fn new(run_id: RunId, control: Arc<RunControl>) -> Self {
        Self { run_id, control }
    }

    /// The id of the run.
    pub fn run_id(&self) -> RunId {
        self.run_id
    }

    /// Adds a message that the model receives before its next call.
    pub fn steer(&self, input: impl Into<UserInput>) -> Result<(), RunHandleError> {
        self.control.put(input.into(), |inbox| &mut inbox.steer)
    }

    /// Adds a message that the model receives once it has finished its current work.
    pub fn follow_up(&self, input: impl Into<UserInput>) -> Result<(), RunHandleError> {
        self.control.put(input.into(), |inbox| &mut inbox.follow_up)
    }

    /// Pauses the run at its next safe point: between model calls and tool rounds.
    pub fn pause(&self) {
        self.control.inbox.update(|inbox| inbox.paused = true);
    }

    /// Resumes a paused run.
    pub fn resume(&self) {
        self.control.inbox.update(|inbox| inbox.paused = false);
    }

    /// Decides an approval that the run waits for. Later decisions about the same approval are ignored.
    pub fn decide(&self, id: ApprovalId, decision: ApprovalDecision) -> Result<(), RunHandleError> {
        self.control.inbox.update(|inbox| {
            // A run that accepts no more messages may still wait for children that need an approval.
            if inbox.over {
                return Err(RunHandleError::RunEnded);
            }
            let answer = inbox.questions.get_mut(&id).ok_or(RunHandleError::NoSuchApproval)?;
            answer.get_or_insert(decision);
            Ok(())
        })
    }

    /// Cancels the run: the model call and all tool calls end, and the conversation stays valid.
    pub fn cancel(&self) {
        self.control.cancel.cancel();
    }
}

/// The driver's side of a [`RunHandle`].
#[derive(Default)]
pub(crate) struct RunControl {
    inbox: Watched<InputQueues>,
    pub(crate) cancel: CancellationToken,
}

#[derive(Default)]
struct InputQueues {
    steer: VecDeque<UserInput>,
    follow_up: VecDeque<UserInput>,
    /// Requested approvals and their first decisions.
    questions: HashMap<ApprovalId, Option<ApprovalDecision>>,
    paused: bool,
    /// No more messages are accepted.
    closed: bool,
    /// The run has ended, and its events have no reader.
    over: bool,
}

impl RunControl {
    pub(crate) fn new(cancel: CancellationToken) -> Self {
        Self { cancel, ..Self::default() }
    }

    fn put(
        &self,
        input: UserInput,
        queue: impl FnOnce(&mut InputQueues) -> &mut VecDeque<UserInput>,
    ) -> Result<(), RunHandleError> {
        let mut inbox = self.inbox.lock();
        // A cancelled run does not respond to messages.
        if inbox.closed || self.cancel.is_cancelled() {
            return Err(RunHandleError::RunEnded);
        }
        let queue = queue(&mut inbox);
        if queue.len() >= RUN_MESSAGES_PENDING_MAX {
            return Err(RunHandleError::QueueFull);
        }
        queue.push_back(input);
        Ok(())
    }

    /// Takes the next message for the next model call.
    pub(crate) fn take_steering(&self) -> Option<UserInput> {
        self.inbox.lock().steer.pop_front()
    }

    /// Takes the next message for after the run's own end: late steering messages first, then follow-ups, one at a
    /// time. If there is none, the queue closes, so that no message is accepted and then lost.
    pub(crate) fn take_follow_up_or_close(&self) -> Option<UserInput> {
        let mut inbox = self.inbox.lock();
        let next = inbox.steer.pop_front().or_else(|| inbox.follow_up.pop_front());
        inbox.closed = next.is_none();
        next
    }

    /// Closes the queue. Returns the number of accepted messages that get no response.
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

    /// Registers an approval. Must be called before the request is emitted.
    pub(crate) fn expect_decision(&self, id: ApprovalId) {
        self.inbox.lock().questions.insert(id, None);
    }

    /// Waits for the decision about an approval. If the run ends first, the result is a denial.
    pub(crate) async fn decision(&self, id: ApprovalId) -> ApprovalDecision {
        let unasked = || ApprovalDecision::Deny { reason: "no approver was left".to_owned() };
        let answer = |inbox: &mut InputQueues| {
            let answer = inbox.questions.get(&id).cloned().flatten();
            answer.or_else(|| inbox.over.then(unasked))
        };
        self.inbox.wait(answer).await
    }
}
