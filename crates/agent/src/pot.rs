//! What a run and everything below it have used, while they run.
//!
//! The machine counts what has ended; this counts what is under way, so that children that work at the same time cannot
//! together use more than the run above them may.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_core::{AgentUsed, LimitKind, LimitReached, Limits, Money, Usage};

/// The use of one run and of those below it.
#[derive(Debug)]
pub(crate) struct Pot {
    above: Option<Arc<Pot>>,
    limits: Limits,
    used: Mutex<Sum>,
}

#[derive(Debug, Clone, Default)]
struct Sum {
    turns: u32,
    usage: Usage,
    cost: Option<Money>,
    unpriced_calls: u32,
}

impl Pot {
    pub(crate) fn new(limits: Limits, above: Option<Arc<Self>>) -> Self {
        Self { above, limits, used: Mutex::default() }
    }

    /// Adds one model call, here and in all runs above.
    pub(crate) fn add(&self, usage: Usage, cost: Option<Money>) {
        let mut pot = Some(self);
        while let Some(this) = pot {
            let mut sum = this.lock();
            sum.turns += 1;
            sum.usage += usage;
            match (sum.cost, cost) {
                (_, None) => sum.unpriced_calls += 1,
                (None, Some(cost)) => sum.cost = Some(cost),
                (Some(old), Some(cost)) => match old.plus(cost) {
                    Ok(new) => sum.cost = Some(new),
                    Err(_) => sum.unpriced_calls += 1,
                },
            }
            drop(sum);
            pot = this.above.as_deref();
        }
    }

    /// The limit of a run above that is used up.
    pub(crate) fn spent_above(&self) -> Option<LimitReached> {
        let mut pot = self.above.as_deref();
        while let Some(this) = pot {
            if let Some(reached) = this.spent() {
                return Some(reached);
            }
            pot = this.above.as_deref();
        }
        None
    }

    /// All of it, as one agent's.
    pub(crate) fn used_as(&self, agent: &str) -> AgentUsed {
        let Sum { turns, usage, cost, unpriced_calls } = self.lock().clone();
        AgentUsed { agent: agent.to_owned(), turns, usage, cost, unpriced_calls }
    }

    fn spent(&self) -> Option<LimitReached> {
        let sum = self.lock();
        let limits = &self.limits;
        let counts = [
            (LimitKind::InputTokens, limits.input_tokens, sum.usage.input),
            (LimitKind::OutputTokens, limits.output_tokens, sum.usage.output),
            (LimitKind::TotalTokens, limits.total_tokens, sum.usage.total()),
        ];
        for (limit, allowed, used) in counts {
            if let Some(allowed) = allowed.filter(|allowed| used >= *allowed) {
                let (allowed, used) = (allowed.to_string(), used.to_string());
                return Some(LimitReached { limit, allowed, used });
            }
        }
        let (allowed, used) = (limits.cost?, sum.cost?);
        let reached = used.currency == allowed.currency && used.amount >= allowed.amount;
        reached.then(|| LimitReached {
            limit: LimitKind::Cost,
            allowed: allowed.to_string(),
            used: used.to_string(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Sum> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
