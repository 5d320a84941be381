//! Background jobs: their output, status and end.

use parking_lot::Mutex;
use provost_core::text::first_chars;
use std::collections::BTreeMap;
use std::sync::Arc;

use provost_sandbox::{ExitInfo, ExitReason, SandboxedProcess, Stdin};
use provost_tool::{ToolContext, ToolError, ToolOutput};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::command_workspace::CommandWorkspace;
use crate::limits::{SHELL_JOB_OUTPUT_BYTES_MAX, SHELL_JOBS_KEPT_MAX, SHELL_JOBS_MAX};

/// The background jobs of one set of tools. Dropping the set ends the jobs.
#[derive(Clone, Default)]
pub(super) struct BackgroundJobs(Arc<JobsInner>);

/// Slots and jobs that the clones share.
struct JobsInner {
    table: Mutex<JobTable>,
    slots: Arc<Semaphore>,
}

impl Default for JobsInner {
    fn default() -> Self {
        Self { table: Mutex::default(), slots: Arc::new(Semaphore::new(SHELL_JOBS_MAX)) }
    }
}

/// Jobs by number.
#[derive(Default)]
struct JobTable {
    jobs: BTreeMap<u64, JobEntry>,
    next: u64,
}

/// A job with its owner, its state, and the tokens to stop it and to wait for its end.
struct JobEntry {
    /// Conversation that started the job. The job is visible only there.
    owner: Option<ConversationKey>,
    state: Arc<Mutex<JobState>>,
    stop: CancellationToken,
    finished: CancellationToken,
    _cancel_on_drop: DropGuard,
}

/// Unread output and result of a job.
#[derive(Default)]
struct JobState {
    /// Unread output. If it exceeds the limit, only its end.
    unread: Vec<u8>,
    discarded: u64,
    ended: Option<Result<ExitInfo, String>>,
}

/// A reserved slot for one job. It is held until the job has finished.
pub(super) struct JobSlot {
    jobs: BackgroundJobs,
    permit: OwnedSemaphorePermit,
}

/// Identifies a conversation and its principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConversationKey {
    namespace: String,
    id: String,
    principal: String,
}

impl ConversationKey {
    /// Returns the conversation of a call. `None` if it has none.
    pub(super) fn of(cx: &ToolContext) -> Option<Self> {
        let of = cx.conversation()?;
        Some(Self { namespace: of.namespace, id: of.id, principal: of.principal })
    }
}

impl BackgroundJobs {
    /// Reserves a slot. `None` if the maximum number of jobs is running.
    pub(super) fn reserve_slot(&self) -> Option<JobSlot> {
        let permit = Arc::clone(&self.0.slots).try_acquire_owned().ok()?;
        Some(JobSlot { jobs: self.clone(), permit })
    }

    /// Returns the output of a job since the last read, and its status. Removes the output. Returns an error if the
    /// conversation has no such job.
    pub(super) fn read(&self, name: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let state = match self.find(name, cx) {
            Some((state, ..)) => state,
            None => return Err(unknown_job(name)),
        };
        let mut state = state.lock();
        let mut text = String::from_utf8_lossy(&std::mem::take(&mut state.unread)).into_owned();
        if let Some(redact) = cx.redactor() {
            redact.redact_string(&mut text);
        }
        let discarded = std::mem::take(&mut state.discarded);
        if discarded > 0 {
            text = format!("[{discarded} earlier bytes were discarded]\n{text}");
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&match &state.ended {
            None => "[running]".to_owned(),
            Some(Ok(ended)) => match ended.reason {
                ExitReason::Exited => format!("[exited with code {}]", ended.code),
                ExitReason::TimedOut => "[timed out and was killed]".to_owned(),
                ExitReason::Cancelled => "[stopped]".to_owned(),
                ExitReason::OutputLimit => "[output limit exceeded; killed]".to_owned(),
            },
            Some(Err(reason)) => format!("[{reason}]"),
        });
        Ok(ToolOutput::text(text))
    }

    /// Ends a job and waits until it has finished. Returns an error if the conversation has no such job.
    pub(super) async fn stop(&self, name: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Some((_, stop, finished)) = self.find(name, cx) else { return Err(unknown_job(name)) };
        stop.cancel();
        finished.cancelled().await;
        Ok(ToolOutput::text(format!("Job {name} has ended")))
    }

    /// Returns the state of a job, and the tokens to stop it and to wait for its end. `None` if it does not exist or
    /// belongs to another conversation.
    fn find(
        &self,
        name: &str,
        cx: &ToolContext,
    ) -> Option<(Arc<Mutex<JobState>>, CancellationToken, CancellationToken)> {
        let number: u64 = name.strip_prefix("job-")?.parse().ok()?;
        let table = self.0.table.lock();
        let job = table.jobs.get(&number).filter(|job| job.owner == ConversationKey::of(cx))?;
        Some((Arc::clone(&job.state), job.stop.clone(), job.finished.clone()))
    }
}

impl JobSlot {
    /// Adds a running program to the table, and starts a task that collects its output and saves its workspace. Returns
    /// the name of the job.
    pub(super) fn start_job(
        self,
        owner: Option<ConversationKey>,
        running: SandboxedProcess,
        input: Stdin,
        workspace: CommandWorkspace,
    ) -> String {
        let Self { jobs, permit } = self;
        let (stop, finished) = (CancellationToken::new(), CancellationToken::new());
        let state = Arc::new(Mutex::new(JobState::default()));
        let (result, output, cancelled, done) =
            (Arc::clone(&state), Arc::clone(&state), stop.clone(), finished.clone());
        tokio::spawn(async move {
            let ended = running
                .wait_with_output(input, &cancelled, |_, bytes| output.lock().add(bytes))
                .await;
            let saved = workspace.save().await.map_err(|error| error.to_string());
            let ended = ended.map_err(|error| error.to_string());
            result.lock().ended = Some(ended.and_then(|ended| saved.map(|()| ended)));
            drop(permit);
            done.cancel();
        });
        let mut table = jobs.0.table.lock();
        table.next += 1;
        let number = table.next;
        let ends = stop.clone().drop_guard();
        table.jobs.insert(number, JobEntry { owner, state, stop, finished, _cancel_on_drop: ends });
        // Removes the oldest finished jobs.
        while table.jobs.len() > SHELL_JOBS_KEPT_MAX {
            let oldest =
                table.jobs.iter().find(|(_, job)| job.finished.is_cancelled()).map(|(at, _)| *at);
            match oldest {
                Some(at) => drop(table.jobs.remove(&at)),
                None => break,
            }
        }
        format!("job-{number}")
    }
}

impl JobState {
    /// Appends output, and discards the oldest bytes beyond the limit.
    fn add(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        let excess = self.unread.len().saturating_sub(SHELL_JOB_OUTPUT_BYTES_MAX);
        self.unread.drain(..excess);
        self.discarded += excess as u64;
    }
}

/// Creates the error for a name without a job.
fn unknown_job(name: &str) -> ToolError {
    let shown = first_chars(name, 32);
    ToolError::Retry(format!("there is no job `{shown}`: use the name that shell returned"))
}
