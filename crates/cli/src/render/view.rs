//! How each thing of the API looks as a row.

mod operate;

use provost_api::{
    Agent, Approval, Attempt, Class, LogEntry, Run, RunEvent, Session, SessionMessage, Step, Task,
    Token,
};
use provost_core::{Role, Timestamp};

use super::event::summary;
use crate::follow::phase_text;
use crate::render::output::one_line;
use crate::render::show::Shown;
use crate::render::table::{Cell, Column, Tone, ago, rigid, text};

/// Characters of a call's arguments in a row.
const ARGUMENTS_CHARS_MAX: usize = 120;

fn age(now: Timestamp, at: provost_api::Time) -> Cell {
    Cell::new(ago(now, at.0), Tone::Dim)
}

impl Shown for Task {
    const COLUMNS: &'static [Column] = &[
        rigid("TASK"),
        rigid("STATE"),
        text("AGENT"),
        text("SESSION"),
        rigid("RUNS"),
        rigid("AGE"),
        text("MESSAGE"),
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

impl Shown for Run {
    const COLUMNS: &'static [Column] = &[
        rigid("RUN"),
        rigid("STATUS"),
        text("STANDS"),
        text("AGENT"),
        rigid("TRY"),
        rigid("STEPS"),
        rigid("AGE"),
        text("SAYS"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let says = self.detail.as_ref().or(self.answer.as_ref());
        let stands = phase_text(self);
        let tone = if self.parked_for.is_some() { Tone::Warn } else { Tone::Plain };
        vec![
            self.id.into(),
            Cell::state(self.status.as_str()),
            Cell::new(stands, tone),
            Cell::from(&self.agent),
            self.attempt.into(),
            self.steps.into(),
            age(now, self.created),
            Cell::maybe(says),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

impl Shown for Step {
    const COLUMNS: &'static [Column] = &[
        rigid("STEP"),
        rigid("KIND"),
        rigid("STATE"),
        text("NAME"),
        rigid("TRIES"),
        rigid("AGE"),
        text("SAYS"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let says = self.message.as_ref().map(|message| {
            let results: Vec<String> =
                message.tool_results().map(|result| result.to_text()).collect();
            if results.is_empty() { message.text() } else { results.join(" ") }
        });
        vec![
            self.number.into(),
            self.kind.into(),
            Cell::state(self.state.as_str()),
            Cell::maybe(self.name.as_ref()),
            self.tries.into(),
            age(now, self.started),
            Cell::maybe(says),
        ]
    }

    fn name(&self) -> String {
        self.number.to_string()
    }
}

impl Shown for Attempt {
    const COLUMNS: &'static [Column] = &[
        rigid("TRY"),
        rigid("STATUS"),
        text("WHY"),
        text("MODEL"),
        rigid("AGE"),
        text("OUTCOME"),
        text("SAYS"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            self.number.into(),
            Cell::state(self.status.as_str()),
            self.strategy.into(),
            Cell::maybe(self.model.as_ref()),
            age(now, self.started),
            Cell::maybe(self.outcome.map(|outcome| outcome.to_string())),
            Cell::maybe(self.detail.as_ref()),
        ]
    }

    fn name(&self) -> String {
        self.number.to_string()
    }
}

impl Shown for RunEvent {
    const COLUMNS: &'static [Column] = &[rigid("SEQ"), rigid("AGE"), text("WHAT")];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![self.seq.into(), age(now, self.at), Cell::from(summary(self))]
    }

    fn name(&self) -> String {
        format!("{}:{}", self.run, self.seq)
    }
}

impl Shown for Approval {
    const COLUMNS: &'static [Column] = &[
        rigid("APPROVAL"),
        rigid("STATE"),
        rigid("VOTES"),
        rigid("KIND"),
        rigid("AGE"),
        rigid("EXPIRES"),
        text("WHAT"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let call = &self.request.call;
        let arguments = one_line(&call.arguments, ARGUMENTS_CHARS_MAX);
        vec![
            self.id.into(),
            Cell::state(self.state.as_str()),
            Cell::maybe(
                self.tally.as_ref().map(|tally| format!("{} of {}", tally.have, tally.needed)),
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

impl Shown for Session {
    const COLUMNS: &'static [Column] =
        &[rigid("SESSION"), text("KEY"), text("AGENT"), rigid("CHANGED"), text("HELD BY")];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::from(&self.id),
            Cell::maybe(self.key.as_ref()),
            Cell::maybe(self.agent.as_ref()),
            age(now, self.updated),
            Cell::maybe(self.holder.map(|run| run.to_string())),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

impl Shown for SessionMessage {
    const COLUMNS: &'static [Column] = &[rigid("WHO"), text("SAYS")];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let message = &self.message;
        let calls = message.tool_calls().map(|call| format!("[{} {}]", call.name, call.arguments));
        let results = message.tool_results().map(|result| result.to_text());
        let mut says = vec![message.text()];
        says.extend(calls.chain(results));
        says.retain(|said| !said.is_empty());
        let who = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::Summary => "summary",
        };
        vec![who.into(), Cell::from(says.join(" "))]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

impl Shown for Agent {
    const COLUMNS: &'static [Column] =
        &[rigid("AGENT"), rigid("REVISION"), text("MODEL"), text("TITLE"), text("INSTRUCTIONS")];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        vec![
            Cell::from(&self.name),
            self.revision.into(),
            Cell::maybe(self.config.model.as_ref()),
            Cell::maybe(self.title.as_ref()),
            Cell::maybe(self.config.system_prompt.as_ref()),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Shown for Class {
    const COLUMNS: &'static [Column] = &[
        rigid("CLASS"),
        text("AGENT"),
        text("LANE"),
        rigid("RUNNING"),
        rigid("TARGET"),
        rigid("HEALTH"),
    ];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        vec![
            Cell::from(&self.key),
            Cell::maybe(self.agent.as_ref()),
            Cell::maybe(self.lane.as_ref()),
            self.running.into(),
            self.desired.into(),
            Cell::state(self.health.as_str()),
        ]
    }

    fn name(&self) -> String {
        self.key.clone()
    }
}

impl Shown for Token {
    const COLUMNS: &'static [Column] = &[
        rigid("TOKEN"),
        text("NAME"),
        text("SCOPES"),
        text("NAMESPACES"),
        rigid("STATE"),
        rigid("USED"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.as_str()).collect();
        let state = match (self.revoked, self.expires) {
            (Some(_), _) => Cell::new("revoked", Tone::Dim),
            (None, Some(expires)) if expires.0 <= now => Cell::new("expired", Tone::Dim),
            (None, Some(expires)) => Cell::from(format!("ends {}", ago(now, expires.0))),
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

/// Who speaks, in front of each line of a log.
pub(crate) fn speaker(entry: &LogEntry) -> &'static str {
    match entry.stream {
        provost_api::LogStream::User => "user",
        provost_api::LogStream::Assistant => "assistant",
        provost_api::LogStream::Tool => "tool",
        provost_api::LogStream::System => "system",
    }
}
