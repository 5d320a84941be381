//! Explanations on the wire.

use provost_api::{Evidence, Explanation, NextStep};

/// Why something waits, or why it failed.
pub(crate) fn view(told: provost_engine::Explanation) -> Explanation {
    let evidence = |seen: provost_engine::Evidence| Evidence { what: seen.what, value: seen.value };
    let step = |step: provost_engine::NextStep| NextStep { command: step.command, why: step.why };
    Explanation {
        subject: told.subject,
        state: told.state,
        code: told.code,
        cause: told.cause,
        evidence: told.evidence.into_iter().map(evidence).collect(),
        next: told.next.into_iter().map(step).collect(),
        related: told.related,
    }
}
