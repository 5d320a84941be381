//! The commands that an explanation ends with: the only place that knows how they are written.

use std::fmt::Display;

use super::NextStep;

fn step(command: String, why: &str) -> NextStep {
    NextStep { command, why: why.to_owned() }
}

pub(super) fn explain(id: impl Display) -> NextStep {
    step(format!("provost explain {id}"), "tells what that one does")
}

pub(super) fn serve() -> NextStep {
    step("provost serve".to_owned(), "starts a worker on this database")
}

pub(super) fn approve(id: impl Display) -> NextStep {
    step(format!("provost approve {id}"), "says yes")
}

pub(super) fn deny(id: impl Display) -> NextStep {
    step(format!("provost deny {id}"), "says no")
}

pub(super) fn cancel(run: impl Display) -> NextStep {
    step(format!("provost runs cancel {run}"), "ends the run")
}

pub(super) fn say(run: impl Display) -> NextStep {
    step(format!("provost runs input {run} \"…\""), "answers in words")
}

pub(super) fn reopen(run: impl Display) -> NextStep {
    step(
        format!("provost runs input {run} \"…\""),
        "says something to its task, which goes on with that",
    )
}

pub(super) fn resume(run: impl Display) -> NextStep {
    step(format!("provost runs resume {run}"), "lets it go on at its first open step")
}

pub(super) fn steps(run: impl Display) -> NextStep {
    step(format!("provost runs steps {run}"), "shows what it did")
}

pub(super) fn runs() -> NextStep {
    step("provost runs list --status running".to_owned(), "shows what is at work")
}

pub(super) fn retry(task: impl Display) -> NextStep {
    step(format!("provost task retry {task}"), "tells a new run the same again")
}

pub(super) fn class(key: &str, target: u64) -> NextStep {
    step(format!("provost class set {key} {target}"), "lets so many runs work at once")
}

pub(super) fn session(id: &str) -> NextStep {
    step(format!("provost session show {id}"), "shows the conversation")
}

pub(super) fn send_again(delivery: impl Display) -> NextStep {
    step(format!("provost delivery retry {delivery}"), "sends it again")
}
