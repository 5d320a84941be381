//! What runs below this one used; it counts here, too.

use std::collections::BTreeMap;

use provost_core::{AgentUsed, Money, RunId, Usage};

use super::Run;

impl Run {
    /// A run below used this. Told twice, it counts once.
    pub(super) fn child_used(&mut self, child: RunId, used: Vec<AgentUsed>) {
        if self.below.contains_key(&child) {
            return;
        }
        for agent in &used {
            self.usage += agent.usage;
            self.unpriced_calls += agent.unpriced_calls;
            match (self.cost, agent.cost) {
                // Two currencies in one run cannot be added: its calls count as unpriced, all of them.
                (Some(sum), Some(cost)) if sum.plus(cost).is_err() => {
                    self.unpriced_calls += agent.turns.saturating_sub(agent.unpriced_calls);
                }
                (_, cost) => self.add_known_cost(cost),
            }
        }
        self.below.insert(child, used);
    }

    /// True if this child's usage is in already.
    pub fn counts_child(&self, child: RunId) -> bool {
        self.below.contains_key(&child)
    }

    /// What each agent used, this one first; nothing, if there is no other.
    pub(super) fn used_by_agent(&self) -> Vec<AgentUsed> {
        if self.below.is_empty() {
            return Vec::new();
        }
        let mut sums: BTreeMap<&str, AgentUsed> = BTreeMap::new();
        for used in self.below.values().flatten() {
            match sums.get_mut(used.agent.as_str()) {
                Some(sum) => add(sum, used),
                None => {
                    sums.insert(&used.agent, used.clone());
                }
            }
        }
        let mut own = self.own_use();
        for used in sums.values() {
            own.usage = less(own.usage, used.usage);
            own.unpriced_calls = own.unpriced_calls.saturating_sub(used.unpriced_calls);
            if let (Some(mine), Some(theirs)) = (own.cost, used.cost)
                && mine.currency == theirs.currency
            {
                own.cost = Some(Money { amount: mine.amount - theirs.amount, ..mine });
            }
        }
        std::iter::once(own).chain(sums.into_values()).collect()
    }

    /// All that this run used, as its parent counts it.
    pub fn used(&self) -> Vec<AgentUsed> {
        let all = self.used_by_agent();
        if all.is_empty() { vec![self.own_use()] } else { all }
    }

    fn own_use(&self) -> AgentUsed {
        AgentUsed {
            agent: self.agent.to_string(),
            turns: self.turns,
            usage: self.usage,
            cost: self.cost,
            unpriced_calls: self.unpriced_calls,
        }
    }
}

fn add(sum: &mut AgentUsed, used: &AgentUsed) {
    sum.turns += used.turns;
    sum.usage += used.usage;
    sum.unpriced_calls += used.unpriced_calls;
    sum.cost = match (sum.cost, used.cost) {
        (Some(sum), Some(cost)) => sum.plus(cost).ok().or(Some(sum)),
        (sum, cost) => sum.or(cost),
    };
}

fn less(all: Usage, part: Usage) -> Usage {
    Usage {
        input: all.input.saturating_sub(part.input),
        output: all.output.saturating_sub(part.output),
        cache_read: all.cache_read.saturating_sub(part.cache_read),
        cache_write: all.cache_write.saturating_sub(part.cache_write),
        reasoning: all.reasoning.saturating_sub(part.reasoning),
    }
}
