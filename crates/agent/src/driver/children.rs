//! The runs below: what they use, and their end with the run.

use provost_core::{LimitReached, StopReason};

use super::{Cx, Driver};
use crate::error::Error;
use crate::run::Feed;
use crate::subagent::ChildHost;
use crate::subagent::local::LocalSpawner;

/// Children whose use is one feed: about what is stored beside a step without being packed.
const USED_AT_ONCE: usize = 32;

impl Cx {
    /// Ends what the run has started.
    pub(super) async fn close_below(&self) {
        if let Some(local) = &self.relations.local {
            local.close().await;
        }
    }
}

impl Driver {
    /// A limit of a run above, or of a policy, is used up: no further request may start.
    pub(super) fn stop_at(&mut self, reached: LimitReached) -> Result<(), Error> {
        self.tell_limit(reached.clone());
        let (reason, at, limit) = (StopReason::Limit, self.now(), Some(Box::new(reached)));
        self.feed(Feed::Stopped { partial: None, cost: None, reason, limit, at })?;
        Ok(())
    }

    /// Counts what runs below have used.
    pub(super) fn count_children(&mut self) -> Result<(), Error> {
        let local = self.cx.relations.local.as_ref().map(LocalSpawner::take_used);
        let hosted = self.cx.relations.children.as_ref().map(ChildHost::take_used);
        let all = local.into_iter().chain(hosted).flatten();
        let mut new = all.filter(|(child, _)| !self.run.counts_child(*child)).collect::<Vec<_>>();
        while new.len() > 1 {
            let rest = new.split_off(new.len().min(USED_AT_ONCE));
            self.feed(Feed::ChildrenUsed { children: std::mem::replace(&mut new, rest) })?;
        }
        match new.pop() {
            Some((child, used)) => self.feed(Feed::ChildUsed { child, used }).map(drop),
            None => Ok(()),
        }
    }

    /// Ends what the run has started and nobody asked for, and counts it.
    pub(super) async fn close_children(&mut self) -> Result<(), Error> {
        self.cx.close_below().await;
        self.count_children()
    }

    /// The same for a run that is suspended; what became of its background work is kept with it.
    pub(super) async fn keep_children(&mut self) -> Result<(), Error> {
        self.close_children().await?;
        let no_json = |error| Error::Bug(format!("a child's report has no JSON form: {error}"));
        let kept =
            self.cx.relations.local.as_ref().map(|local| local.save_labelled(&self.cx.state));
        kept.unwrap_or(Ok(())).map_err(no_json)
    }
}
