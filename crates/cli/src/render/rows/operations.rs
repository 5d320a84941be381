//! Table rows of resources that operators manage: webhooks, schedules, budgets, standing approvals and deliveries.

use provost_api::{
    Budget, BudgetPeriod, Delivery, PendingInput, RunTransition, Schedule, ScheduleTiming,
    StandingApproval, Webhook, WebhookDelivery,
};
use provost_core::Timestamp;

use super::age;
use crate::render::printer::TableRow;
use crate::render::table::{Cell, Column, Tone, fixed, flexible};

impl TableRow for Webhook {
    const COLUMNS: &'static [Column] =
        &[fixed("WEBHOOK"), fixed("STATE"), flexible("KINDS"), fixed("AGE"), flexible("URL")];

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

impl TableRow for WebhookDelivery {
    const COLUMNS: &'static [Column] = &[
        fixed("DELIVERY"),
        fixed("STATE"),
        fixed("ATTEMPTS"),
        fixed("STATUS"),
        fixed("AGE"),
        flexible("EVENT"),
        flexible("ERROR"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::from(&self.id),
            Cell::state(&self.state),
            self.tries.into(),
            Cell::optional(self.last_status.map(|status| status.to_string())),
            age(now, self.created),
            Cell::from(&self.event),
            Cell::optional(self.last_error.as_ref()),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

impl TableRow for Schedule {
    const COLUMNS: &'static [Column] = &[
        fixed("SCHEDULE"),
        fixed("STATE"),
        flexible("WHEN"),
        fixed("NEXT"),
        fixed("LAST"),
        flexible("ERROR"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let when = match &self.timing {
            ScheduleTiming::Cron(cron) => format!("{cron} {}", self.zone),
            ScheduleTiming::At(at) => at.to_string(),
            ScheduleTiming::EveryMs(millis) => format!("every {millis} ms"),
        };
        let state = match self.active {
            true => Cell::new("active", Tone::Good),
            false => Cell::new("paused", Tone::Dim),
        };
        let optional_age = |at: Option<provost_api::DateTime>| {
            at.map_or_else(|| Cell::new("-", Tone::Dim), |at| age(now, at))
        };
        vec![
            Cell::from(&self.id),
            state,
            Cell::from(when),
            optional_age(self.next_at),
            optional_age(self.last_at),
            Cell::optional(self.last_error.as_ref()),
        ]
    }

    fn name(&self) -> String {
        self.id.clone()
    }
}

impl TableRow for Budget {
    const COLUMNS: &'static [Column] =
        &[fixed("SCOPE"), fixed("CAP"), fixed("SPENT"), fixed("RESERVED"), fixed("PERIOD")];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let spent = match self.spent.micros() >= self.cap.micros() {
            true => Tone::Bad,
            false => Tone::Plain,
        };
        let period = self.period.map(|period| match period {
            BudgetPeriod::Day => "day",
            BudgetPeriod::Month => "month",
        });
        vec![
            Cell::from(&self.scope),
            self.cap.into(),
            Cell::new(self.spent.to_string(), spent),
            self.reserved.into(),
            Cell::optional(period),
        ]
    }

    fn name(&self) -> String {
        self.scope.clone()
    }
}

impl TableRow for StandingApproval {
    const COLUMNS: &'static [Column] =
        &[fixed("SCOPE"), fixed("CALL"), fixed("AGE"), flexible("BY"), flexible("PLAN")];

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

impl TableRow for Delivery {
    const COLUMNS: &'static [Column] = &[
        fixed("DELIVERY"),
        fixed("STATE"),
        flexible("CHANNEL"),
        fixed("ATTEMPTS"),
        fixed("AGE"),
        fixed("RUN"),
        flexible("DETAIL"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            self.id.into(),
            Cell::state(self.state.as_str()),
            Cell::from(&self.channel),
            self.tries.into(),
            age(now, self.created),
            self.run.into(),
            Cell::optional(self.last_error.as_ref().or(self.receipt.as_ref())),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

impl TableRow for PendingInput {
    const COLUMNS: &'static [Column] =
        &[fixed("INPUT"), fixed("MODE"), fixed("OUTCOME"), fixed("AGE"), flexible("CONTENT")];

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

impl TableRow for RunTransition {
    const COLUMNS: &'static [Column] = &[
        fixed("SEQ"),
        fixed("STATUS"),
        fixed("ATTEMPT"),
        fixed("AGE"),
        flexible("EVENT"),
        flexible("ERROR"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            self.seq.into(),
            Cell::state(self.status.as_str()),
            self.attempt.into(),
            age(now, self.at),
            Cell::from(&self.kind),
            Cell::optional(self.error.as_ref()),
        ]
    }

    fn name(&self) -> String {
        self.seq.to_string()
    }
}
