//! The children of a run that are known, found by the call that asked for them and by their run.

use std::collections::HashMap;

use provost_core::RunId;
use provost_core::work::EffectKey;

use super::Child;

/// Children in the order in which they were started.
#[derive(Default)]
pub(super) struct Known {
    children: Vec<Child>,
    by_key: HashMap<(EffectKey, u32), usize>,
    by_run: HashMap<RunId, usize>,
}

impl Known {
    pub(super) fn push(&mut self, child: Child) {
        let place = self.children.len();
        self.by_key.insert(child.key.clone(), place);
        self.by_run.insert(child.report.run, place);
        self.children.push(child);
    }

    pub(super) fn extend(&mut self, children: impl IntoIterator<Item = Child>) {
        children.into_iter().for_each(|child| self.push(child));
    }

    /// The one that a call asked for at a place.
    pub(super) fn of_key(&self, key: &(EffectKey, u32)) -> Option<&Child> {
        self.children.get(*self.by_key.get(key)?)
    }

    pub(super) fn of_run(&self, run: RunId) -> Option<&Child> {
        self.children.get(*self.by_run.get(&run)?)
    }

    pub(super) fn of_run_mut(&mut self, run: RunId) -> Option<&mut Child> {
        self.children.get_mut(*self.by_run.get(&run)?)
    }

    /// How many have a label.
    pub(super) fn labels(&self) -> usize {
        self.iter().filter(|child| child.report.label.is_some()).count()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Child> {
        self.children.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Child> {
        self.children.iter_mut()
    }
}
