//! Explains why a subject waits or failed: the cause in one sentence, the evidence, and the next commands.
//!
//! One transaction reads the state into [`Facts`]. A pure function then maps the facts to a cause; it covers every
//! state.

mod approval;
mod builder;
mod cause;
mod delivery;
mod ended;
mod leased;
mod next;
mod parked;
mod queued;
mod run;
mod session;
mod task;

pub use provost_api::{Evidence, Explanation, NextStep};
use provost_store::query::explain_facts::{Facts, SubjectFacts};

use self::builder::ExplanationBuilder;
pub use self::cause::Cause;

/// Explains why the subject waits or how it ended.
pub fn explain(facts: &Facts) -> Explanation {
    let ExplanationBuilder { cause, sentence, evidence, next, related } = explain_subject(facts);
    Explanation {
        subject: facts.subject.to_string(),
        state: facts.state(),
        code: cause.code().to_owned(),
        cause: sentence,
        evidence,
        next,
        related,
    }
}

/// Explains the subject by the rows of its kind.
fn explain_subject(facts: &Facts) -> ExplanationBuilder {
    let system = &facts.system;
    match &facts.rows {
        SubjectFacts::Run(run) => run::explain(system, run),
        SubjectFacts::Task(task) => task::explain(system, task),
        SubjectFacts::Approval(asked) => approval::explain(system, asked),
        SubjectFacts::Session(session) => session::explain(system, session),
        SubjectFacts::Delivery(delivery) => delivery::explain(system, delivery),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
