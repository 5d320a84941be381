//! The children of a run that are known, found by the call that asked for them and by their run.

use std::collections::HashMap;
use std::sync::Arc;

use provost_core::RunId;
use provost_core::work::EffectKey;
use provost_tool::ToolError;
use tokio_util::sync::CancellationToken;

use super::Child;
use super::carry::{Line, Waiting};
use super::kept::Kept;
use crate::child::{ChildAsk, ChildLife, ChildReport, LABEL_PREFIX};
use crate::outcome::Suspended;

/// Children in the order in which they were started.
#[derive(Default)]
pub(super) struct Known {
    children: Vec<Child>,
    /// Those of each call, by their place there.
    by_call: HashMap<EffectKey, HashMap<u32, usize>>,
    by_run: HashMap<RunId, usize>,
    /// How many have a label.
    labels: usize,
}

impl Known {
    pub(super) fn push(&mut self, child: Child) {
        let place = self.children.len();
        self.labels += usize::from(child.report.label.is_some());
        let (call, index) = &child.key;
        self.by_call.entry(call.clone()).or_default().insert(*index, place);
        self.by_run.insert(child.report.run, place);
        self.children.push(child);
    }

    pub(super) fn extend(&mut self, children: impl IntoIterator<Item = Child>) {
        children.into_iter().for_each(|child| self.push(child));
    }

    /// Makes room for so many more of a call.
    pub(super) fn reserve(&mut self, call: &EffectKey, more: usize) {
        self.children.reserve(more);
        self.by_run.reserve(more);
        self.by_call.entry(call.clone()).or_default().reserve(more);
    }

    /// Puts a child in line, unless it is known.
    pub(super) fn add(
        &mut self,
        line: &mut Line,
        ask: ChildAsk,
        kept: Option<Kept>,
    ) -> Result<ChildReport, ToolError> {
        let key = (line.walk.cx.effect_key().clone(), ask.index);
        if let Some(child) = self.of_key(&key) {
            return Ok(child.report.clone());
        }
        let found = line.find(&ask.place)?;
        let cancel = match ask.life {
            ChildLife::Call => line.walk.cx.cancelled().child_token(),
            ChildLife::Run => line.walk.parent.control.cancel.child_token(),
            ChildLife::Detached => CancellationToken::new(),
        };
        let suspended = match kept {
            Some(Kept::Done(report)) => {
                self.push(Child::new(key, ask.life, cancel, report.clone()));
                return Ok(report);
            }
            Some(Kept::Waits(suspended)) => Some(Box::new(suspended)),
            None => None,
        };
        let member = ask.member().map(str::to_owned);
        // A member is called by its name.
        let labelled = ask.life != ChildLife::Call && member.is_none();
        let label = labelled.then(|| format!("{LABEL_PREFIX}{}", self.labels + 1));
        let run = suspended.as_deref().map_or_else(|| line.walk.parent.env.id(), Suspended::run_id);
        let report = ChildReport::begun(run, label.clone(), Arc::clone(&found.core.name));
        self.push(Child::new(key, ask.life, cancel.clone(), report.clone()));
        let ChildAsk { task, life, max_turns, timeout, .. } = ask;
        line.push(Waiting {
            place: self.children.len() - 1,
            run,
            found,
            task,
            suspended,
            cancel,
            life,
            label,
            max_turns,
            timeout,
            member,
        });
        Ok(report)
    }

    /// The one that a call asked for at a place.
    fn of_key(&self, (call, index): &(EffectKey, u32)) -> Option<&Child> {
        self.children.get(*self.by_call.get(call)?.get(index)?)
    }

    pub(super) fn of_run(&self, run: RunId) -> Option<&Child> {
        self.children.get(*self.by_run.get(&run)?)
    }

    pub(super) fn at_mut(&mut self, place: usize) -> Option<&mut Child> {
        self.children.get_mut(place)
    }

    pub(super) fn of_run_mut(&mut self, run: RunId) -> Option<&mut Child> {
        self.children.get_mut(*self.by_run.get(&run)?)
    }

    /// How many children must end, or wait for a person, before all of these have or, if one is enough, one of them. Nothing, if
    /// there is nothing to wait for.
    pub(super) fn open(&self, runs: &[RunId], any: bool) -> Option<usize> {
        let known = || runs.iter().map(|run| self.of_run(*run));
        let is_over =
            |child: Option<&Child>| child.is_none_or(|child| child.report.status.is_over());
        if any && known().any(is_over) {
            return None;
        }
        let open = known().flatten().filter(|child| !child.is_settled()).count();
        match open {
            0 => None,
            _ if any => Some(1),
            _ => Some(open),
        }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Child> {
        self.children.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Child> {
        self.children.iter_mut()
    }
}
