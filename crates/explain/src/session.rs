//! Explains the state of a session.

use super::builder::{ExplanationBuilder, count, timestamp};
use super::{Cause, next, run};
use provost_core::lifecycle::RunPhase;
use provost_store::query::explain_facts::{SessionFacts, SystemFacts};

/// Explains the state of a session: held, queued, or free.
pub(super) fn explain(system: &SystemFacts, facts: &SessionFacts) -> ExplanationBuilder {
    let id = &facts.session.id;
    let explanation = held(system, facts)
        .or_else(|| queued(system, facts))
        .or_else(|| aside(system, facts))
        .unwrap_or_else(|| {
            let sentence =
                format!("The session `{id}` is idle: no run of it is active or waiting.");
            ExplanationBuilder::new(Cause::SessionIdle, sentence)
        });
    explanation
        .with_evidence("waiting runs", facts.queued)
        .with_evidence("last change", timestamp(system.now, facts.session.updated))
        .with_evidence_opt("agent", facts.session.agent.as_deref())
        .with_next_step(next::session(id))
}

/// Explains a session that a run holds. Returns `None` if none does.
fn held(system: &SystemFacts, facts: &SessionFacts) -> Option<ExplanationBuilder> {
    let holder = facts.holder.as_ref()?;
    let (id, other, unread) = (&facts.session.id, holder.run.id, holder.unread.len() as u64);
    let waiting = match facts.queued {
        0 => String::new(),
        queued => format!(" and {} behind it", count(queued, "run waits", "runs wait")),
    };
    let (cause, sentence) = match (holder.run.phase, unread) {
        (RunPhase::Leased, 0) => {
            (Cause::SessionWorking, format!("{other} is active in the session `{id}`{waiting}."))
        }
        (RunPhase::Leased, _) => (
            Cause::SessionUnread,
            format!(
                "{other} is active in the session `{id}` and will read {} at its next boundary{waiting}.",
                count(unread, "message", "messages"),
            ),
        ),
        _ => (
            Cause::SessionHolderBlocked,
            format!("{other} holds the session `{id}` and is {}{waiting}.", holder.state()),
        ),
    };
    let explanation = ExplanationBuilder::new(cause, sentence)
        .with_evidence("unread messages", unread)
        .with_related(other);
    Some(
        explanation
            .caused_by("the run", run::explain(system, holder))
            .with_next_step(next::explain(other)),
    )
}

/// Explains a session that no run holds and that has waiting runs. Returns `None` if none waits.
fn queued(system: &SystemFacts, facts: &SessionFacts) -> Option<ExplanationBuilder> {
    let first = facts.next.as_ref()?;
    let why = run::explain(system, first);
    let sentence = format!(
        "{} in the session `{}`, which no run holds; the next one is {}: {}",
        count(facts.queued, "run waits", "runs wait"),
        facts.session.id,
        first.run.id,
        why.sentence,
    );
    let explanation =
        ExplanationBuilder::new(Cause::SessionNextBlocked, sentence).with_related(first.run.id);
    Some(explanation.caused_by("the next run", why).with_next_step(next::explain(first.run.id)))
}

/// Explains a free session with a parked run that does not hold it. Returns `None` without such a run.
fn aside(system: &SystemFacts, facts: &SessionFacts) -> Option<ExplanationBuilder> {
    let parked = facts.aside.as_ref()?;
    let sentence = format!(
        "The session `{}` is free; its run {} is {} and does not hold it.",
        facts.session.id,
        parked.run.id,
        parked.state(),
    );
    let explanation =
        ExplanationBuilder::new(Cause::SessionParkedAside, sentence).with_related(parked.run.id);
    Some(
        explanation
            .caused_by("the run", run::explain(system, parked))
            .with_next_step(next::explain(parked.run.id)),
    )
}
