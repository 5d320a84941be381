//! Totals of usage, and the limits on them.

use provost_core::{AgentUsage, LimitKind, LimitReached, Limits, Money, Usage};

/// The model calls, tokens and cost of a run, an agent or a tree of runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct UsageTotals {
    /// Model calls.
    pub(crate) turns: u32,
    pub(crate) usage: Usage,
    pub(crate) cost: Option<Money>,
    pub(crate) unpriced_calls: u32,
    /// True if a provider did not report the usage of a call.
    pub(crate) usage_unknown: bool,
}

/// The used amount in a message about usage that a provider does not report.
const UNKNOWN: &str = "unknown: the provider does not say";

impl UsageTotals {
    /// The usage of one model call; `cost` is `None` if its price is not known.
    pub(crate) fn from_call(usage: Usage, cost: Option<Money>) -> Self {
        let unpriced_calls = u32::from(cost.is_none());
        Self { turns: 1, usage, cost, unpriced_calls, usage_unknown: false }
    }

    pub(crate) fn into_agent_usage(self, agent: &str) -> AgentUsage {
        let Self { turns, usage, cost, unpriced_calls, .. } = self;
        AgentUsage { agent: agent.to_owned(), turns, usage, cost, unpriced_calls }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.turns += more.turns;
        self.usage += more.usage;
        self.unpriced_calls += more.unpriced_calls;
        self.usage_unknown |= more.usage_unknown;
        match (self.cost, more.cost) {
            (Some(sum), Some(cost)) => match sum.plus(cost) {
                Ok(sum) => self.cost = Some(sum),
                // Two currencies have no sum: count the calls as unpriced rather than wrongly.
                Err(_) => self.unpriced_calls += more.turns.saturating_sub(more.unpriced_calls),
            },
            (sum, cost) => self.cost = sum.or(cost),
        }
    }

    /// Subtracts a part that is contained in these totals.
    pub(crate) fn saturating_sub(&self, part: &Self) -> Self {
        let (all, less) = (self.usage, part.usage);
        Self {
            turns: self.turns.saturating_sub(part.turns),
            usage: Usage {
                input: all.input.saturating_sub(less.input),
                output: all.output.saturating_sub(less.output),
                cache_read: all.cache_read.saturating_sub(less.cache_read),
                cache_write: all.cache_write.saturating_sub(less.cache_write),
                reasoning: all.reasoning.saturating_sub(less.reasoning),
            },
            cost: match (self.cost, part.cost) {
                (Some(all), Some(less)) if all.currency == less.currency => {
                    Some(Money { amount: all.amount - less.amount, ..all })
                }
                (all, _) => all,
            },
            unpriced_calls: self.unpriced_calls.saturating_sub(part.unpriced_calls),
            usage_unknown: self.usage_unknown,
        }
    }

    /// Returns the limit on tokens or cost that these totals reach. Unknown usage reaches every limit on it, because
    /// the run must stop rather than guess.
    pub(crate) fn exceeded(&self, limits: &Limits) -> Option<LimitReached> {
        let Usage { input, output, .. } = self.usage;
        let counts = [
            (LimitKind::InputTokens, limits.input_tokens, input),
            (LimitKind::OutputTokens, limits.output_tokens, output),
            (LimitKind::TotalTokens, limits.total_tokens, input.saturating_add(output)),
        ];
        for (limit, allowed, used) in counts {
            let Some(allowed) = allowed else { continue };
            if used >= allowed {
                return Some(limit_reached(limit, &allowed, &used));
            }
            if self.usage_unknown {
                return Some(limit_reached(limit, &allowed, &UNKNOWN));
            }
        }
        let allowed = limits.cost?;
        if self.usage_unknown || self.unpriced_calls > 0 {
            return Some(limit_reached(LimitKind::Cost, &allowed, &UNKNOWN));
        }
        let used = self.cost.filter(|used| used.amount >= allowed.amount)?;
        Some(limit_reached(LimitKind::Cost, &allowed, &used))
    }
}

impl From<&AgentUsage> for UsageTotals {
    fn from(used: &AgentUsage) -> Self {
        let AgentUsage { turns, usage, cost, unpriced_calls, .. } = *used;
        Self { turns, usage, cost, unpriced_calls, usage_unknown: false }
    }
}

pub(crate) fn limit_reached(
    limit: LimitKind,
    allowed: &dyn ToString,
    used: &dyn ToString,
) -> LimitReached {
    LimitReached { limit, allowed: allowed.to_string(), used: used.to_string() }
}
