//! Votes of an approval that needs several approvers or particular ones.
//!
//! Invariant: each principal has one vote, the first vote counts, one denial decides, and the vote of a principal who
//! is not an approver changes nothing.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::lifecycle::RequestError;
use crate::resource::{Approvers, is_same_principal};

/// Principal of calls from the terminal or from the same process.
pub const LOCAL_PRINCIPAL: &str = "local";

/// The votes on one approval request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalVotes {
    /// Rule that selects the approvers.
    pub approvers: Approvers,
    /// Principals who started the run. The rule can exclude them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requesters: Vec<String>,
    /// The votes so far, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
}

/// Vote of one principal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// The principal.
    pub by: String,
    /// True to approve, false to deny.
    pub approves: bool,
    /// Time of the vote.
    pub at: Timestamp,
}

/// Result of the votes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteResult {
    /// More approvals are needed.
    Pending,
    /// Enough approvers approved.
    Approved,
    /// An approver denied.
    Denied,
}

impl ApprovalVotes {
    /// Creates an approval without votes.
    pub fn new(approvers: Approvers, requesters: Vec<String>) -> Self {
        Self { approvers, requesters, votes: Vec::new() }
    }

    /// Records a vote and returns the result. An identical repetition changes nothing; a different vote of the same
    /// principal is an error.
    pub fn cast(
        &mut self,
        by: &str,
        approves: bool,
        at: Timestamp,
    ) -> Result<VoteResult, RequestError> {
        match self.vote_of(by) {
            Some(first) => first.check_repeat(approves)?,
            None => {
                self.check_voter(by)?;
                self.votes.push(Vote { by: by.to_owned(), approves, at });
            }
        }
        Ok(self.result())
    }

    /// Returns the vote of a principal. `None` if there is none.
    pub fn vote_of(&self, by: &str) -> Option<&Vote> {
        self.votes.iter().find(|vote| is_same_principal(&vote.by, by))
    }

    /// Returns the result of the votes so far.
    pub fn result(&self) -> VoteResult {
        match self.votes.iter().any(|vote| !vote.approves) {
            true => VoteResult::Denied,
            false if self.missing_approvals() == 0 => VoteResult::Approved,
            false => VoteResult::Pending,
        }
    }

    /// Returns the principals who approved.
    pub fn approved_by(&self) -> Vec<String> {
        let yes = self.votes.iter().filter(|vote| vote.approves);
        yes.map(|vote| vote.by.clone()).collect()
    }

    /// Returns the number of approvals that are still needed.
    pub fn missing_approvals(&self) -> u32 {
        let yes = self.votes.iter().filter(|vote| vote.approves).count();
        self.approvers.required.saturating_sub(u32::try_from(yes).unwrap_or(u32::MAX))
    }

    /// Returns the named approvers who can still vote. Empty if the rule names no approvers.
    pub fn pending_approvers(&self) -> Vec<&str> {
        let names = self.approvers.of.iter().map(String::as_str);
        names.filter(|name| !self.is_excluded(name) && self.vote_of(name).is_none()).collect()
    }

    /// Returns the reason why the approval cannot succeed, regardless of the votes, or `None` if it can. Such a
    /// request need not wait.
    pub fn unsatisfiable_reason(&self) -> Option<String> {
        let Approvers { required, of, exclude_requester: not_requester } = &self.approvers;
        if *not_requester && self.requesters.is_empty() {
            return Some(
                "an approver other than the requester of the run is required, and the requester is unknown"
                    .to_owned(),
            );
        }
        let able = of.iter().filter(|name| !self.is_excluded(name)).count();
        (!of.is_empty() && able < *required as usize).then(|| {
            format!(
                "approval by {required} of `{}` is required, not counting the requester of the run",
                of.join("`, `")
            )
        })
    }

    /// Returns an error if the principal may not vote.
    pub fn check_voter(&self, by: &str) -> Result<(), RequestError> {
        if by.trim().is_empty() || !self.approvers.includes(by) {
            return Err(RequestError::not_approver(by, &self.approvers.of));
        }
        if self.is_excluded(by) {
            return Err(RequestError::self_approval(by));
        }
        Ok(())
    }

    /// Returns true if the principal requested the approval and requesters may not vote.
    fn is_excluded(&self, name: &str) -> bool {
        self.approvers.exclude_requester
            && self.requesters.iter().any(|requester| is_same_principal(requester, name))
    }
}

impl Vote {
    /// Returns an error if a repeated vote differs from this one.
    pub fn check_repeat(&self, approves: bool) -> Result<(), RequestError> {
        if self.approves == approves {
            return Ok(());
        }
        Err(RequestError::VoteConflict {
            by: self.by.clone(),
            previous: if self.approves { "yes" } else { "no" },
        })
    }
}

#[cfg(test)]
mod tests;
