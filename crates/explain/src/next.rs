//! The commands that an explanation suggests. No other module knows their syntax.

use std::fmt::Display;

use super::NextStep;

/// Creates a next step. `why` completes the sentence "this command …".
fn step(command: String, why: &str) -> NextStep {
    NextStep { command, why: why.to_owned() }
}

/// Returns the command that explains a related subject.
pub(super) fn explain(id: impl Display) -> NextStep {
    step(format!("provost explain {id}"), "explains its state")
}

/// Returns the command that starts a worker.
pub(super) fn serve() -> NextStep {
    step("provost serve".to_owned(), "starts a worker on this database")
}

/// Returns the command that approves a request.
pub(super) fn approve(id: impl Display) -> NextStep {
    step(format!("provost approval approve {id}"), "approves it")
}

/// Returns the command that denies a request.
pub(super) fn deny(id: impl Display) -> NextStep {
    step(format!("provost approval deny {id}"), "denies it")
}

/// Returns the command that cancels a run.
pub(super) fn cancel(run: impl Display) -> NextStep {
    step(format!("provost run cancel {run}"), "cancels the run")
}

/// Returns the command that answers a question of a run.
pub(super) fn answer_text(run: impl Display) -> NextStep {
    step(format!("provost run send {run} \"…\""), "answers with a text")
}

/// Returns the command that sends a message to an ended run.
pub(super) fn reopen(run: impl Display) -> NextStep {
    step(format!("provost run send {run} \"…\""), "continues its task with a new message")
}

/// Returns the command that resumes a run.
pub(super) fn resume(run: impl Display) -> NextStep {
    step(format!("provost run resume {run}"), "continues it at its first unfinished step")
}

/// Returns the command that lists the steps of a run.
pub(super) fn steps(run: impl Display) -> NextStep {
    step(format!("provost run steps {run}"), "lists its steps")
}

/// Returns the command that lists the running runs.
pub(super) fn runs() -> NextStep {
    step("provost run list --status running".to_owned(), "lists the running runs")
}

/// Returns the command that retries a task.
pub(super) fn retry(task: impl Display) -> NextStep {
    step(format!("provost task retry {task}"), "starts a new run with the same message")
}

/// Returns the command that sets the concurrency limit of a class.
pub(super) fn class(key: &str, target: u64) -> NextStep {
    step(format!("provost class set {key} {target}"), "sets the concurrency limit of the class")
}

/// Returns the command that shows a session.
pub(super) fn session(id: &str) -> NextStep {
    step(format!("provost session messages {id}"), "shows the conversation")
}

/// Returns the command that sends a delivery again.
pub(super) fn retry_delivery(delivery: impl Display) -> NextStep {
    step(format!("provost delivery retry {delivery}"), "sends it again")
}
