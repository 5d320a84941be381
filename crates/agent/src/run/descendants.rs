//! What runs below this one used; it counts here, too.

use std::collections::BTreeMap;

use provost_core::{AgentUsed, RunId};

use super::{Run, UsageTotals};

impl Run {
    /// A run below used this. Told twice, it counts once.
    pub(super) fn child_used(&mut self, child: RunId, used: Vec<AgentUsed>) {
        if self.below.contains_key(&child) {
            return;
        }
        used.iter().for_each(|agent| self.add_used(&agent.into()));
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
        let mut sums: BTreeMap<&str, UsageTotals> = BTreeMap::new();
        for used in self.below.values().flatten() {
            sums.entry(&used.agent).or_default().add(&used.into());
        }
        let mut own = self.totals();
        for used in sums.values() {
            // The model calls of a child are not among those of the run.
            own = own.minus(&UsageTotals { turns: 0, ..used.clone() });
        }
        let children = sums.into_iter().map(|(agent, used)| used.of_agent(agent));
        std::iter::once(own.of_agent(&self.agent)).chain(children).collect()
    }

    /// All that this run used, as its parent counts it.
    pub fn used(&self) -> Vec<AgentUsed> {
        let all = self.used_by_agent();
        if all.is_empty() { vec![self.totals().of_agent(&self.agent)] } else { all }
    }
}
