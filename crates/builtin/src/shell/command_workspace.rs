//! Where a command works: the workspace of its conversation, or the one that its profile names.

use provost_core::ToolResultPart;
use provost_sandbox::Workspace;
use provost_tool::{ToolCx, ToolError, ToolOutput};
use provost_workspace::conversation::{Mark, Seat, Tenant, WorkspaceError, Workspaces};

/// Where a command works.
pub(super) struct Room {
    /// The place in the workspace of its conversation, and the call under which it is kept.
    seat: Option<(Seat, Mark)>,
}

impl Room {
    /// Takes a seat, where conversations have workspaces. A call that belongs to none has no files that could stay.
    pub(super) async fn enter(
        workspaces: Option<&Workspaces>,
        cx: &ToolCx,
    ) -> Result<Self, ToolError> {
        let Some(workspaces) = workspaces else { return Ok(Self { seat: None }) };
        let Some(conversation) = cx.conversation() else {
            return Err(ToolError::Failed(
                "the call belongs to no conversation, so there is no workspace for it".to_owned(),
            ));
        };
        let tenant = Tenant {
            namespace: conversation.namespace.clone(),
            conversation: conversation.id.clone(),
            principal: conversation.principal.clone(),
        };
        let seat = workspaces.enter(&tenant).await.map_err(refused)?;
        if let Some(reason) = seat.loss() {
            conversation.workspace_reset(reason).await.map_err(ToolError::Failed)?;
        }
        let mark = Mark { label: cx.effect_key().to_string(), turn: conversation.turn };
        Ok(Self { seat: Some((seat, mark)) })
    }

    /// The workspace of the job.
    pub(super) fn workspace(&self, named: Workspace) -> Workspace {
        match &self.seat {
            Some((seat, _)) => Workspace::ReadWrite(seat.dir().to_owned()),
            None => named,
        }
    }

    /// What the model must know of its files before it reads anything else.
    pub(super) fn note(&self) -> String {
        let loss = self.seat.as_ref().and_then(|(seat, _)| seat.loss());
        loss.map(|reason| format!("[the workspace was reset: {reason}]\n")).unwrap_or_default()
    }

    /// Keeps the files before anybody hears how the command ended.
    pub(super) async fn leave(
        self,
        ran: Result<ToolOutput, ToolError>,
    ) -> Result<ToolOutput, ToolError> {
        let note = self.note();
        let kept = self.keep().await;
        let mut output = ran?;
        if !note.is_empty() {
            output.parts.insert(0, ToolResultPart::Text { text: note });
        }
        match kept {
            Ok(()) => Ok(output),
            Err(error) => Err(ToolError::Failed(format!("{}\n[{error}]", output.to_text()))),
        }
    }

    /// Keeps the files.
    pub(super) async fn keep(self) -> Result<(), WorkspaceError> {
        match self.seat {
            Some((seat, mark)) => seat.leave(mark).await,
            None => Ok(()),
        }
    }
}

fn refused(error: WorkspaceError) -> ToolError {
    ToolError::Fault(error.fault())
}
