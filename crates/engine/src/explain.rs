//! Why something waits, or why it failed: the cause in one sentence, what proves it, and what to do next.
//!
//! Everything is read in one transaction into [`Facts`]; what it means is decided by a pure function that has an answer for
//! every state there can be.

mod approval;
mod cause;
mod delivery;
mod ended;
mod facts;
mod gather;
mod leased;
mod next;
mod parked;
mod queued;
mod run;
mod session;
mod task;
mod told;

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use provost_core::id::name::Namespace;
use provost_core::{ApprovalId, DeliveryId, RunId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::cause::Cause;
use self::facts::{About, Facts, Here};
use self::told::Told;
use crate::engine::Engine;
use crate::error::EngineError;

/// What somebody asks about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A run.
    Run(RunId),
    /// A task.
    Task(TaskId),
    /// A question.
    Approval(ApprovalId),
    /// A session, by its id or its key.
    Session(String),
    /// An answer on its way out.
    Delivery(DeliveryId),
}

impl FromStr for Subject {
    type Err = Infallible;

    /// By the prefix of an id; what is no id is the name of a session.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let id = text.parse().map(Self::Run).ok();
        let id = id.or_else(|| text.parse().map(Self::Task).ok());
        let id = id.or_else(|| text.parse().map(Self::Approval).ok());
        let id = id.or_else(|| text.parse().map(Self::Delivery).ok());
        Ok(id.unwrap_or_else(|| Self::Session(text.to_owned())))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(id) => id.fmt(f),
            Self::Task(id) => id.fmt(f),
            Self::Approval(id) => id.fmt(f),
            Self::Session(id) => id.fmt(f),
            Self::Delivery(id) => id.fmt(f),
        }
    }
}

/// Something that was seen and proves the cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// What was looked at.
    pub what: String,
    /// What was seen.
    pub value: String,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextStep {
    /// The command to type.
    pub command: String,
    /// What it does.
    pub why: String,
}

/// Why something waits, or why it failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// What was asked about.
    pub subject: String,
    /// Where it stands.
    pub state: String,
    /// The stable code of the cause.
    pub code: String,
    /// The cause in one sentence.
    pub cause: String,
    /// What proves it.
    pub evidence: Vec<Evidence>,
    /// What to do about it, the most useful first.
    pub next: Vec<NextStep>,
    /// The ids of what it waits for or failed with.
    pub related: Vec<String>,
}

impl Engine {
    /// Explains why something waits or how it ended.
    pub async fn explain(
        &self,
        namespace: &Namespace,
        subject: Subject,
    ) -> Result<Explanation, EngineError> {
        let (namespace, here) = (namespace.clone(), Here::of(&self.shared));
        let name = subject.to_string();
        let read = self.shared.store.read(move |tx| gather::facts(tx, &here, &namespace, &subject));
        let facts = read.await?;
        let Told { cause, sentence, evidence, next, related } = cause(&facts);
        Ok(Explanation {
            subject: name,
            state: facts.state(),
            code: cause.code().to_owned(),
            cause: sentence,
            evidence,
            next,
            related,
        })
    }
}

/// The cause of what the facts show: an answer for every state.
fn cause(facts: &Facts) -> Told {
    let here = &facts.here;
    match &facts.about {
        About::Run(run) => run::cause(here, run),
        About::Task(task) => task::cause(here, task),
        About::Approval(asked) => approval::cause(here, asked),
        About::Session(session) => session::cause(here, session),
        About::Delivery(delivery) => delivery::cause(here, delivery),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_by_its_prefix_and_anything_else_is_a_session() {
        let env = provost_core::Env::simulated(1);
        let (run, task): (RunId, TaskId) = (env.id(), env.id());
        let (asked, sent): (ApprovalId, DeliveryId) = (env.id(), env.id());
        for subject in [
            Subject::Run(run),
            Subject::Task(task),
            Subject::Approval(asked),
            Subject::Delivery(sent),
            Subject::Session("main".to_owned()),
            Subject::Session("run_short".to_owned()),
        ] {
            assert_eq!(subject.to_string().parse::<Subject>(), Ok(subject));
        }
    }

    #[test]
    fn codes_are_unique_and_none_says_that_it_does_not_know() {
        let mut codes: Vec<_> = Cause::ALL.iter().map(|cause| cause.code()).collect();
        let plain = |c: char| c.is_ascii_lowercase() || c == '_';
        for code in &codes {
            assert!(code.chars().all(plain) && !code.contains("unknown"), "{code}");
        }
        codes.sort_unstable();
        let count = codes.len();
        codes.dedup();
        assert_eq!(codes.len(), count);
    }
}
