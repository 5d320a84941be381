//! Explains how a run ended. The outcome code decides; the detail that the engine stored distinguishes causes of the
//! same code.

mod clock;

use provost_core::lifecycle::{DeliveryState, RunStatus, TaskState};
use provost_core::recovery::OutcomeCode;
use provost_store::table::governance::approval::ApprovalRow;
use serde_json::Value;

use super::builder::{ExplanationBuilder, count, error_detail, money, timestamp};
use super::{Cause, next};
use provost_store::query::explain_facts::{RunFacts, SystemFacts};

/// Prefixes of the engine's detail for a call whose outcome is not known after a crash.
const UNCLEAR_OUTCOME_PREFIXES: [&str; 2] =
    ["the outcome of a tool call is unknown", "journal: the outcome of `"];
/// Prefix of the engine's detail for a response that is not of the required type.
const INVALID_OUTPUT_PREFIX: &str = "the answer is not the wanted type";
/// Prefix of the engine's detail for a reached limit.
const LIMIT_PREFIX: &str = "the limit of ";
/// The engine's details for a run whose message was withdrawn before it started. The second one is the text of earlier
/// versions.
const WITHDRAWN_DETAILS: [&str; 2] = ["its message was withdrawn", "its message was taken back"];
/// The engine's details for a run whose message was replaced before it started. The second one is the text of earlier
/// versions.
const REPLACED_DETAILS: [&str; 2] =
    ["a newer message superseded its message", "its message gave way to a newer one"];

/// Explains why a run ended: by its timeout, by its outcome code, or without one.
pub(super) fn explain(system: &SystemFacts, facts: &RunFacts) -> ExplanationBuilder {
    let run = &facts.run;
    let explanation = match (run.status, run.outcome_code) {
        (RunStatus::Ok, _) => ok(facts),
        (_, Some(code)) => clock::explain(facts, code).unwrap_or_else(|| by_code(facts, code)),
        (_, None) => without_code(facts),
    };
    let explanation = explanation
        .with_evidence_opt("code", run.outcome_code)
        .with_evidence_opt("detail", run.detail.as_deref().map(|detail| error_detail(Some(detail))))
        .with_evidence_opt("ended", run.ended.map(|at| timestamp(system.now, at)))
        .with_evidence("attempts", run.attempt_no)
        .with_next_step(next::steps(run.id));
    // Only the last run of a task can be continued: a retry after a failure, a new message after a cancellation.
    let last = facts.task.as_ref().filter(|task| task.current_run_id == Some(run.id));
    match last.map(|task| task.state) {
        Some(TaskState::Error | TaskState::Dropped) => {
            explanation.with_next_step(next::retry(run.task_id))
        }
        Some(TaskState::Cancelled) => explanation.with_next_step(next::reopen(run.id)),
        _ => explanation,
    }
}

/// Explains a successful run, with the responses that were not delivered.
fn ok(facts: &RunFacts) -> ExplanationBuilder {
    let run = &facts.run;
    let result = run.result.as_deref().unwrap_or("{}");
    let result = serde_json::from_str::<Value>(result).unwrap_or_default();
    let limit = &result["limit"];
    let explanation = match limit.is_null() {
        true => {
            let tries = count(run.attempt_no, "attempt", "attempts");
            ExplanationBuilder::new(Cause::EndedOk, format!("{} succeeded after {tries}.", run.id))
        }
        false => {
            let part = |name: &str| limit[name].as_str().unwrap_or("?");
            let sentence = format!(
                "{} ended with the result so far because it reached the limit of {} {} of its agent.",
                run.id,
                part("allowed"),
                part("limit").replace('_', " "),
            );
            ExplanationBuilder::new(Cause::EndedOkAtLimit, sentence)
                .with_evidence("used", part("used"))
        }
    };
    let waits = |state| !matches!(state, DeliveryState::Delivered | DeliveryState::Dismissed);
    facts.deliveries.iter().filter(|row| waits(row.state)).fold(explanation, |explanation, row| {
        let explanation =
            explanation.with_evidence("undelivered response", format!("{}: {}", row.id, row.state));
        explanation.with_related(row.id).with_next_step(next::explain(row.id))
    })
}

