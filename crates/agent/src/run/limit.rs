//! What a run may use, and what happens when it is used up.

use std::time::Duration;

use provost_core::{LimitKind, LimitReached, Limits, Money, Timestamp, ToolCall, Usage};
use serde::{Deserialize, Serialize};

use super::usage::{UsageTotals, reached};
use super::{Baseline, Run};

/// What happens at a limit.
///
/// Rounds and tool calls leave room for a last word. Tokens, money and time do not: there `FinalAnswer` stops, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtLimit {
    /// The run ends with what it has, and says which limit it was.
    #[default]
    Stop,
    /// One more model call without tools gives an answer from what is known.
    FinalAnswer,
    /// The program is asked.
    Ask,
}

/// The question at a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitQuestion {
    /// Which limit.
    pub reached: LimitReached,
    /// Calls the model wants to make.
    pub calls: Vec<ToolCall>,
    /// Rounds of tool calls so far, extensions included.
    pub rounds: u32,
}

/// The answer at a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitDecision {
    /// Go on with the same amount again; the waiting calls run, then the message, if any, is shown to the model.
    Extend {
        /// Said to the model after the results.
        message: Option<String>,
    },
    /// Go on with the same amount again, but the waiting calls do not run.
    ExtendWithoutCalls {
        /// Their result in place of running.
        result: Option<String>,
        /// Said to the model after that.
        message: Option<String>,
    },
    /// One more model call without tools.
    FinalAnswer {
        /// Said to the model in place of the usual notice.
        message: Option<String>,
    },
    /// The run ends with what it has.
    Stop,
}

impl Run {
    /// The first of tokens, money and time that is used up.
    pub(super) fn spent(&self, now: Timestamp) -> Option<LimitReached> {
        let limits = &self.config.limits;
        let since = self.totals().minus(&self.totals_before());
        if let Some(reached) = since.exceeded(limits) {
            return Some(reached);
        }
        let wall = limits.wall?;
        let used = now.since(self.baseline.at);
        (used >= wall).then(|| reached(LimitKind::Wall, &Seconds(wall), &Seconds(used)))
    }

    /// Returns the limit of a policy on the tokens of the whole run, if they are used up: an extension of the run's own limits does not
    /// change that.
    pub(crate) fn used_up(&self, allowed: u64) -> Option<LimitReached> {
        self.totals().exceeded(&Limits::unlimited().total_tokens(allowed))
    }

    /// The usage of the run and its children so far.
    pub(crate) fn totals(&self) -> UsageTotals {
        let Self { turns, usage, cost, unpriced_calls, unmetered: usage_unknown, .. } = *self;
        UsageTotals { turns, usage, cost, unpriced_calls, usage_unknown }
    }

    /// The usage before the limits were last extended: it no longer counts for them.
    pub(crate) fn totals_before(&self) -> UsageTotals {
        let Baseline { usage, cost, unpriced_calls, .. } = self.baseline;
        UsageTotals { usage, cost, unpriced_calls, ..UsageTotals::default() }
    }

    /// Adds usage. Model calls of the run itself are counted where the answer is taken in.
    pub(super) fn add_used(&mut self, more: &UsageTotals) {
        let mut totals = self.totals();
        totals.add(more);
        self.usage = totals.usage;
        self.cost = totals.cost;
        self.unpriced_calls = totals.unpriced_calls;
    }

    /// Adds the usage of a model call that compacts the conversation, if there was one.
    pub(super) fn add_compaction(&mut self, usage: Usage, cost: Option<Money>, unmetered: u32) {
        if usage.total() > 0 {
            self.add_used(&UsageTotals::of_call(usage, cost));
        }
        self.unmetered |= unmetered > 0;
        self.unpriced_calls += unmetered;
    }

    /// The time limit as reached, for a driver whose own clock says so.
    pub(super) fn wall_spent(&self) -> Option<LimitReached> {
        let wall = self.config.limits.wall?;
        Some(reached(LimitKind::Wall, &Seconds(wall), &Seconds(wall)))
    }

    /// The limit after which the model has only a last word, once it is reached.
    pub fn exhausted(&self) -> Option<LimitReached> {
        self.last_word.clone()
    }

    /// The limit that a round of `calls` more tool calls would break.
    pub(super) fn round_limit(&self, calls: usize) -> Option<LimitReached> {
        let (limits, base) = (&self.config.limits, &self.baseline);
        let rounds = self.rounds - base.rounds;
        if let Some(allowed) = limits.turns
            && rounds >= allowed
        {
            return Some(reached(LimitKind::Turns, &allowed, &rounds));
        }
        let used = self.tool_calls - base.tool_calls;
        let wanted = used.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
        match limits.tool_calls {
            Some(allowed) if wanted > allowed => {
                Some(reached(LimitKind::ToolCalls, &allowed, &used))
            }
            _ => None,
        }
    }

    /// Starts all counting again: the same amount of everything once more.
    pub(super) fn extend(&mut self, now: Timestamp) {
        self.unmetered = false;
        self.baseline = Baseline {
            unpriced_calls: self.unpriced_calls,
            rounds: self.rounds,
            tool_calls: self.tool_calls,
            usage: self.usage,
            cost: self.cost,
            at: now,
        };
    }
}

struct Seconds(Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}
