//! Table rows of the API types.

mod operations;

use provost_api::{
    Agent, Approval, Attempt, ExecutionClass, LogEntry, Run, RunEvent, Session, SessionMessage,
    Step, Task, Token,
};
use provost_core::{Role, Timestamp};

use super::event::summary;
use crate::follow::phase_text;
use crate::render::output::one_line;
use crate::render::printer::TableRow;
use crate::render::table::{Cell, Column, Tone, ago, fixed, flexible};

/// Maximum number of characters of a call's arguments in a row.
const ARGUMENTS_CHARS_MAX: usize = 120;

fn age(now: Timestamp, at: provost_api::DateTime) -> Cell {
    Cell::new(ago(now, at.0), Tone::Dim)
}

impl TableRow for Task {
    const COLUMNS: &'static [Column] = &[
        fixed("TASK"),
        fixed("STATE"),
        flexible("AGENT"),
        flexible("SESSION"),
        fixed("RUNS"),
        fixed("AGE"),
        flexible("MESSAGE"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            self.id.into(),
            Cell::state(self.state.as_str()),
            Cell::from(&self.agent),
            Cell::from(&self.session),
            self.run_count.into(),
            age(now, self.created),
            Cell::from(self.label.as_ref().unwrap_or(&self.message)),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

impl TableRow for Run {
    const COLUMNS: &'static [Column] = &[
        fixed("RUN"),
        fixed("STATUS"),
        flexible("PHASE"),
        flexible("AGENT"),
        fixed("ATTEMPT"),
        fixed("STEPS"),
        fixed("AGE"),
        flexible("OUTPUT"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let output = self.detail.as_ref().or(self.answer.as_ref());
        let phase = phase_text(self);
        let tone = if self.parked_for.is_some() { Tone::Warn } else { Tone::Plain };
        vec![
            self.id.into(),
            Cell::state(self.status.as_str()),
            Cell::new(phase, tone),
            Cell::from(&self.agent),
            self.attempt.into(),
            self.steps.into(),
            age(now, self.created),
            Cell::optional(output),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

impl TableRow for Step {
    const COLUMNS: &'static [Column] = &[
        fixed("STEP"),
        fixed("KIND"),
        fixed("STATE"),
        flexible("NAME"),
        fixed("ATTEMPTS"),
        fixed("AGE"),
        flexible("CONTENT"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let content = self.message.as_ref().map(|message| {
            let results: Vec<String> =
                message.tool_results().map(|result| result.to_text()).collect();
            if results.is_empty() { message.text() } else { results.join(" ") }
        });
        vec![
            self.number.into(),
            self.kind.into(),
            Cell::state(self.state.as_str()),
            Cell::optional(self.name.as_ref()),
            self.tries.into(),
            age(now, self.started),
            Cell::optional(content),
        ]
    }

    fn name(&self) -> String {
        self.number.to_string()
    }
}

impl TableRow for Attempt {
    const COLUMNS: &'static [Column] = &[
        fixed("ATTEMPT"),
        fixed("STATUS"),
        flexible("STRATEGY"),
        flexible("MODEL"),
        fixed("AGE"),
        flexible("OUTCOME"),
        flexible("DETAIL"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            self.number.into(),
            Cell::state(self.status.as_str()),
            self.strategy.into(),
            Cell::optional(self.model.as_ref()),
            age(now, self.started),
            Cell::optional(self.outcome.map(|outcome| outcome.to_string())),
            Cell::optional(self.detail.as_ref()),
        ]
    }

    fn name(&self) -> String {
        self.number.to_string()
    }
}

impl TableRow for RunEvent {
    const COLUMNS: &'static [Column] = &[fixed("SEQ"), fixed("AGE"), flexible("EVENT")];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![self.seq.into(), age(now, self.at), Cell::from(summary(self))]
    }

    fn name(&self) -> String {
        format!("{}:{}", self.run, self.seq)
    }
}

impl TableRow for Approval {
    const COLUMNS: &'static [Column] = &[
        fixed("APPROVAL"),
        fixed("STATE"),
        fixed("VOTES"),
        fixed("KIND"),
        fixed("AGE"),
        fixed("EXPIRES"),
        flexible("CALL"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let call = &self.request.call;
        let arguments = one_line(&call.arguments, ARGUMENTS_CHARS_MAX);
        vec![
            self.id.into(),
            Cell::state(self.state.as_str()),
            Cell::optional(
                self.vote_count
                    .as_ref()
                    .map(|votes| format!("{} of {}", votes.approved, votes.required)),
            ),
            self.kind.into(),
            age(now, self.created),
            age(now, self.expires),
            Cell::from(format!("{} {arguments}", call.name)),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

impl TableRow for Session {
    const COLUMNS: &'static [Column] = &[
        fixed("SESSION"),
        flexible("KEY"),
        flexible("AGENT"),
        fixed("UPDATED"),
        flexible("ACTIVE RUN"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::from(&self.id),
            Cell::optional(self.key.as_ref()),
            Cell::optional(self.agent.as_ref()),
            age(now, self.updated),
            Cell::optional(self.holder.map(|run| run.to_string())),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

impl TableRow for SessionMessage {
    const COLUMNS: &'static [Column] = &[fixed("ROLE"), flexible("CONTENT")];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let message = &self.message;
        let calls = message.tool_calls().map(|call| format!("[{} {}]", call.name, call.arguments));
        let results = message.tool_results().map(|result| result.to_text());
        let mut content = vec![message.text()];
        content.extend(calls.chain(results));
        content.retain(|part| !part.is_empty());
        let role = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::Summary => "summary",
        };
        vec![role.into(), Cell::from(content.join(" "))]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

impl TableRow for Agent {
    const COLUMNS: &'static [Column] = &[
        fixed("AGENT"),
        fixed("REVISION"),
        flexible("MODEL"),
        flexible("TITLE"),
        flexible("INSTRUCTIONS"),
    ];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        vec![
            Cell::from(&self.name),
            self.revision.into(),
            Cell::optional(self.config.model.as_ref()),
            Cell::optional(self.title.as_ref()),
            Cell::optional(self.config.system_prompt.as_ref()),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl TableRow for ExecutionClass {
    const COLUMNS: &'static [Column] = &[
        fixed("CLASS"),
        flexible("AGENT"),
        flexible("LANE"),
        fixed("RUNNING"),
        fixed("LIMIT"),
        fixed("HEALTH"),
    ];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        vec![
            Cell::from(&self.key),
            Cell::optional(self.agent.as_ref()),
            Cell::optional(self.lane.as_ref()),
            self.running.into(),
            self.concurrency_limit.into(),
            Cell::state(self.health.as_str()),
        ]
    }

    fn name(&self) -> String {
        self.key.clone()
    }
}

impl TableRow for Token {
    const COLUMNS: &'static [Column] = &[
        fixed("TOKEN"),
        flexible("NAME"),
        flexible("SCOPES"),
        flexible("NAMESPACES"),
        fixed("STATE"),
        fixed("LAST USED"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.as_str()).collect();
        let state = match (self.revoked, self.expires) {
            (Some(_), _) => Cell::new("revoked", Tone::Dim),
            (None, Some(expires)) if expires.0 <= now => Cell::new("expired", Tone::Dim),
            (None, Some(expires)) => Cell::from(format!("expires {}", ago(now, expires.0))),
            (None, None) => Cell::new("valid", Tone::Good),
        };
        vec![
            Cell::from(&self.id),
            Cell::from(&self.name),
            Cell::from(scopes.join(",")),
            Cell::from(self.namespaces.join(",")),
            state,
            self.last_used.map_or_else(|| Cell::new("never", Tone::Dim), |at| age(now, at)),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

/// Returns the stream of a log entry as text.
pub(crate) fn speaker(entry: &LogEntry) -> &'static str {
    match entry.stream {
        provost_api::LogStream::User => "user",
        provost_api::LogStream::Assistant => "assistant",
        provost_api::LogStream::Tool => "tool",
        provost_api::LogStream::System => "system",
    }
}
