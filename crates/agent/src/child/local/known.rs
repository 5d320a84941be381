//! The children of a run that are known, found by the call that asked for them and by their run.
//!
//! Those of one call lie side by side and are mostly asked for in their order, so that a look at the next place finds nearly all
//! of them. Maps of thousands of children would cost more than that.

use std::collections::HashMap;
use std::sync::Arc;

use provost_core::RunId;
use provost_core::work::EffectKey;
use provost_tool::ToolError;
use tokio_util::sync::CancellationToken;

use super::Child;
use super::kept::Kept;
use super::line::{Line, Terms, Waiting};
use crate::child::{ChildAsk, ChildLife, ChildStarted, LABEL_PREFIX};
use crate::outcome::Suspended;

/// Children in the order in which they were started.
#[derive(Default)]
pub(super) struct Known {
    children: Vec<Child>,
    /// Where the children of each call begin.
    calls: HashMap<EffectKey, usize>,
    /// How many have a label.
    labels: usize,
}

impl Known {
    pub(super) fn push(&mut self, child: Child) {
        self.labels += usize::from(child.started.label.is_some());
        let call = &child.key.0;
        if self.children.last().is_none_or(|last| last.key.0 != *call) {
            self.calls.entry(call.clone()).or_insert(self.children.len());
        }
        self.children.push(child);
    }

    pub(super) fn extend(&mut self, children: impl IntoIterator<Item = Child>) {
        children.into_iter().for_each(|child| self.push(child));
    }

    /// Makes room for so many more of a call; true if it has none yet.
    pub(super) fn make_room(&mut self, call: &EffectKey, more: usize) -> bool {
        self.children.reserve(more);
        !self.calls.contains_key(call)
    }

    /// Puts a child in line.
    pub(super) fn add(
        &mut self,
        line: &mut Line,
        kept: Option<Kept>,
        ask: ChildAsk,
    ) -> Result<ChildStarted, ToolError> {
        let key = (line.walk.cx.effect_key().clone(), ask.index);
        let (definition, agent) = line.find(&ask.place)?;
        // One that lives as long as its call gets its own when it is its turn.
        let own = match ask.life {
            ChildLife::Call => None,
            ChildLife::Run => Some(line.walk.parent.control.cancel.child_token()),
            ChildLife::Detached => Some(CancellationToken::new()),
        };
        let cancel = own.clone().map_or_else(|| Arc::clone(&line.cancel), Arc::new);
        let suspended = match kept {
            Some(Kept::Done(report)) => {
                let started = report.started();
                self.push(Child::of_report(key, ask.life, cancel, report));
                return Ok(started);
            }
            Some(Kept::Waits(suspended)) => Some(suspended),
            None => None,
        };
        let member = ask.member().map(str::to_owned);
        // A member is called by its name.
        let labelled = ask.life != ChildLife::Call && member.is_none();
        let label = labelled.then(|| format!("{LABEL_PREFIX}{}", self.labels + 1));
        let run = suspended.as_ref().map_or_else(|| line.walk.parent.env.id(), Suspended::run_id);
        let started = ChildStarted { run, label: label.clone(), agent };
        self.push(Child::new(key, ask.life, cancel, started.clone()));
        let ChildAsk { task, life, max_turns, timeout, .. } = ask;
        let terms = Terms { suspended, cancel: own, label, max_turns, timeout, member };
        let terms = (!terms.are_plain()).then(|| Box::new(terms));
        line.push(Waiting { place: self.children.len() - 1, run, definition, task, life, terms });
        Ok(started)
    }

    /// The one that a call asked for at a place.
    pub(super) fn of_call(&self, call: &EffectKey, index: u32) -> Option<&Child> {
        let is_it = |child: &&Child| child.key.1 == index && child.key.0 == *call;
        let first = *self.calls.get(call)?;
        let likely = usize::try_from(index).ok().and_then(|index| self.children.get(first + index));
        likely.filter(is_it).or_else(|| self.children.iter().skip(first).find(is_it))
    }

    /// The places of these runs.
    pub(super) fn places(&self, runs: &[RunId]) -> Result<Vec<usize>, ToolError> {
        let mut next = 0;
        let place = |run: &RunId| {
            let is_it = |child: &Child| child.started.run == *run;
            let found = match self.children.get(next).is_some_and(is_it) {
                true => Some(next),
                // The newest are looked for most.
                false => self.children.iter().rposition(is_it),
            };
            next = found.map_or(0, |found| found + 1);
            found.ok_or_else(|| ToolError::Failed(format!("{run} is no child of this run")))
        };
        runs.iter().map(place).collect()
    }

    /// Tells a child to stop.
    pub(super) fn stop(&self, run: RunId) {
        let child = self.children.iter().rfind(|child| child.started.run == run);
        child.inspect(|child| child.cancel.cancel());
    }

    pub(super) fn at(&self, place: usize) -> Option<&Child> {
        self.children.get(place)
    }

    pub(super) fn at_mut(&mut self, place: usize) -> Option<&mut Child> {
        self.children.get_mut(place)
    }

    /// How many children must end, or wait for a person, before all of these have or, if one is enough, one of them. Nothing, if
    /// there is nothing to wait for.
    pub(super) fn open(&self, places: &[usize], any: bool) -> Option<usize> {
        let these = || places.iter().filter_map(|place| self.at(*place));
        if any && these().any(Child::is_over) {
            return None;
        }
        let open = these().filter(|child| !child.is_settled()).count();
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
