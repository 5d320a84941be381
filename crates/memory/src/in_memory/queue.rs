//! The jobs and cursors of the store in memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use provost_core::Timestamp;

use crate::job::{Claim, Conversation, Cursor, Job, JobInfo, JobKey, Postponed, Said, fresh};
use crate::memory::Owner;
use crate::store::Forget;

#[derive(Debug, Default)]
pub(super) struct Queue {
    jobs: BTreeMap<u64, Waiting>,
    last: u64,
    cursors: HashMap<(Owner, String), Cursor>,
}

#[derive(Debug, Clone)]
struct Waiting {
    owner: Owner,
    session: String,
    messages: Vec<Said>,
    end: Cursor,
    attempt: u32,
    failures: u32,
    due: Timestamp,
    leased: bool,
    problem: Option<String>,
    given_up: bool,
    created_at: Timestamp,
}

impl Queue {
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
            .find(|job| !job.given_up && job.is_of(owner, &conversation.session));
        let cursor = queued.map(|job| &job.end).or_else(|| self.cursors.get(&key));
        let (messages, end) = fresh(&conversation, &cursor.cloned().unwrap_or_default())?;
        self.last += 1;
        let job = Waiting {
            owner: owner.clone(),
            session: conversation.session,
            messages,
            end,
            attempt: 0,
            failures: 0,
            due: now,
            leased: false,
            problem: None,
            given_up: false,
            created_at: now,
        };
        self.jobs.insert(self.last, job);
        Some(self.last)
    }

    pub(super) fn claim(&mut self, now: Timestamp, lease: Duration) -> Claim {
        let pending = self.jobs.values().filter(|job| !job.given_up).count() as u64;
        let mut claim = Claim { pending, ..Claim::default() };
        let mut owners = HashSet::new();
        for (number, job) in self.jobs.iter_mut().filter(|(_, job)| !job.given_up) {
            // Only the oldest job of an owner may be taken.
            if !owners.insert(job.owner.clone()) {
                continue;
            }
            if job.due > now {
                claim.next_due = Some(claim.next_due.map_or(job.due, |due| due.min(job.due)));
                continue;
            }
            job.attempt += 1;
            job.leased = true;
            job.due = now.after(lease);
            claim.job = Some(Job {
                key: JobKey { job: *number, attempt: job.attempt },
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

    pub(super) fn holds(&self, key: JobKey) -> bool {
        self.jobs.get(&key.job).is_some_and(|job| job.attempt == key.attempt && job.leased)
    }

    pub(super) fn holds_for(&self, owner: &Owner, key: JobKey) -> bool {
        self.holds(key) && self.jobs.get(&key.job).is_some_and(|job| job.owner == *owner)
    }

    pub(super) fn done(&mut self, key: JobKey) {
        if let Some(job) = self.jobs.remove(&key.job) {
            self.cursors.insert((job.owner, job.session), job.end);
        }
    }

    pub(super) fn postpone(&mut self, key: JobKey, postponed: Postponed) -> bool {
        if !self.holds(key) {
            return false;
        }
        let Some(job) = self.jobs.get_mut(&key.job) else {
            return false;
        };
        job.leased = false;
        job.failures += 1;
        job.given_up = postponed.until.is_none();
        job.due = postponed.until.unwrap_or_default();
        job.problem = Some(postponed.problem);
        if job.given_up {
            // Later messages must not wait for it, and it must not come back with them.
            self.cursors.insert((job.owner.clone(), job.session.clone()), job.end.clone());
        }
        true
    }

    pub(super) fn hurry(&mut self, now: Timestamp) {
        for job in self.jobs.values_mut().filter(|job| !job.leased && !job.given_up) {
            job.due = job.due.min(now);
        }
    }

    pub(super) fn infos(&self, owner: &Owner) -> Vec<JobInfo> {
        let jobs = self.jobs.iter().filter(|(_, job)| job.owner == *owner);
        jobs.map(|(number, job)| JobInfo {
            job: *number,
            session: job.session.clone(),
            created_at: job.created_at,
            failures: job.failures,
            problem: job.problem.clone(),
            given_up: job.given_up,
        })
        .collect()
    }

    /// Calls off what would bring back what is forgotten.
    pub(super) fn forget(&mut self, owner: &Owner, what: &Forget) {
        let mut ends = Vec::new();
        self.jobs.retain(|_, job| {
            let keeps = job.owner != *owner || job.keeps_after(what);
            if !keeps && !job.given_up {
                ends.push(((job.owner.clone(), job.session.clone()), job.end.clone()));
            }
            keeps
        });
        self.cursors.extend(ends);
    }
}

impl Waiting {
    fn is_of(&self, owner: &Owner, session: &str) -> bool {
        self.owner == *owner && self.session == session
    }

    /// Takes out what is forgotten; false if nothing is left to do.
    fn keeps_after(&mut self, what: &Forget) -> bool {
        match what {
            Forget::Memory(_) => true,
            Forget::Everything => false,
            Forget::Session(session) => self.session != *session,
            Forget::Message(source) if self.session == source.session => {
                let before = self.messages.len();
                self.messages.retain(|said| said.digest != source.message);
                if self.messages.len() < before {
                    // Whoever is at it has seen the message: the attempt must fail.
                    self.attempt += 1;
                    self.leased = false;
                    self.due = self.created_at;
                }
                !self.messages.is_empty()
            }
            Forget::Message(_) => true,
        }
    }
}
