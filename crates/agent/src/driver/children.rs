//! Child runs: their usage, and their end with the run.

use provost_core::{LimitReached, StopReason};

use super::{Driver, DriverContext};
use crate::error::Error;
use crate::run::JournalEntry;
use crate::subagent::ChildSpawnerHandle;
use crate::subagent::local::LocalSpawner;

/// Maximum number of children in one journal entry: about the size that the store keeps inline, without compression.
const USED_AT_ONCE: usize = 32;

impl DriverContext {
    /// Stops the children that run in this process, and waits until they have ended.
    pub(super) async fn close_descendants(&self) {
        if let Some(local) = &self.relations.local {
            local.close().await;
        }
    }
}

impl Driver {
    /// Stops the run at a limit of a parent run or a policy, because no further request may start.
    pub(super) fn stop_at_limit(&mut self, reached: LimitReached) -> Result<(), Error> {
        self.emit_limit_reached(reached.clone());
        let (reason, at, limit) = (StopReason::Limit, self.now(), Some(Box::new(reached)));
        self.apply_entry(JournalEntry::Stopped { partial: None, cost: None, reason, limit, at })?;
        Ok(())
    }

    /// Records the usage of finished children in the run.
    pub(super) fn count_children(&mut self) -> Result<(), Error> {
        let local = self.cx.relations.local.as_ref().map(LocalSpawner::take_usage);
        let hosted = self.cx.relations.children.as_ref().map(ChildSpawnerHandle::take_usage);
        let all = local.into_iter().chain(hosted).flatten();
        let mut new = all.filter(|(child, _)| !self.run.includes_child(*child)).collect::<Vec<_>>();
        while new.len() > 1 {
            let rest = new.split_off(new.len().min(USED_AT_ONCE));
            self.apply_entry(JournalEntry::ChildrenUsage {
                children: std::mem::replace(&mut new, rest),
            })?;
        }
        match new.pop() {
            Some((child, used)) => {
                self.apply_entry(JournalEntry::ChildUsage { child, used }).map(drop)
            }
            None => Ok(()),
        }
    }

    /// Stops all running children and records their usage.
    pub(super) async fn close_children(&mut self) -> Result<(), Error> {
        self.cx.close_descendants().await;
        self.count_children()
    }

    /// Stops all children of a run that is suspended. The results of background tasks are saved with the run.
    pub(super) async fn keep_children(&mut self) -> Result<(), Error> {
        self.close_children().await?;
        let no_json = |error| Error::Bug(format!("a child's report has no JSON form: {error}"));
        let kept = self
            .cx
            .relations
            .local
            .as_ref()
            .map(|local| local.save_background_tasks(&self.cx.state));
        kept.unwrap_or(Ok(())).map_err(no_json)
    }
}
