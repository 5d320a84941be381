//! What goes on in a session.

use super::told::{Told, count, moment};
use super::{Cause, next, run};
use provost_store::query::explain_facts::{Here, SessionFacts};

/// The cause of where a session stands.
pub(super) fn cause(here: &Here, facts: &SessionFacts) -> Told {
    let id = &facts.session.id;
    let told = held(here, facts)
        .or_else(|| queued(here, facts))
        .or_else(|| aside(here, facts))
        .unwrap_or_else(|| {
            let sentence = format!(
                "Nothing works and nothing waits in the session `{id}`: it can be spoken to."
            );
            Told::new(Cause::SessionIdle, sentence)
        });
    told.see("runs that wait", facts.queued)
        .see("last change", moment(here.now, facts.session.updated))
        .see_some("agent", facts.session.agent.as_deref())
        .then(next::session(id))
}

/// A run has it.
fn held(here: &Here, facts: &SessionFacts) -> Option<Told> {
    let holder = facts.holder.as_ref()?;
    let (id, other, unread) = (&facts.session.id, holder.run.id, holder.unread.len() as u64);
    let waiting = match facts.queued {
        0 => String::new(),
        queued => format!(" and {} behind it", count(queued, "run waits", "runs wait")),
    };
    let (cause, sentence) = match (holder.run.phase.as_str(), unread) {
        ("leased", 0) => {
            (Cause::SessionWorking, format!("{other} works in the session `{id}`{waiting}."))
        }
        ("leased", _) => (
            Cause::SessionUnread,
            format!(
                "{other} works in the session `{id}` and reads {} at its next boundary{waiting}.",
                count(unread, "message", "messages"),
            ),
        ),
        _ => (
            Cause::SessionHolderWaits,
            format!("{other} has the session `{id}` and is {}{waiting}.", holder.state()),
        ),
    };
    let told = Told::new(cause, sentence).see("unread messages", unread).about(other);
    Some(told.because_of("the run", run::cause(here, holder)).then(next::explain(other)))
}

/// Nobody has it, and something waits.
fn queued(here: &Here, facts: &SessionFacts) -> Option<Told> {
    let first = facts.next.as_ref()?;
    let why = run::cause(here, first);
    let sentence = format!(
        "{} in the session `{}` and nobody has it; the next one is {}: {}",
        count(facts.queued, "run waits", "runs wait"),
        facts.session.id,
        first.run.id,
        why.sentence,
    );
    let told = Told::new(Cause::SessionNextWaits, sentence).about(first.run.id);
    Some(told.because_of("the next run", why).then(next::explain(first.run.id)))
}

/// It is free, though a run of it is not over.
fn aside(here: &Here, facts: &SessionFacts) -> Option<Told> {
    let parked = facts.aside.as_ref()?;
    let sentence = format!(
        "The session `{}` is free; {} of it is {} and does not keep it.",
        facts.session.id,
        parked.run.id,
        parked.state(),
    );
    let told = Told::new(Cause::SessionWaitsAside, sentence).about(parked.run.id);
    Some(told.because_of("the run", run::cause(here, parked)).then(next::explain(parked.run.id)))
}
