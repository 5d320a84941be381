//! What a run and everything below it have used, while they run.
//!
//! The machine counts what has ended; this counts what is under way, so that children that work at the same time cannot
//! together use more than the run above them may.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_core::{AgentUsed, LimitKind, LimitReached, Limits, Money, Usage};

/// The use of one run and of those below it.
#[derive(Debug)]
pub(crate) struct Pot {
    above: Option<Arc<Pot>>,
    limits: Limits,
    /// Tokens that a policy gives all of it. Nobody extends that.
    bound: AtomicU64,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: Sum,
    /// The part of it that was before the limits were extended: it does not count for them any more.
    before: Sum,
}

/// No policy says how many tokens there are.
const UNBOUND: u64 = u64::MAX;

/// What was used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    /// Model calls.
    pub(crate) turns: u32,
    pub(crate) usage: Usage,
    pub(crate) cost: Option<Money>,
    pub(crate) unpriced_calls: u32,
}

impl Sum {
    /// The same, as one agent's.
    pub(crate) fn of_agent(self, agent: &str) -> AgentUsed {
        let Self { turns, usage, cost, unpriced_calls } = self;
        AgentUsed { agent: agent.to_owned(), turns, usage, cost, unpriced_calls }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.turns += more.turns;
        self.usage += more.usage;
        self.unpriced_calls += more.unpriced_calls;
        match (self.cost, more.cost) {
            (_, None) => {}
            (None, Some(cost)) => self.cost = Some(cost),
            (Some(old), Some(cost)) => match old.plus(cost) {
                Ok(new) => self.cost = Some(new),
                Err(_) => self.unpriced_calls += 1,
            },
        }
    }
}

impl Pot {
    pub(crate) fn new(limits: Limits, above: Option<Arc<Self>>) -> Self {
        Self { above, limits, bound: AtomicU64::new(UNBOUND), used: Mutex::default() }
    }

    /// Adds one model call, here and in all runs above.
    pub(crate) fn add(&self, usage: Usage, cost: Option<Money>) {
        let unpriced_calls = u32::from(cost.is_none());
        self.add_all(&Sum { turns: 1, usage, cost, unpriced_calls });
    }

    /// Goes on with a run that had used something before, here and in all runs above.
    pub(crate) fn go_on(&self, all: &Sum, before: Sum) {
        self.add_all(all);
        self.lock().before = before;
    }

    /// The limits start again: the same amount of everything once more.
    pub(crate) fn extend(&self) {
        let mut used = self.lock();
        used.before = used.all.clone();
    }

    /// A policy gives all of it so many tokens; of several the fewest count.
    pub(crate) fn bound(&self, tokens: u64) {
        self.bound.fetch_min(tokens, Ordering::AcqRel);
    }

    /// What a policy gives is used up.
    pub(crate) fn used_up(&self) -> Option<LimitReached> {
        let allowed = self.bound.load(Ordering::Acquire);
        // Those below that work at the same time need not wait for each other to learn that there is no such limit.
        if allowed == UNBOUND {
            return None;
        }
        let Usage { input, output, .. } = self.lock().all.usage;
        let used = input.saturating_add(output);
        (used >= allowed).then(|| LimitReached {
            limit: LimitKind::TotalTokens,
            allowed: allowed.to_string(),
            used: used.to_string(),
        })
    }

    fn add_all(&self, more: &Sum) {
        let mut pot = Some(self);
        while let Some(this) = pot {
            this.lock().all.add(more);
            pot = this.above.as_deref();
        }
    }

    /// The limit of a run above that is used up.
    pub(crate) fn spent_above(&self) -> Option<LimitReached> {
        let mut pot = self.above.as_deref();
        while let Some(this) = pot {
            if let Some(reached) = this.used_up().or_else(|| this.spent()) {
                return Some(reached);
            }
            pot = this.above.as_deref();
        }
        None
    }

    /// All of it.
    pub(crate) fn used(&self) -> Sum {
        self.lock().all.clone()
    }

    fn spent(&self) -> Option<LimitReached> {
        let Limits { input_tokens, output_tokens, total_tokens, cost, .. } = &self.limits;
        let tokens = [input_tokens, output_tokens, total_tokens];
        if tokens.iter().all(|tokens| tokens.is_none()) && cost.is_none() {
            return None;
        }
        let used = self.lock();
        let (all, before, limits) = (&used.all, &used.before, &self.limits);
        let input = all.usage.input.saturating_sub(before.usage.input);
        let output = all.usage.output.saturating_sub(before.usage.output);
        let counts = [
            (LimitKind::InputTokens, limits.input_tokens, input),
            (LimitKind::OutputTokens, limits.output_tokens, output),
            (LimitKind::TotalTokens, limits.total_tokens, input.saturating_add(output)),
        ];
        for (limit, allowed, used) in counts {
            if let Some(allowed) = allowed.filter(|allowed| used >= *allowed) {
                let (allowed, used) = (allowed.to_string(), used.to_string());
                return Some(LimitReached { limit, allowed, used });
            }
        }
        let (allowed, cost) = (limits.cost?, all.cost?);
        let before = before.cost.filter(|before| before.currency == cost.currency);
        let amount = before.map_or(cost.amount, |before| cost.amount - before.amount);
        let used = Money { amount, ..cost };
        let reached = used.currency == allowed.currency && used.amount >= allowed.amount;
        reached.then(|| LimitReached {
            limit: LimitKind::Cost,
            allowed: allowed.to_string(),
            used: used.to_string(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
