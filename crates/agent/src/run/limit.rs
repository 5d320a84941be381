//! The limits of a run, and the actions when one is reached.

use std::time::Duration;

use provost_core::{LimitKind, LimitReached, Limits, Money, Timestamp, ToolCall, Usage};
use serde::{Deserialize, Serialize};

use super::usage::{UsageTotals, limit_reached};
use super::{LimitBaseline, Run};

/// The stored form of [`OnLimit`](crate::OnLimit).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitAction {
    /// The run ends with its results so far and reports the limit.
    #[default]
    Stop,
    /// One more model call, without tools, produces a final response.
    FinalAnswer,
    /// The program decides: the run waits for a [`LimitDecision`].
    Ask,
}

/// A reached limit, for the program's decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitContext {
    /// The limit and its values.
    pub reached: LimitReached,
    /// The calls that the model requested and that have not run.
    pub calls: Vec<ToolCall>,
    /// Number of tool rounds so far, extensions included.
    #[serde(rename = "rounds")]
    pub tool_rounds: u32,
}

/// The program's decision at a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitDecision {
    /// Grant the same limits again and run the pending calls.
    Extend {
        /// Message to the model after the results.
        message: Option<String>,
    },
    /// Grant the same limits again, but do not run the pending calls.
    ExtendWithoutCalls {
        /// The result of the pending calls. `None` uses a standard text.
        result: Option<String>,
        /// Message to the model after the results.
        message: Option<String>,
    },
    /// One more model call, without tools.
    FinalAnswer {
        /// Message to the model. `None` uses a standard text.
        message: Option<String>,
    },
    /// The run ends with its results so far.
    Stop,
}

impl Run {
    /// Returns the first limit on tokens, cost or time that is reached. `None` if none is.
    pub(super) fn exceeded_limit(&self, now: Timestamp) -> Option<LimitReached> {
        let limits = &self.config.limits;
        let since = self.totals().saturating_sub(&self.totals_before());
        if let Some(reached) = since.exceeded(limits) {
            return Some(reached);
        }
        let wall = limits.wall?;
        let used = now.since(self.baseline.at);
        (used >= wall).then(|| limit_reached(LimitKind::Wall, &Seconds(wall), &Seconds(used)))
    }

    /// Returns the policy's token limit if the whole run has reached it. Extending the run's own limits does not
    /// change this.
    pub(crate) fn exceeded_token_cap(&self, allowed: u64) -> Option<LimitReached> {
        self.totals().exceeded(&Limits::unlimited().total_tokens(allowed))
    }

    /// Returns the usage of the run and its children so far.
    pub(crate) fn totals(&self) -> UsageTotals {
        let Self { turns, usage, cost, unpriced_calls, usage_unknown, .. } = *self;
        UsageTotals { turns, usage, cost, unpriced_calls, usage_unknown }
    }

    /// Usage before the limits were last extended, which no longer counts towards them.
    pub(crate) fn totals_before(&self) -> UsageTotals {
        let LimitBaseline { usage, cost, unpriced_calls, .. } = self.baseline;
        UsageTotals { usage, cost, unpriced_calls, ..UsageTotals::default() }
    }

    /// Adds usage. The run's own model calls are counted where their response is applied.
    pub(super) fn add_usage(&mut self, more: &UsageTotals) {
        let mut totals = self.totals();
        totals.add(more);
        self.usage = totals.usage;
        self.cost = totals.cost;
        self.unpriced_calls = totals.unpriced_calls;
    }

    /// Adds the usage of a compaction's model calls, if there were any.
    pub(super) fn add_compaction_usage(
        &mut self,
        usage: Usage,
        cost: Option<Money>,
        unmetered: u32,
    ) {
        if usage.total() > 0 {
            self.add_usage(&UsageTotals::from_call(usage, cost));
        }
        self.usage_unknown |= unmetered > 0;
        self.unpriced_calls += unmetered;
    }

    /// Returns the time limit as reached, for a driver whose own clock detected it. `None` if the run has no time
    /// limit.
    pub(super) fn wall_limit(&self) -> Option<LimitReached> {
        let wall = self.config.limits.wall?;
        Some(limit_reached(LimitKind::Wall, &Seconds(wall), &Seconds(wall)))
    }

    /// Returns the limit at which the model was asked for a final response. `None` if it was not asked.
    pub fn final_answer_limit(&self) -> Option<LimitReached> {
        self.final_answer_limit.clone()
    }

    /// Returns the limit that a round of `calls` more tool calls would exceed. `None` if it exceeds none.
    pub(super) fn exceeded_by_calls(&self, calls: usize) -> Option<LimitReached> {
        let (limits, base) = (&self.config.limits, &self.baseline);
        let rounds = self.tool_rounds - base.tool_rounds;
        if let Some(allowed) = limits.turns
            && rounds >= allowed
        {
            return Some(limit_reached(LimitKind::Turns, &allowed, &rounds));
        }
        let used = self.tool_calls - base.tool_calls;
        let wanted = used.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
        match limits.tool_calls {
            Some(allowed) if wanted > allowed => {
                Some(limit_reached(LimitKind::ToolCalls, &allowed, &used))
            }
            _ => None,
        }
    }

    /// Grants the same limits again by moving the baseline.
    pub(super) fn extend_limits(&mut self, now: Timestamp) {
        self.usage_unknown = false;
        self.baseline = LimitBaseline {
            unpriced_calls: self.unpriced_calls,
            tool_rounds: self.tool_rounds,
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
