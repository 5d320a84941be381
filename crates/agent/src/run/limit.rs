//! What a run may use, and what happens when it is used up.

use std::time::Duration;

use provost_core::{LimitKind, LimitReached, Money, Timestamp, ToolCall};
use serde::{Deserialize, Serialize};

use super::{Baseline, Run};
use crate::pot::Sum;

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

/// Used where a provider does not say what it used.
const UNKNOWN: &str = "unknown: the provider does not say";

impl Run {
    /// The first of tokens, money and time that is used up.
    pub(super) fn spent(&self, now: Timestamp) -> Option<LimitReached> {
        let (limits, base) = (&self.config.limits, &self.baseline);
        let used_input = self.usage.input.saturating_sub(base.usage.input);
        let used_output = self.usage.output.saturating_sub(base.usage.output);
        let counts = [
            (LimitKind::InputTokens, limits.input_tokens, used_input),
            (LimitKind::OutputTokens, limits.output_tokens, used_output),
            (LimitKind::TotalTokens, limits.total_tokens, used_input.saturating_add(used_output)),
        ];
        for (limit, allowed, used) in counts {
            let Some(allowed) = allowed else { continue };
            if used >= allowed {
                return Some(reached(limit, &allowed, &used));
            }
            if self.unmetered {
                return Some(reached(limit, &allowed, &UNKNOWN));
            }
        }
        // What cannot be counted cannot be limited: stop rather than guess.
        if let Some(allowed) = limits.cost
            && (self.unmetered || self.unpriced_calls > base.unpriced_calls)
        {
            return Some(reached(LimitKind::Cost, &allowed, &UNKNOWN));
        }
        if let (Some(allowed), Some(cost)) = (limits.cost, self.cost) {
            let before = base.cost.map_or(nothing(cost), |base| base);
            let used = Money { amount: cost.amount - before.amount, currency: cost.currency };
            if used.amount >= allowed.amount {
                return Some(reached(LimitKind::Cost, &allowed, &used));
            }
        }
        let wall = limits.wall?;
        let used = now.since(base.at);
        (used >= wall).then(|| reached(LimitKind::Wall, &Seconds(wall), &Seconds(used)))
    }

    /// All that it may use of tokens is used up, where nobody can extend that: what was before an extension counts.
    pub(crate) fn used_up(&self, allowed: u64) -> Option<LimitReached> {
        let used = self.usage.input.saturating_add(self.usage.output);
        let limit = LimitKind::TotalTokens;
        match used >= allowed {
            true => Some(reached(limit, &allowed, &used)),
            false => self.unmetered.then(|| reached(limit, &allowed, &UNKNOWN)),
        }
    }

    /// What it and those below it used so far.
    pub(crate) fn used_in_all(&self) -> Sum {
        let Self { turns, usage, cost, unpriced_calls, .. } = *self;
        Sum { turns, usage, cost, unpriced_calls }
    }

    /// The part of it that does not count for the limits any more, since they were extended.
    pub(crate) fn used_before(&self) -> Sum {
        let Baseline { usage, cost, unpriced_calls, .. } = self.baseline;
        Sum { usage, cost, unpriced_calls, ..Sum::default() }
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

fn nothing(like: Money) -> Money {
    Money { amount: Money::ZERO.amount, currency: like.currency }
}

fn reached(limit: LimitKind, allowed: &dyn ToString, used: &dyn ToString) -> LimitReached {
    LimitReached { limit, allowed: allowed.to_string(), used: used.to_string() }
}

struct Seconds(Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}
