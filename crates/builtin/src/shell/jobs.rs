//! Commands in the background: what they wrote, whether they are over, and their end.

use provost_core::text::first_chars;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_sandbox::{Cause, Ended, Input, Running};
use provost_tool::{ToolCx, ToolError, ToolOutput};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::command_workspace::Room;
use crate::limits::{SHELL_JOB_OUTPUT_BYTES_MAX, SHELL_JOBS_KEPT_MAX, SHELL_JOBS_MAX};

/// The jobs of one set of tools. They end when nobody holds the set any more.
#[derive(Clone, Default)]
pub(super) struct Jobs(Arc<Inner>);

struct Inner {
    known: Mutex<Known>,
    room: Arc<Semaphore>,
}

impl Default for Inner {
    fn default() -> Self {
        Self { known: Mutex::default(), room: Arc::new(Semaphore::new(SHELL_JOBS_MAX)) }
    }
}

#[derive(Default)]
struct Known {
    jobs: BTreeMap<u64, Entry>,
    next: u64,
}

struct Entry {
    /// The conversation that it was started in; nobody else hears of it.
    owner: Option<ConversationKey>,
    state: Arc<Mutex<State>>,
    stop: CancellationToken,
    over: CancellationToken,
    _ends: DropGuard,
}

#[derive(Default)]
struct State {
    /// What was written and not read yet; of more than fits, the end.
    unread: Vec<u8>,
    lost: u64,
    ended: Option<Result<Ended, String>>,
}

/// Room for one more job. It is held from before its program is started until that is over.
pub(super) struct Place {
    jobs: Jobs,
    room: OwnedSemaphorePermit,
}

/// Names a conversation and who speaks in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConversationKey {
    namespace: String,
    id: String,
    principal: String,
}

impl ConversationKey {
    /// The conversation of a call, if it has one.
    pub(super) fn of(cx: &ToolCx) -> Option<Self> {
        let of = cx.conversation()?;
        Some(Self { namespace: of.namespace, id: of.id, principal: of.principal })
    }
}

impl Jobs {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for one more, if there is any.
    pub(super) fn place(&self) -> Option<Place> {
        let room = Arc::clone(&self.0.room).try_acquire_owned().ok()?;
        Some(Place { jobs: self.clone(), room })
    }

    /// What a job has written since it was last read.
    pub(super) fn read(&self, name: &str, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let state = match self.find(name, cx) {
            Some((state, ..)) => state,
            None => return Err(unknown(name)),
        };
        let mut state = locked(&state);
        let mut text = String::from_utf8_lossy(&std::mem::take(&mut state.unread)).into_owned();
        if let Some(redact) = cx.redactor() {
            redact.redact_string(&mut text);
        }
        let lost = std::mem::take(&mut state.lost);
        if lost > 0 {
            text = format!("[{lost} bytes before this were not read in time]\n{text}");
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&match &state.ended {
            None => "[it is under way]".to_owned(),
            Some(Ok(ended)) => match ended.cause {
                Cause::Exited => format!("[it ended with code {}]", ended.code),
                Cause::TimedOut => "[its time was over and it was ended]".to_owned(),
                Cause::Stopped => "[it was stopped]".to_owned(),
                Cause::Flooded => "[it wrote more than it may and was ended]".to_owned(),
            },
            Some(Err(why)) => format!("[{why}]"),
        });
        Ok(ToolOutput::text(text))
    }

    /// Ends a job and waits until it is over.
    pub(super) async fn stop(&self, name: &str, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let Some((_, stop, over)) = self.find(name, cx) else { return Err(unknown(name)) };
        stop.cancel();
        over.cancelled().await;
        Ok(ToolOutput::text(format!("Job {name} is over")))
    }

    fn find(
        &self,
        name: &str,
        cx: &ToolCx,
    ) -> Option<(Arc<Mutex<State>>, CancellationToken, CancellationToken)> {
        let number: u64 = name.strip_prefix("job-")?.parse().ok()?;
        let known = self.known();
        let job = known.jobs.get(&number).filter(|job| job.owner == ConversationKey::of(cx))?;
        Some((Arc::clone(&job.state), job.stop.clone(), job.over.clone()))
    }
}

impl Place {
    /// Takes a program that runs, and gives the name of its job.
    pub(super) fn take(
        self,
        owner: Option<ConversationKey>,
        running: Running,
        input: Input,
        room: Room,
    ) -> String {
        let Self { jobs, room: place } = self;
        let (stop, over) = (CancellationToken::new(), CancellationToken::new());
        let state = Arc::new(Mutex::new(State::default()));
        let (noted, heard, stopped, done) =
            (Arc::clone(&state), Arc::clone(&state), stop.clone(), over.clone());
        tokio::spawn(async move {
            let ended = running.drive(input, &stopped, |_, bytes| locked(&heard).add(bytes)).await;
            let kept = room.keep().await.map_err(|error| error.to_string());
            let ended = ended.map_err(|error| error.to_string());
            locked(&noted).ended = Some(ended.and_then(|ended| kept.map(|()| ended)));
            drop(place);
            done.cancel();
        });
        let mut known = jobs.known();
        known.next += 1;
        let number = known.next;
        let ends = stop.clone().drop_guard();
        known.jobs.insert(number, Entry { owner, state, stop, over, _ends: ends });
        // The oldest that are over make room.
        while known.jobs.len() > SHELL_JOBS_KEPT_MAX {
            let oldest =
                known.jobs.iter().find(|(_, job)| job.over.is_cancelled()).map(|(at, _)| *at);
            match oldest {
                Some(at) => drop(known.jobs.remove(&at)),
                None => break,
            }
        }
        format!("job-{number}")
    }
}

impl State {
    fn add(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        let excess = self.unread.len().saturating_sub(SHELL_JOB_OUTPUT_BYTES_MAX);
        self.unread.drain(..excess);
        self.lost += excess as u64;
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown(name: &str) -> ToolError {
    let shown = first_chars(name, 32);
    ToolError::Retry(format!("there is no job `{shown}`: use the name that shell gave"))
}
