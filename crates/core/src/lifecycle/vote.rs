//! A question that several people, or certain ones, decide: who counts, who has said what, and when it is settled.
//!
//! Invariant: everybody counts once and by their first word, one no settles it, and whoever does not count changes nothing.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::lifecycle::WorkError;
use crate::resource::{Approvers, is_same_principal};

/// The name of whoever has the database open themselves: at the terminal, or by a call inside the process.
pub const LOCAL_PRINCIPAL: &str = "local";

/// A question that several people, or certain ones, decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    /// Whose approval counts.
    pub approvers: Approvers,
    /// Who started the run: they do not count where the rule says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requesters: Vec<String>,
    /// What was said so far, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<CastVote>,
}

/// What one person said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CastVote {
    /// Who.
    pub by: String,
    /// Yes or no.
    pub approves: bool,
    /// When.
    pub at: Timestamp,
}

/// Where a ballot stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll {
    /// Some are missing.
    Open,
    /// Enough said yes.
    Approved,
    /// Somebody said no.
    Denied,
}

impl Ballot {
    /// A ballot that nobody has voted in.
    pub fn new(approvers: Approvers, requesters: Vec<String>) -> Self {
        Self { approvers, requesters, votes: Vec::new() }
    }

    /// Takes in what somebody says. Saying the same again changes nothing; saying something else is refused.
    pub fn cast(&mut self, by: &str, approves: bool, at: Timestamp) -> Result<Poll, WorkError> {
        match self.vote_of(by) {
            Some(first) => first.check_same(approves)?,
            None => {
                self.check(by)?;
                self.votes.push(CastVote { by: by.to_owned(), approves, at });
            }
        }
        Ok(self.poll())
    }

    /// What somebody said.
    pub fn vote_of(&self, by: &str) -> Option<&CastVote> {
        self.votes.iter().find(|vote| is_same_principal(&vote.by, by))
    }

    /// Where it stands.
    pub fn poll(&self) -> Poll {
        match self.votes.iter().any(|vote| !vote.approves) {
            true => Poll::Denied,
            false if self.missing() == 0 => Poll::Approved,
            false => Poll::Open,
        }
    }

    /// Who has said yes.
    pub fn yes(&self) -> Vec<String> {
        let yes = self.votes.iter().filter(|vote| vote.approves);
        yes.map(|vote| vote.by.clone()).collect()
    }

    /// How many more must say yes.
    pub fn missing(&self) -> u32 {
        let yes = self.votes.iter().filter(|vote| vote.approves).count();
        self.approvers.required.saturating_sub(u32::try_from(yes).unwrap_or(u32::MAX))
    }

    /// Those whom the rule names, who count and have said nothing yet; nobody, if it names nobody.
    pub fn awaited(&self) -> Vec<&str> {
        let names = self.approvers.of.iter().map(String::as_str);
        names.filter(|name| !self.is_excluded(name) && self.vote_of(name).is_none()).collect()
    }

    /// Why it cannot come to a yes, whoever votes. Such a question need not wait for anybody.
    pub fn hopeless(&self) -> Option<String> {
        let Approvers { required, of, not_requester } = &self.approvers;
        if *not_requester && self.requesters.is_empty() {
            return Some(
                "somebody other than whoever started the run must approve it, and nobody knows who started it"
                    .to_owned(),
            );
        }
        let able = of.iter().filter(|name| !self.is_excluded(name)).count();
        (!of.is_empty() && able < *required as usize).then(|| {
            format!(
                "{required} of `{}` must approve it, and whoever started the run does not count",
                of.join("`, `")
            )
        })
    }

    /// Refuses somebody who does not count.
    pub fn check(&self, by: &str) -> Result<(), WorkError> {
        if by.trim().is_empty() || !self.approvers.names(by) {
            return Err(WorkError::not_approver(by, &self.approvers.of));
        }
        if self.is_excluded(by) {
            return Err(WorkError::own_approval(by));
        }
        Ok(())
    }

    fn is_excluded(&self, name: &str) -> bool {
        self.approvers.not_requester
            && self.requesters.iter().any(|requester| is_same_principal(requester, name))
    }
}

impl CastVote {
    /// Refuses another word than the one that was said.
    pub fn check_same(&self, approves: bool) -> Result<(), WorkError> {
        if self.approves == approves {
            return Ok(());
        }
        Err(WorkError::VoteConflict {
            by: self.by.clone(),
            said: if self.approves { "yes" } else { "no" },
        })
    }
}

#[cfg(test)]
mod tests;
