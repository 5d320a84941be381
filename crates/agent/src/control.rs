//! Control of a live run: messages, decisions, pause and cancel.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use provost_core::usage::limits::RUN_MESSAGES_PENDING_MAX;
use provost_core::{ApprovalDecision, ApprovalId, ContentPart, Document, Image, RunId};
use tokio_util::sync::CancellationToken;

use crate::watched::Watched;

/// Error of a request to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RunHandleError {
    /// The run has ended, was cancelled or accepts no more messages.
    #[error("the run has ended")]
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
    /// Returns the text of all parts, without separators.
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

    /// Returns the id of the run.
    pub fn run_id(&self) -> RunId {
        self.run_id
    }

    /// Adds a message that the model receives before its next call. Returns an error if the run accepts no more
    /// messages or too many wait.
    pub fn steer(&self, input: impl Into<UserInput>) -> Result<(), RunHandleError> {
        self.control.enqueue(input.into(), |state| &mut state.steer)
    }

    /// Adds a message that the model receives once it has finished its current work. Returns an error if the run
    /// accepts no more messages or too many wait.
    pub fn follow_up(&self, input: impl Into<UserInput>) -> Result<(), RunHandleError> {
        self.control.enqueue(input.into(), |state| &mut state.follow_up)
    }

    /// Pauses the run at its next safe point: between model calls and tool rounds.
    pub fn pause(&self) {
        self.control.state.update(|state| state.paused = true);
    }

    /// Resumes a paused run.
    pub fn resume(&self) {
        self.control.state.update(|state| state.paused = false);
    }

    /// Decides an approval that the run waits for. A later decision about the same approval is ignored. Returns an
    /// error if the run has ended or does not wait for the approval.
    pub fn decide(&self, id: ApprovalId, decision: ApprovalDecision) -> Result<(), RunHandleError> {
        self.control.state.update(|state| {
            // A run that accepts no more messages may still wait for children that need an approval.
            if state.ended {
                return Err(RunHandleError::RunEnded);
            }
            let answer = state.approvals.get_mut(&id).ok_or(RunHandleError::NoSuchApproval)?;
            answer.get_or_insert(decision);
            Ok(())
        })
    }

    /// Cancels the run: the model call and all tool calls end, and the conversation stays valid.
    pub fn cancel(&self) {
        self.control.cancel.cancel();
    }
}

/// The driver's side of a [`RunHandle`]: messages, approvals, pause and cancellation.
#[derive(Default)]
pub(crate) struct RunControl {
    state: Watched<ControlState>,
    pub(crate) cancel: CancellationToken,
}

/// State that the handles and the driver of a run share.
#[derive(Default)]
struct ControlState {
    steer: VecDeque<UserInput>,
    follow_up: VecDeque<UserInput>,
    /// Requested approvals and their first decisions.
    approvals: HashMap<ApprovalId, Option<ApprovalDecision>>,
    paused: bool,
    /// No more messages are accepted.
    closed: bool,
    /// The run has ended. Approvals are no longer decided.
    ended: bool,
}

impl RunControl {
    pub(crate) fn new(cancel: CancellationToken) -> Self {
        Self { cancel, ..Self::default() }
    }

    /// Adds a message to a queue. Returns an error if the run accepts no more messages or the queue is full.
    fn enqueue(
        &self,
        input: UserInput,
        queue: impl FnOnce(&mut ControlState) -> &mut VecDeque<UserInput>,
    ) -> Result<(), RunHandleError> {
        let mut state = self.state.lock();
        // A cancelled run does not respond to messages.
        if state.closed || self.cancel.is_cancelled() {
            return Err(RunHandleError::RunEnded);
        }
        let queue = queue(&mut state);
        if queue.len() >= RUN_MESSAGES_PENDING_MAX {
            return Err(RunHandleError::QueueFull);
        }
        queue.push_back(input);
        Ok(())
    }

    /// Removes and returns the next message for the next model call. `None` if there is none.
    pub(crate) fn take_steering(&self) -> Option<UserInput> {
        self.state.lock().steer.pop_front()
    }

    /// Removes and returns the next message for a run that has finished its work: steering messages first, then
    /// follow-ups. `None` if there is none; the run then accepts no more messages.
    pub(crate) fn take_follow_up_or_close(&self) -> Option<UserInput> {
        let mut state = self.state.lock();
        let next = state.steer.pop_front().or_else(|| state.follow_up.pop_front());
        state.closed = next.is_none();
        next
    }

    /// Ends the control: rejects further messages and denies open approvals. Returns the number of accepted messages
    /// that get no response.
    pub(crate) fn close(&self) -> usize {
        self.state.update(|state| {
            state.closed = true;
            state.ended = true;
            state.steer.len() + state.follow_up.len()
        })
    }

    /// Returns true if the run is paused, or pauses at its next safe point.
    pub(crate) fn is_paused(&self) -> bool {
        self.state.lock().paused
    }

    /// Waits while the run is paused. Returns at once if it is not paused.
    pub(crate) async fn wait_until_unpaused(&self) {
        self.state.wait(|state| (!state.paused).then_some(())).await;
    }

    /// Registers an approval, so that it can be decided. Must be called before the request is emitted.
    pub(crate) fn expect_decision(&self, id: ApprovalId) {
        self.state.lock().approvals.insert(id, None);
    }

    /// Waits for the decision about an approval. If the run ends first, returns a denial.
    pub(crate) async fn decision(&self, id: ApprovalId) -> ApprovalDecision {
        let no_approver = || ApprovalDecision::Deny { reason: "no approver was left".to_owned() };
        let answer = |state: &mut ControlState| {
            let answer = state.approvals.get(&id).cloned().flatten();
            answer.or_else(|| state.ended.then(no_approver))
        };
        self.state.wait(answer).await
    }
}
