//! How a run ended. Its code decides; only what the engine itself wrote tells finer causes of one code apart.

mod clock;

use provost_core::lifecycle::{RunStatus, TaskState};
use provost_core::recovery::OutcomeCode;
use provost_store::table::governance::approval::ApprovalRow;
use serde_json::Value;

use super::told::{Told, count, moment, money, problem};
use super::{Cause, next};
use provost_store::query::explain_facts::{Here, RunFacts};

/// How the engine begins what it says about a call whose outcome a crash has hidden.
const UNCLEAR: [&str; 2] = ["the outcome of a tool call is unknown", "journal: the outcome of `"];
/// How the engine begins what it says about an answer that is not of the wanted type.
const WRONG_ANSWER: &str = "the answer is not the wanted type";
/// How the engine begins what it says about a limit.
const LIMIT: &str = "the limit of ";
/// What the engine says about a run whose message was taken back before it began.
const TAKEN_BACK: &str = "its message was taken back";
/// What the engine says about a run whose message gave way before it began.
const GAVE_WAY: &str = "its message gave way to a newer one";

/// The cause of how a run ended.
pub(super) fn cause(here: &Here, facts: &RunFacts) -> Told {
    let run = &facts.run;
    let code = run.outcome_code.as_deref().and_then(|code| code.parse::<OutcomeCode>().ok());
    let told = match (run.status.parse(), code) {
        (Ok(RunStatus::Ok), _) => ok(facts),
        (_, Some(code)) => clock::cause(facts, code).unwrap_or_else(|| by_code(facts, code)),
        (_, None) => without_code(facts),
    };
    let told = told
        .see_some("code", run.outcome_code.as_deref())
        .see_some("said about it", run.detail.as_deref().map(|detail| problem(Some(detail))))
        .see_some("ended", run.ended.map(|at| moment(here.now, at)))
        .see("attempts", run.attempt_no)
        .then(next::steps(run.id));
    // Only the last run of a task that failed can be tried again; one that was cancelled goes on with a new message.
    let last = facts.task.as_ref().filter(|task| task.current_run_id == Some(run.id));
    match last.and_then(|task| task.state.parse().ok()) {
        Some(TaskState::Error | TaskState::Dropped) => told.then(next::retry(run.task_id)),
        Some(TaskState::Cancelled) => told.then(next::reopen(run.id)),
        _ => told,
    }
}

fn ok(facts: &RunFacts) -> Told {
    let run = &facts.run;
    let result = run.result.as_deref().unwrap_or("{}");
    let result = serde_json::from_str::<Value>(result).unwrap_or_default();
    let limit = &result["limit"];
    let told = match limit.is_null() {
        true => {
            let tries = count(run.attempt_no, "attempt", "attempts");
            Told::new(Cause::EndedOk, format!("{} ended well after {tries}.", run.id))
        }
        false => {
            let part = |name: &str| limit[name].as_str().unwrap_or("?");
            let sentence = format!(
                "{} ended with what it had because it reached the limit of {} {} of its agent.",
                run.id,
                part("allowed"),
                part("limit").replace('_', " "),
            );
            Told::new(Cause::EndedOkAtLimit, sentence).see("used", part("used"))
        }
    };
    let waits = |state: &str| !matches!(state, "delivered" | "dismissed");
    facts.deliveries.iter().filter(|row| waits(&row.state)).fold(told, |told, row| {
        let told = told.see("its answer is not delivered", format!("{}: {}", row.id, row.state));
        told.about(row.id).then(next::explain(row.id))
    })
}

