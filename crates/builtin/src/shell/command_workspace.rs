//! The workspace of a command: the workspace of its conversation or of its isolation profile.

use provost_core::ToolResultPart;
use provost_sandbox::WorkspaceMount;
use provost_tool::{ToolContext, ToolError, ToolOutput};
use provost_workspace::conversation::{
    ConversationWorkspaces, SnapshotLabel, WorkspaceError, WorkspaceHandle, WorkspaceKey,
};

/// The workspace of a command. It is released when the command has ended.
pub(super) struct CommandWorkspace {
    /// Access to the conversation's workspace, and the label of the snapshot that the call creates.
    guard: Option<(WorkspaceHandle, SnapshotLabel)>,
}

impl CommandWorkspace {
    /// Acquires the workspace of the conversation, if conversations have workspaces, and reports lost files to the run.
    /// Returns an error for a call without a conversation, because its files could not be saved.
    pub(super) async fn acquire(
        workspaces: Option<&ConversationWorkspaces>,
        cx: &ToolContext,
    ) -> Result<Self, ToolError> {
        let Some(workspaces) = workspaces else { return Ok(Self { guard: None }) };
        let Some(conversation) = cx.conversation() else {
            return Err(ToolError::Failed(
                "the call has no conversation and therefore no workspace".to_owned(),
            ));
        };
        let key = WorkspaceKey {
            namespace: conversation.namespace.clone(),
            conversation: conversation.id.clone(),
            principal: conversation.principal.clone(),
        };
        let guard = workspaces.acquire(&key).await.map_err(tool_error)?;
        if let Some(reason) = guard.data_loss() {
            conversation.report_workspace_reset(reason).await.map_err(ToolError::Failed)?;
        }
        let label = SnapshotLabel { label: cx.effect_key().to_string(), turn: conversation.turn };
        Ok(Self { guard: Some((guard, label)) })
    }

    /// Returns the mount for the command, or `default` without a conversation workspace.
    pub(super) fn mount(&self, default: WorkspaceMount) -> WorkspaceMount {
        match &self.guard {
            Some((guard, _)) => WorkspaceMount::ReadWrite(guard.dir().to_owned()),
            None => default,
        }
    }

    /// Returns the note that tells the model about lost files. Empty if none were lost.
    pub(super) fn note(&self) -> String {
        let loss = self.guard.as_ref().and_then(|(guard, _)| guard.data_loss());
        loss.map(|reason| format!("[the workspace was reset: {reason}]\n")).unwrap_or_default()
    }

    /// Saves the files, and returns the result with the note about lost files. Returns an error with the output if the
    /// files cannot be saved.
    pub(super) async fn save_and_return(
        self,
        result: Result<ToolOutput, ToolError>,
    ) -> Result<ToolOutput, ToolError> {
        let note = self.note();
        let saved = self.save().await;
        let mut output = result?;
        if !note.is_empty() {
            output.parts.insert(0, ToolResultPart::Text { text: note });
        }
        match saved {
            Ok(()) => Ok(output),
            Err(error) => Err(ToolError::Failed(format!("{}\n[{error}]", output.to_text()))),
        }
    }

    /// Saves the files of the workspace. Does nothing without a conversation workspace.
    pub(super) async fn save(self) -> Result<(), WorkspaceError> {
        match self.guard {
            Some((guard, label)) => guard.release(label).await,
            None => Ok(()),
        }
    }
}

/// Converts an error of the workspace.
fn tool_error(error: WorkspaceError) -> ToolError {
    ToolError::Fault(error.to_contract_error())
}
