//! How the things that operators look after look as a row: webhooks, schedules, budgets, grants, deliveries.

use provost_api::{
    Budget, Delivery, Grant, PendingInput, Period, Schedule, Snapshot, Timing, Webhook, WebhookPost,
};
use provost_core::Timestamp;

use super::age;
use crate::render::show::Shown;
use crate::render::table::{Cell, Column, Tone, rigid, text};

impl Shown for Webhook {
    const COLUMNS: &'static [Column] =
        &[rigid("WEBHOOK"), rigid("STATE"), text("KINDS"), rigid("AGE"), text("URL")];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let kinds = if self.kinds.is_empty() { "all".to_owned() } else { self.kinds.join(",") };
        let state = match self.disabled {
            Some(_) => Cell::new("disabled", Tone::Bad),
            None => Cell::new("active", Tone::Good),
        };
        vec![
            Cell::from(&self.id),
            state,
            Cell::from(kinds),
            age(now, self.created),
            Cell::from(&self.url),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

impl Shown for WebhookPost {
    const COLUMNS: &'static [Column] = &[
        rigid("POST"),
        rigid("STATE"),
        rigid("TRIES"),
        rigid("STATUS"),
        rigid("AGE"),
        text("EVENT"),
        text("SAYS"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::from(&self.id),
            Cell::state(&self.state),
            self.tries.into(),
            Cell::maybe(self.last_status.map(|status| status.to_string())),
            age(now, self.created),
            Cell::from(&self.event),
            Cell::maybe(self.last_error.as_ref()),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

impl Shown for Schedule {
    const COLUMNS: &'static [Column] = &[
        rigid("SCHEDULE"),
        rigid("STATE"),
        text("WHEN"),
        rigid("NEXT"),
        rigid("LAST"),
        text("SAYS"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let when = match &self.timing {
            Timing::Cron(cron) => format!("{cron} {}", self.zone),
            Timing::At(at) => at.to_string(),
            Timing::EveryMs(millis) => format!("every {millis} ms"),
        };
        let state = match self.active {
            true => Cell::new("active", Tone::Good),
            false => Cell::new("paused", Tone::Dim),
        };
        let moment = |at: Option<provost_api::Time>| {
            at.map_or_else(|| Cell::new("-", Tone::Dim), |at| age(now, at))
        };
        vec![
            Cell::from(&self.id),
            state,
            Cell::from(when),
            moment(self.next_at),
            moment(self.last_at),
            Cell::maybe(self.last_error.as_ref()),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

impl Shown for Budget {
    const COLUMNS: &'static [Column] =
        &[rigid("SCOPE"), rigid("CAP"), rigid("SPENT"), rigid("RESERVED"), rigid("PERIOD")];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let spent = match self.spent.micros() >= self.cap.micros() {
            true => Tone::Bad,
            false => Tone::Plain,
        };
        let period = self.period.map(|period| match period {
            Period::Day => "day",
            Period::Month => "month",
        });
        vec![
            Cell::from(&self.scope),
            self.cap.into(),
            Cell::new(self.spent.to_string(), spent),
            self.reserved.into(),
            Cell::maybe(period),
        ]
    }

    fn name(&self) -> String {
        self.scope.clone()
    }
}

impl Shown for Grant {
    const COLUMNS: &'static [Column] =
        &[rigid("SCOPE"), rigid("CALL"), rigid("AGE"), text("BY"), text("PLAN")];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::from(&self.scope),
            Cell::from(&self.call_key),
            age(now, self.created),
            Cell::from(&self.granted_by),
            Cell::from(&self.plan),
        ]
    }

    fn name(&self) -> String {
        format!("{} {}", self.scope, self.call_key)
    }
}

impl Shown for Delivery {
    const COLUMNS: &'static [Column] = &[
        rigid("DELIVERY"),
        rigid("STATE"),
        text("CHANNEL"),
        rigid("TRIES"),
        rigid("AGE"),
        rigid("RUN"),
        text("SAYS"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            self.id.into(),
            Cell::state(self.state.as_str()),
            Cell::from(&self.channel),
            self.tries.into(),
            age(now, self.created),
            self.run.into(),
            Cell::maybe(self.last_error.as_ref().or(self.receipt.as_ref())),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

impl Shown for PendingInput {
    const COLUMNS: &'static [Column] =
        &[rigid("INPUT"), rigid("MODE"), rigid("OUTCOME"), rigid("AGE"), text("SAYS")];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            self.id.into(),
            self.mode.into(),
            self.outcome.into(),
            age(now, self.created),
            Cell::from(self.message.text()),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

impl Shown for Snapshot {
    const COLUMNS: &'static [Column] =
        &[rigid("SEQ"), rigid("STATUS"), rigid("TRY"), rigid("AGE"), text("WHAT"), text("SAYS")];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            self.seq.into(),
            Cell::state(self.status.as_str()),
            self.attempt.into(),
            age(now, self.at),
            Cell::from(&self.kind),
            Cell::maybe(self.error.as_ref()),
        ]
    }

    fn name(&self) -> String {
        self.seq.to_string()
    }
}