fn by_code(facts: &RunFacts, code: OutcomeCode) -> Told {
    use OutcomeCode as C;
    let run = &facts.run;
    let (id, said) = (run.id, run.detail.as_deref().unwrap_or_default());
    let (detail, tries) = (problem(Some(said)), count(run.failure_count, "try", "tries"));
    let (cause, sentence) = match code {
        C::ProviderOverloaded
        | C::ProviderRateLimited
        | C::ProviderAuth
        | C::ProviderBadRequest
        | C::ContextOverflow => return provider(facts, code),
        C::ToolError | C::ToolTimeout => return tool(facts, code),
        C::SandboxStart => (
            Cause::EndedSandboxStart,
            format!(
                "{id} could not be started after {tries}: its agent or the place to run in could not be made ({detail})."
            ),
        ),
        C::CancelledByUser | C::CancelledByParent | C::CancelledByInterrupt => {
            return cancelled(facts, code);
        }
        C::Budget => return budget(facts),
        C::PolicyDenied if said.starts_with(LIMIT) => {
            (Cause::EndedLimit, format!("{id} reached a limit of its agent: {detail}."))
        }
        C::PolicyDenied => (
            Cause::EndedPolicyDenied,
            format!("{id} was refused by a rule of its agent ({detail})."),
        ),
        C::ApprovalDenied | C::ApprovalExpired => return unanswered(facts, code),
        C::CrashLoop => (
            Cause::EndedCrashLoop,
            format!(
                "{id} crashed {} times without getting anywhere and was ended.",
                run.crash_count
            ),
        ),
        C::Internal => (
            Cause::EndedInternal,
            format!(
                "{id} failed after {tries} through a defect of Provost or of its agent ({detail})."
            ),
        ),
        C::Deadline | C::WorkerLost | C::Fenced => (
            Cause::EndedAttemptCode,
            format!("{id} ended with {code} and nothing that says how it came to that ({detail})."),
        ),
    };
    Told::new(cause, sentence)
}

/// The model, or whoever provides it, ended the run.
fn provider(facts: &RunFacts, code: OutcomeCode) -> Told {
    let run = &facts.run;
    let (id, said) = (run.id, run.detail.as_deref().unwrap_or_default());
    let tries = count(run.failure_count, "try", "tries");
    let (cause, what) = match code {
        OutcomeCode::ProviderRateLimited => (
            Cause::EndedProviderRateLimited,
            format!("{id} gave up after {tries}: the model's provider wants fewer requests"),
        ),
        OutcomeCode::ProviderAuth => (
            Cause::EndedProviderAuth,
            format!(
                "The model's provider did not take the key of {id}, or the account has no money left"
            ),
        ),
        OutcomeCode::ProviderBadRequest if said.starts_with(WRONG_ANSWER) => {
            (Cause::EndedInvalidOutput, format!("The model never answered {id} in the wanted form"))
        }
        OutcomeCode::ProviderBadRequest => (
            Cause::EndedProviderBadRequest,
            format!("The model's provider refused what {id} asked"),
        ),
        OutcomeCode::ContextOverflow => (
            Cause::EndedContextOverflow,
            format!(
                "The conversation of {id} does not fit the model, and could not be made shorter"
            ),
        ),
        _ => (
            Cause::EndedProviderOverloaded,
            format!(
                "{id} gave up after {tries}: the model's provider is overloaded or out of reach"
            ),
        ),
    };
    Told::new(cause, format!("{what} ({}).", problem(Some(said))))
        .see("failures", run.failure_count)
}

fn tool(facts: &RunFacts, code: OutcomeCode) -> Told {
    let run = &facts.run;
    let (id, said) = (run.id, run.detail.as_deref().unwrap_or_default());
    let detail = problem(Some(said));
    let step = facts.failed_call.as_ref();
    let name = step.and_then(|step| step.name.as_deref()).unwrap_or("a tool");
    let (cause, sentence) = match code {
        OutcomeCode::ToolTimeout => (
            Cause::EndedToolTimeout,
            format!("The tool `{name}` took too long and ended {id} ({detail})."),
        ),
        _ if UNCLEAR.iter().any(|begin| said.starts_with(begin)) => (
            Cause::EndedEffectUnclear,
            format!(
                "{id} was interrupted while `{name}` ran, nobody can tell whether it happened, and its policy is to fail then."
            ),
        ),
        _ => (Cause::EndedToolError, format!("The tool `{name}` ended {id} ({detail}).")),
    };
    Told::new(cause, sentence)
        .see_some("step", step.map(|step| step.step))
        .see_some("effect of the tool", step.and_then(|step| step.effect_class.as_deref()))
        .see_some("tries", step.map(|step| step.tries))
}

