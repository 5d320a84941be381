//! The commands that an explanation suggests. No other module knows their syntax.

use std::fmt::Display;

use super::NextStep;

fn step(command: String, why: &str) -> NextStep {
    NextStep { command, why: why.to_owned() }
}

pub(super) fn explain(id: impl Display) -> NextStep {
    step(format!("provost explain {id}"), "explains its state")
}

pub(super) fn serve() -> NextStep {
    step("provost serve".to_owned(), "starts a worker on this database")
}

pub(super) fn approve(id: impl Display) -> NextStep {
    step(format!("provost approval approve {id}"), "approves it")
}

pub(super) fn deny(id: impl Display) -> NextStep {
    step(format!("provost approval deny {id}"), "denies it")
}

pub(super) fn cancel(run: impl Display) -> NextStep {
    step(format!("provost run cancel {run}"), "cancels the run")
}

pub(super) fn answer_text(run: impl Display) -> NextStep {
    step(format!("provost run send {run} \"…\""), "answers with a text")
}

pub(super) fn reopen(run: impl Display) -> NextStep {
    step(format!("provost run send {run} \"…\""), "continues its task with a new message")
}

pub(super) fn resume(run: impl Display) -> NextStep {
    step(format!("provost run resume {run}"), "continues it at its first unfinished step")
}

pub(super) fn steps(run: impl Display) -> NextStep {
    step(format!("provost run steps {run}"), "lists its steps")
}

pub(super) fn runs() -> NextStep {
    step("provost run list --status running".to_owned(), "lists the running runs")
}

pub(super) fn retry(task: impl Display) -> NextStep {
    step(format!("provost task retry {task}"), "starts a new run with the same message")
}

pub(super) fn class(key: &str, target: u64) -> NextStep {
    step(format!("provost class set {key} {target}"), "sets the concurrency limit of the class")
}

pub(super) fn session(id: &str) -> NextStep {
    step(format!("provost session messages {id}"), "shows the conversation")
}

pub(super) fn retry_delivery(delivery: impl Display) -> NextStep {
    step(format!("provost delivery retry {delivery}"), "sends it again")
}