/// Explains a run by its outcome code.
fn by_code(facts: &RunFacts, code: OutcomeCode) -> ExplanationBuilder {
    use OutcomeCode as C;
    let run = &facts.run;
    let (id, run_detail) = (run.id, run.detail.as_deref().unwrap_or_default());
    let (detail, tries) =
        (error_detail(Some(run_detail)), count(run.failure_count, "try", "tries"));
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
                "{id} could not be started after {tries}: its agent or its execution environment could not be created ({detail})."
            ),
        ),
        C::CancelledByUser | C::CancelledByParent | C::CancelledByInterrupt => {
            return cancelled(facts, code);
        }
        C::BudgetExceeded => return budget(facts),
        C::PolicyDenied if run_detail.starts_with(LIMIT_PREFIX) => {
            (Cause::EndedLimit, format!("{id} reached a limit of its agent: {detail}."))
        }
        C::PolicyDenied => (
            Cause::EndedPolicyDenied,
            format!("{id} was denied by a rule of its agent ({detail})."),
        ),
        C::ApprovalDenied | C::ApprovalExpired => return approval_not_given(facts, code),
        C::CrashLoop => (
            Cause::EndedCrashLoop,
            format!(
                "{id} was ended because it crashed {} times without progress.",
                run.crash_count
            ),
        ),
        C::Internal => (
            Cause::EndedInternal,
            format!(
                "{id} failed after {tries} because of a defect in Provost or in its agent ({detail})."
            ),
        ),
        C::DeadlineExceeded | C::WorkerLost | C::Fenced => (
            Cause::EndedAttemptCode,
            format!("{id} ended with {code}, and no further cause was recorded ({detail})."),
        ),
    };
    ExplanationBuilder::new(cause, sentence)
}

/// Explains a run that the model or its provider ended.
fn provider(facts: &RunFacts, code: OutcomeCode) -> ExplanationBuilder {
    let run = &facts.run;
    let (id, run_detail) = (run.id, run.detail.as_deref().unwrap_or_default());
    let tries = count(run.failure_count, "try", "tries");
    let (cause, what) = match code {
        OutcomeCode::ProviderRateLimited => (
            Cause::EndedProviderRateLimited,
            format!("{id} gave up after {tries}: the model provider limits the request rate"),
        ),
        OutcomeCode::ProviderAuth => (
            Cause::EndedProviderAuth,
            format!(
                "The model provider rejected the credential of {id}, or the account has no credit left"
            ),
        ),
        OutcomeCode::ProviderBadRequest if run_detail.starts_with(INVALID_OUTPUT_PREFIX) => (
            Cause::EndedInvalidOutput,
            format!("The model never answered {id} in the required format"),
        ),
        OutcomeCode::ProviderBadRequest => (
            Cause::EndedProviderBadRequest,
            format!("The model provider rejected the request of {id}"),
        ),
        OutcomeCode::ContextOverflow => (
            Cause::EndedContextOverflow,
            format!("The context of {id} does not fit the model and could not be compacted"),
        ),
        _ => (
            Cause::EndedProviderOverloaded,
            format!("{id} gave up after {tries}: the model provider is overloaded or unreachable"),
        ),
    };
    ExplanationBuilder::new(cause, format!("{what} ({}).", error_detail(Some(run_detail))))
        .with_evidence("failures", run.failure_count)
}

/// Explains a run that a failed tool call ended.
fn tool(facts: &RunFacts, code: OutcomeCode) -> ExplanationBuilder {
    let run = &facts.run;
    let (id, run_detail) = (run.id, run.detail.as_deref().unwrap_or_default());
    let detail = error_detail(Some(run_detail));
    let step = facts.failed_call.as_ref();
    let name = step.and_then(|step| step.name.as_deref()).unwrap_or("a tool");
    let (cause, sentence) = match code {
        OutcomeCode::ToolTimeout => (
            Cause::EndedToolTimeout,
            format!("The tool `{name}` timed out and ended {id} ({detail})."),
        ),
        _ if UNCLEAR_OUTCOME_PREFIXES.iter().any(|begin| run_detail.starts_with(begin)) => (
            Cause::EndedEffectUnclear,
            format!(
                "{id} was interrupted while `{name}` ran: the outcome of the call is not known, and the policy of the run is to fail in this case."
            ),
        ),
        _ => {
            (Cause::EndedToolError, format!("The tool `{name}` failed and ended {id} ({detail})."))
        }
    };
    ExplanationBuilder::new(cause, sentence)
        .with_evidence_opt("step", step.map(|step| step.step))
        .with_evidence_opt("effect class", step.and_then(|step| step.effect_class))
        .with_evidence_opt("tries", step.map(|step| step.tries))
}