fn cancelled(facts: &RunFacts, code: OutcomeCode) -> Told {
    let (run, said) = (&facts.run, facts.run.detail.as_deref().unwrap_or_default());
    let id = run.id;
    let begun = match run.started {
        Some(_) => "while it worked",
        None => "before it began",
    };
    match code {
        OutcomeCode::CancelledByParent => {
            let parent =
                run.parent_run_id.map_or_else(|| "its parent".to_owned(), |id| id.to_string());
            let sentence = format!(
                "{id} was cancelled {begun} because {parent}, which started it, did not end well."
            );
            let told = Told::new(Cause::EndedByParent, sentence);
            match run.parent_run_id {
                Some(parent) => told.about(parent).then(next::explain(parent)),
                None => told,
            }
        }
        OutcomeCode::CancelledByInterrupt if said == GAVE_WAY => {
            let sentence =
                format!("{id} ended before it began: its message gave way to a newer one.");
            Told::new(Cause::EndedGaveWay, sentence)
        }
        OutcomeCode::CancelledByInterrupt => {
            let sentence = format!("{id} ended {begun} because something newer took its place.");
            let told = Told::new(Cause::EndedByInterrupt, sentence);
            let newer = facts.task.as_ref().and_then(|task| task.current_run_id);
            match newer.filter(|newer| *newer != id) {
                Some(newer) => told.about(newer).then(next::explain(newer)),
                None => told,
            }
        }
        _ if said == TAKEN_BACK => {
            let sentence = format!("{id} ended before it began: its message was taken back.");
            Told::new(Cause::EndedWithdrawn, sentence)
        }
        _ => Told::new(Cause::EndedByUser, format!("Somebody cancelled {id} {begun}."))
            .see_some("asked for", run.cancel_requested.map(|at| at.to_rfc3339())),
    }
}

fn budget(facts: &RunFacts) -> Told {
    let run = &facts.run;
    let sentence =
        format!("{} ended because its money is spent: {}.", run.id, problem(run.detail.as_deref()));
    facts.budgets.iter().fold(Told::new(Cause::EndedBudget, sentence), |told, row| {
        let spent = money(row.spent_micros, &row.currency);
        told.see(
            &format!("budget of {}", row.scope),
            format!("{spent} of {} spent", money(row.cap_micros, &row.currency)),
        )
    })
}

fn unanswered(facts: &RunFacts, code: OutcomeCode) -> Told {
    let run = &facts.run;
    let asked: Option<&ApprovalRow> = facts.settled.last();
    let by = asked.and_then(|asked| asked.decided_by.as_deref()).unwrap_or("somebody");
    let told = match code {
        OutcomeCode::ApprovalDenied => {
            let why = problem(run.detail.as_deref());
            Told::new(Cause::EndedApprovalDenied, format!("{by} said no to {}: {why}.", run.id))
        }
        _ => {
            let when = asked.map(|asked| format!(" by {}", asked.expires.to_rfc3339()));
            let sentence = format!(
                "{} ended because nobody answered its question{}.",
                run.id,
                when.unwrap_or_default()
            );
            Told::new(Cause::EndedApprovalExpired, sentence)
        }
    };
    match asked {
        Some(asked) => told.about(asked.id),
        None => told,
    }
}

fn without_code(facts: &RunFacts) -> Told {
    let run = &facts.run;
    let code = run.outcome_code.as_deref().unwrap_or("no code");
    let sentence = format!(
        "{} ended as `{}` with {code}, which says nothing to this program: its row was changed by hand or by another program.",
        run.id, run.status
    );
    Told::new(Cause::EndedWithoutCode, sentence).see("status", &run.status)
}
