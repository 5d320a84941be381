//! Task request of a child run.

use std::time::Duration;

use provost_core::ContentPart;
use provost_core::command::{InputProvenance, ProvenanceKind, TaskRequest};
use provost_core::id::name::SessionName;
use provost_store::table::work::run::RunRow;

use crate::error::EngineError;

/// The parts of a child's task request that depend on the call that starts it.
pub(super) struct ChildRequest<'a> {
    pub(super) parent: &'a RunRow,
    /// Tool call that starts the child.
    pub(super) call_id: &'a str,
    /// User that the parent run works for.
    pub(super) user: Option<&'a str>,
    /// Principal that requested the task of the parent run.
    pub(super) requested_by: Option<&'a str>,
    pub(super) message: &'a str,
    pub(super) agent: &'a str,
    pub(super) session: SessionName,
    pub(super) timeout: Option<Duration>,
    pub(super) label: Option<String>,
    /// Lane of the execution class. `None` selects the lane of the agent.
    pub(super) lane: Option<&'a str>,
}

impl ChildRequest<'_> {
    /// Returns the task request. Fails if it is invalid, for example if the message is too long.
    pub(super) fn into_task_request(self) -> Result<TaskRequest, EngineError> {
        let millis = |timeout: Duration| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let request = TaskRequest {
            message: vec![ContentPart::text(self.message)],
            agent: Some(self.agent.to_owned()),
            session_id: Some(self.session),
            timeout_ms: self.timeout.map(millis),
            label: self.label,
            lane: self.lane.map(str::to_owned),
            spawned_by: Some(format!("run:{}", self.parent.id)),
            input_provenance: Some(InputProvenance {
                kind: ProvenanceKind::InterSession,
                source: Some(self.parent.session_id.clone()),
                tool_call_id: Some(self.call_id.to_owned()),
                correlation_id: Some(self.parent.id.to_string()),
                ..InputProvenance::default()
            }),
            new_task: true,
            user: self.user.map(str::to_owned),
            requested_by: self.requested_by.map(str::to_owned),
            ..TaskRequest::default()
        };
        request.validate()?;
        Ok(request)
    }
}
