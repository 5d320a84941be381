//! Lists of what belongs to a run or a namespace, page by page. What belongs to another namespace is not there.

use provost_core::id::name::Namespace;
use provost_core::{ApprovalId, RunId};
use provost_store::table::governance::approval::{self, ApprovalFilter, ApprovalRow};
use provost_store::table::work::attempt::{self, AttemptRow};
use provost_store::table::work::run_step::{self, RunStepRow};
use provost_store::table::work::session::{self, SessionFilter, SessionRow};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::query::event_log::check_run;
use crate::tasks::{PAGE_MAX, Page};

impl Engine {
    /// The steps of a run after a number, in order. What is large is named by its hash only.
    pub async fn steps(
        &self,
        namespace: &Namespace,
        run: RunId,
        after: u64,
        limit: u64,
    ) -> Result<Page<RunStepRow, u64>, EngineError> {
        let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
        let rows = self.store().read(move |tx| {
            check_run(tx, &namespace, run)?;
            Ok::<_, EngineError>(run_step::after(tx, run, after, limit)?)
        });
        Ok(Page::new(rows.await?, limit, |row| row.step))
    }

    /// The attempts of a run, in order.
    pub async fn attempts(
        &self,
        namespace: &Namespace,
        run: RunId,
    ) -> Result<Vec<AttemptRow>, EngineError> {
        let namespace = namespace.clone();
        let rows = self.store().read(move |tx| {
            check_run(tx, &namespace, run)?;
            Ok::<_, EngineError>(attempt::of_run(tx, run)?)
        });
        rows.await
    }

    /// Sessions of a namespace by id, the last first: ids that nobody chose are in the order of time. The next page begins
    /// where `filter.before` says.
    pub async fn sessions(
        &self,
        namespace: &Namespace,
        filter: SessionFilter,
        limit: u64,
    ) -> Result<Page<SessionRow, String>, EngineError> {
        let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
        let rows = self.store().read(move |tx| {
            Ok::<_, EngineError>(session::find(tx, namespace.as_str(), &filter, limit)?)
        });
        Ok(Page::new(rows.await?, limit, |row| row.id.clone()))
    }

    /// A session as it stands.
    pub async fn session_row(
        &self,
        namespace: &Namespace,
        id: &str,
    ) -> Result<SessionRow, EngineError> {
        let (namespace, id) = (namespace.clone(), id.to_owned());
        let row = self.store().read(move |tx| {
            let row = session::get(tx, namespace.as_str(), &id)?;
            row.ok_or_else(|| EngineError::not_found("session", &id))
        });
        row.await
    }

    /// Questions of a namespace in any state, newest first. The next page begins where `filter.before` says.
    pub async fn approvals(
        &self,
        namespace: &Namespace,
        filter: ApprovalFilter,
        limit: u64,
    ) -> Result<Page<ApprovalRow, ApprovalId>, EngineError> {
        let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
        let rows = self.store().read(move |tx| {
            Ok::<_, EngineError>(approval::list(tx, namespace.as_str(), &filter, limit)?)
        });
        Ok(Page::new(rows.await?, limit, |row| row.id))
    }
}
