//! Usage of child runs, which counts towards this run.

use std::collections::BTreeMap;

use provost_core::{AgentUsage, RunId};

use super::{Run, UsageTotals};

impl Run {
    /// Adds the usage of a child run. A repeated report of the same child is ignored.
    pub(super) fn add_child_usage(&mut self, child: RunId, used: Vec<AgentUsage>) {
        if self.child_usage.contains_key(&child) {
            return;
        }
        used.iter().for_each(|agent| self.add_usage(&agent.into()));
        self.child_usage.insert(child, used);
    }

    /// Returns true if the usage of this child is already included.
    pub fn includes_child(&self, child: RunId) -> bool {
        self.child_usage.contains_key(&child)
    }

    /// Returns the usage of each agent, this run's agent first. Empty if there are no child runs.
    pub(super) fn usage_by_agent(&self) -> Vec<AgentUsage> {
        if self.child_usage.is_empty() {
            return Vec::new();
        }
        let mut sums: BTreeMap<&str, UsageTotals> = BTreeMap::new();
        for used in self.child_usage.values().flatten() {
            sums.entry(&used.agent).or_default().add(&used.into());
        }
        let mut own = self.totals();
        for used in sums.values() {
            // The model calls of a child are not counted in this run's turns.
            own = own.saturating_sub(&UsageTotals { turns: 0, ..used.clone() });
        }
        let children = sums.into_iter().map(|(agent, used)| used.into_agent_usage(agent));
        std::iter::once(own.into_agent_usage(&self.agent)).chain(children).collect()
    }

    /// Returns the usage of each agent of this run, as its parent counts it. Never empty.
    pub fn agent_usage(&self) -> Vec<AgentUsage> {
        let all = self.usage_by_agent();
        if all.is_empty() { vec![self.totals().into_agent_usage(&self.agent)] } else { all }
    }
}