/// Explains a run that a user, its parent or newer input cancelled.
fn cancelled(facts: &RunFacts, code: OutcomeCode) -> ExplanationBuilder {
    let (run, run_detail) = (&facts.run, facts.run.detail.as_deref().unwrap_or_default());
    let id = run.id;
    let begun = match run.started {
        Some(_) => "while it was running",
        None => "before it started",
    };
    match code {
        OutcomeCode::CancelledByParent => {
            let parent = run
                .parent_run_id
                .map_or_else(|| "its parent".to_owned(), |id| format!("its parent {id}"));
            let sentence = format!("{id} was cancelled {begun} because {parent} did not succeed.");
            let explanation = ExplanationBuilder::new(Cause::EndedByParent, sentence);
            match run.parent_run_id {
                Some(parent) => {
                    explanation.with_related(parent).with_next_step(next::explain(parent))
                }
                None => explanation,
            }
        }
        OutcomeCode::CancelledByInterrupt if REPLACED_DETAILS.contains(&run_detail) => {
            let sentence = format!(
                "{id} was cancelled before it started: a newer message replaced its message."
            );
            ExplanationBuilder::new(Cause::EndedMessageReplaced, sentence)
        }
        OutcomeCode::CancelledByInterrupt => {
            let sentence = format!("{id} was cancelled {begun} because newer input replaced it.");
            let explanation = ExplanationBuilder::new(Cause::EndedByInterrupt, sentence);
            let newer = facts.task.as_ref().and_then(|task| task.current_run_id);
            match newer.filter(|newer| *newer != id) {
                Some(newer) => explanation.with_related(newer).with_next_step(next::explain(newer)),
                None => explanation,
            }
        }
        _ if WITHDRAWN_DETAILS.contains(&run_detail) => {
            let sentence =
                format!("{id} was cancelled before it started: its message was withdrawn.");
            ExplanationBuilder::new(Cause::EndedMessageWithdrawn, sentence)
        }
        _ => ExplanationBuilder::new(Cause::EndedByUser, format!("A user cancelled {id} {begun}."))
            .with_evidence_opt("cancel requested", run.cancel_requested.map(|at| at.to_rfc3339())),
    }
}

/// Explains a run whose budget is spent.
fn budget(facts: &RunFacts) -> ExplanationBuilder {
    let run = &facts.run;
    let sentence = format!(
        "{} ended because its budget is spent: {}.",
        run.id,
        error_detail(run.detail.as_deref())
    );
    facts.budgets.iter().fold(
        ExplanationBuilder::new(Cause::EndedBudget, sentence),
        |explanation, row| {
            let spent = money(row.spent_micros, row.currency.as_str());
            explanation.with_evidence(
                &format!("budget of {}", row.scope),
                format!("{spent} of {} spent", money(row.cap_micros, row.currency.as_str())),
            )
        },
    )
}

/// Explains a run that ended because an approval was denied or expired.
fn approval_not_given(facts: &RunFacts, code: OutcomeCode) -> ExplanationBuilder {
    let run = &facts.run;
    let asked: Option<&ApprovalRow> = facts.settled.last();
    let by = asked.and_then(|asked| asked.decided_by.as_deref()).unwrap_or("a user");
    let explanation = match code {
        OutcomeCode::ApprovalDenied => {
            let why = error_detail(run.detail.as_deref());
            ExplanationBuilder::new(
                Cause::EndedApprovalDenied,
                format!("{by} denied {}: {why}.", run.id),
            )
        }
        _ => {
            let when = asked.map(|asked| format!(" by {}", asked.expires.to_rfc3339()));
            let sentence = format!(
                "{} ended because its approval request was not answered{}.",
                run.id,
                when.unwrap_or_default()
            );
            ExplanationBuilder::new(Cause::EndedApprovalExpired, sentence)
        }
    };
    match asked {
        Some(asked) => explanation.with_related(asked.id),
        None => explanation,
    }
}

/// Explains a run without an outcome code.
fn without_code(facts: &RunFacts) -> ExplanationBuilder {
    let run = &facts.run;
    let sentence = format!(
        "{} ended with status `{}` and no code: its row was changed manually or by another program.",
        run.id, run.status
    );
    ExplanationBuilder::new(Cause::EndedWithoutCode, sentence).with_evidence("status", run.status)
}
