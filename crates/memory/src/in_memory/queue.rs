//! Extraction jobs and read cursors of the in-memory store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use provost_core::Timestamp;

use crate::job::{
    ClaimResult, Conversation, ConversationMessage, ExtractionJob, JobClaim, JobRetry, JobStatus,
    ReadCursor, new_messages_since,
};
use crate::memory::Owner;
use crate::store::DeleteScope;

/// The extraction jobs of all owners, and how far each session was read.
#[derive(Debug, Default)]
pub(super) struct JobQueue {
    jobs: BTreeMap<u64, QueuedJob>,
    last_number: u64,
    cursors: HashMap<(Owner, String), ReadCursor>,
}

/// A queued extraction job.
#[derive(Debug, Clone)]
struct QueuedJob {
    owner: Owner,
    session: String,
    messages: Vec<ConversationMessage>,
    /// Read position of the session after this job.
    end: ReadCursor,
    attempt: u32,
    failures: u32,
    due: Timestamp,
    is_leased: bool,
    last_error: Option<String>,
    is_given_up: bool,
    created_at: Timestamp,
}

impl JobQueue {
    /// Adds a job for the messages that were neither extracted nor queued before, and returns its number. `None` if
    /// there is no new message of the user.
    pub(super) fn enqueue(
        &mut self,
        owner: &Owner,
        conversation: Conversation,
        now: Timestamp,
    ) -> Option<u64> {
        let key = (owner.clone(), conversation.session.clone());
        let queued = self
            .jobs
            .values()
            .rev()
            .find(|job| !job.is_given_up && job.belongs_to(owner, &conversation.session));
        let cursor = queued.map(|job| &job.end).or_else(|| self.cursors.get(&key));
        let (messages, end) =
            new_messages_since(&conversation, &cursor.cloned().unwrap_or_default())?;
        self.last_number += 1;
        let job = QueuedJob {
            owner: owner.clone(),
            session: conversation.session,
            messages,
            end,
            attempt: 0,
            failures: 0,
            due: now,
            is_leased: false,
            last_error: None,
            is_given_up: false,
            created_at: now,
        };
        self.jobs.insert(self.last_number, job);
        Some(self.last_number)
    }

    /// Claims the oldest due job until the lease ends. The result has no job if none is due, and then the time of the
    /// next one.
    pub(super) fn claim(&mut self, now: Timestamp, lease: Duration) -> ClaimResult {
        let pending = self.jobs.values().filter(|job| !job.is_given_up).count() as u64;
        let mut claim = ClaimResult { pending, ..ClaimResult::default() };
        let mut owners = HashSet::new();
        for (number, job) in self.jobs.iter_mut().filter(|(_, job)| !job.is_given_up) {
            // Only the oldest job of each owner can be claimed.
            if !owners.insert(job.owner.clone()) {
                continue;
            }
            if job.due > now {
                claim.next_due = Some(claim.next_due.map_or(job.due, |due| due.min(job.due)));
                continue;
            }
            job.attempt += 1;
            job.is_leased = true;
            job.due = now.after(lease);
            claim.job = Some(ExtractionJob {
                claim: JobClaim { job: *number, attempt: job.attempt },
                owner: job.owner.clone(),
                session: job.session.clone(),
                messages: job.messages.clone(),
                failures: job.failures,
            });
            claim.next_due = None;
            break;
        }
        claim
    }

    /// Returns true if the claim is the current one of its job.
    fn is_claimed(&self, claim: JobClaim) -> bool {
        let is_current = |job: &QueuedJob| job.attempt == claim.attempt && job.is_leased;
        self.jobs.get(&claim.job).is_some_and(is_current)
    }

    /// Returns true if the claim is the current one of a job of this owner.
    pub(super) fn is_claimed_by(&self, owner: &Owner, claim: JobClaim) -> bool {
        self.is_claimed(claim) && self.jobs.get(&claim.job).is_some_and(|job| job.owner == *owner)
    }

    /// Removes a claimed job and advances the cursor of its session.
    pub(super) fn finish(&mut self, claim: JobClaim) {
        if let Some(job) = self.jobs.remove(&claim.job) {
            self.cursors.insert((job.owner, job.session), job.end);
        }
    }

    /// Releases a failed job until its next attempt, or gives it up. Returns false if the claim was lost.
    pub(super) fn schedule_retry(&mut self, claim: JobClaim, retry: JobRetry) -> bool {
        if !self.is_claimed(claim) {
            return false;
        }
        let Some(job) = self.jobs.get_mut(&claim.job) else {
            return false;
        };
        job.is_leased = false;
        job.failures += 1;
        job.is_given_up = retry.retry_at.is_none();
        job.due = retry.retry_at.unwrap_or_default();
        job.last_error = Some(retry.error);
        if job.is_given_up {
            // The session continues without the messages of the abandoned job.
            self.cursors.insert((job.owner.clone(), job.session.clone()), job.end.clone());
        }
        true
    }

    /// Makes all jobs due now that wait for a retry.
    pub(super) fn make_due(&mut self, now: Timestamp) {
        for job in self.jobs.values_mut().filter(|job| !job.is_leased && !job.is_given_up) {
            job.due = job.due.min(now);
        }
    }

    /// Returns the jobs of an owner, oldest first.
    pub(super) fn statuses(&self, owner: &Owner) -> Vec<JobStatus> {
        let jobs = self.jobs.iter().filter(|(_, job)| job.owner == *owner);
        jobs.map(|(number, job)| JobStatus {
            job: *number,
            session: job.session.clone(),
            created_at: job.created_at,
            failures: job.failures,
            last_error: job.last_error.clone(),
            is_given_up: job.is_given_up,
        })
        .collect()
    }

    /// Deletes the jobs and messages that would restore deleted memories. The cursors advance past them.
    pub(super) fn delete(&mut self, owner: &Owner, scope: &DeleteScope) {
        let mut ends = Vec::new();
        self.jobs.retain(|_, job| {
            let remains = job.owner != *owner || job.retain_after(scope);
            if !remains && !job.is_given_up {
                ends.push(((job.owner.clone(), job.session.clone()), job.end.clone()));
            }
            remains
        });
        self.cursors.extend(ends);
    }
}

impl QueuedJob {
    /// Returns true if the job is for this session of this owner.
    fn belongs_to(&self, owner: &Owner, session: &str) -> bool {
        self.owner == *owner && self.session == session
    }

    /// Removes the messages that a deletion covers. Returns false if the whole job must be deleted.
    fn retain_after(&mut self, scope: &DeleteScope) -> bool {
        match scope {
            DeleteScope::Memory(_) => true,
            DeleteScope::Everything => false,
            DeleteScope::Session(session) => self.session != *session,
            DeleteScope::Message(source) if self.session == source.session => {
                let before = self.messages.len();
                self.messages.retain(|message| message.digest != source.message);
                if self.messages.len() < before {
                    // A running attempt has read the message, so its claim must fail.
                    self.attempt += 1;
                    self.is_leased = false;
                    self.due = self.created_at;
                }
                !self.messages.is_empty()
            }
            DeleteScope::Message(_) => true,
        }
    }
}
