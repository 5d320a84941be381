//! What children used, on its way to the counts of the run above.

use std::sync::Arc;

use provost_core::{AgentUsed, RunId};

use crate::pot::Sum;
use crate::run::add_used;

/// What one child and those below it used.
pub(super) enum Used {
    Nothing,
    /// There was nobody below it.
    Alone(Sum),
    Together(Vec<AgentUsed>),
}

impl Used {
    /// The same by agent, where the child's own is called `path`.
    pub(super) fn by_agent(self, path: &str) -> Vec<AgentUsed> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Alone(sum) => vec![sum.of_agent(path)],
            Self::Together(used) => used,
        }
    }
}

/// What children used that their calls waited for, all of them together: such a child ends once and is counted once, so nobody
/// has to tell one from the other.
#[derive(Default)]
pub(super) struct Tally {
    /// The first of them, under whose name the run counts all.
    first: Option<RunId>,
    used: Vec<AgentUsed>,
    /// What those without anybody below them used whose path is the same, which are nearly all.
    alone: Option<(Arc<str>, Sum)>,
}

impl Tally {
    pub(super) fn add(&mut self, child: RunId, path: &Arc<str>, used: Used) {
        if matches!(used, Used::Nothing) {
            return;
        }
        self.first.get_or_insert(child);
        match (used, &mut self.alone) {
            (Used::Alone(sum), None) => self.alone = Some((Arc::clone(path), sum)),
            (Used::Alone(more), Some((known, sum)))
                if **known == **path && sum.is_paid_like(&more) =>
            {
                sum.add(&more);
            }
            (used, _) => {
                let used = used.by_agent(path);
                used.into_iter().for_each(|used| add_used(&mut self.used, used));
            }
        }
    }

    /// All of it, under the name of the first child.
    pub(super) fn take(&mut self) -> Option<(RunId, Vec<AgentUsed>)> {
        let Self { first, mut used, alone } = std::mem::take(self);
        if let Some((path, sum)) = alone {
            add_used(&mut used, sum.of_agent(&path));
        }
        first.map(|first| (first, used))
    }
}

#[cfg(test)]
mod tests {
    use provost_core::{Currency, Env, Money, Usage};

    use super::*;

    fn sum(tokens: u64, cost: Option<(i64, Currency)>) -> Sum {
        let cost = cost.map(|(amount, currency)| Money { amount: amount.into(), currency });
        let unpriced_calls = u32::from(cost.is_none());
        Sum { turns: 1, usage: Usage::new(tokens, 1), cost, unpriced_calls }
    }

    #[test]
    fn what_many_used_is_told_once_under_the_name_of_the_first() {
        let env = Env::simulated(1);
        let (first, path): (RunId, Arc<str>) = (env.id(), "lead/child".into());
        let mut tally = Tally::default();
        tally.add(env.id(), &path, Used::Nothing);
        tally.add(first, &path, Used::Alone(sum(10, None)));
        tally.add(env.id(), &path, Used::Alone(sum(20, None)));
        // The same agent, found at another time.
        tally.add(env.id(), &"lead/child".into(), Used::Alone(sum(30, None)));
        let below = sum(40, None).of_agent("lead/child/below");
        let own = sum(50, None).of_agent("lead/child");
        tally.add(env.id(), &path, Used::Together(vec![own, below.clone()]));
        let all = Sum { turns: 4, usage: Usage::new(110, 4), cost: None, unpriced_calls: 4 };
        let (child, mut used) = tally.take().unwrap();
        used.sort_by(|one, other| one.agent.cmp(&other.agent));
        assert_eq!((child, used), (first, vec![all.of_agent("lead/child"), below]));
        assert_eq!(tally.take(), None);
    }

    #[test]
    fn what_was_paid_in_other_money_stays_apart() {
        let (env, path) = (Env::simulated(1), Arc::from("lead/child"));
        let mut tally = Tally::default();
        for (amount, currency) in [(1, Currency::USD), (2, Currency::EUR), (3, Currency::USD)] {
            tally.add(env.id(), &path, Used::Alone(sum(1, Some((amount, currency)))));
        }
        let (_, used) = tally.take().unwrap();
        let mut costs: Vec<_> = used.into_iter().filter_map(|used| used.cost).collect();
        costs.sort_by_key(|cost| cost.amount);
        let money = |amount: i64, currency| Money { amount: amount.into(), currency };
        assert_eq!(costs, [money(2, Currency::EUR), money(4, Currency::USD)]);
    }
}
