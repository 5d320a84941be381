//! Execution of slash commands.

use super::{App, Effect};
use crate::error::CliError;
use crate::tui::slash::{self, SlashCommand};
use crate::tui::transcript::EntryBody;

impl App {
    /// Executes a slash command.
    pub(super) fn slash(&mut self, command: SlashCommand) -> Vec<Effect> {
        let is_idle = self.running.is_none();
        match command {
            SlashCommand::Help => self.transcript.push(EntryBody::Notice(slash::help())),
            SlashCommand::Model(None) => {
                let text = format!("the model is `{}`", self.status.model);
                self.transcript.push(EntryBody::Notice(text));
            }
            SlashCommand::Tools => {
                let line = |(name, about): &(String, String)| format!("- `{name}`: {about}\n");
                let lines: String = self.status.tools.iter().map(line).collect();
                let text =
                    if lines.is_empty() { "the agent has no tools".to_owned() } else { lines };
                self.transcript.push(EntryBody::Notice(text));
            }
            SlashCommand::Save(file) => {
                return vec![Effect::Save(file, self.transcript.to_markdown())];
            }
            SlashCommand::Quit => return vec![Effect::Quit],
            SlashCommand::Model(Some(name)) if is_idle => return vec![Effect::Model(name)],
            SlashCommand::Clear if is_idle => {
                return vec![Effect::StartConversation, Effect::Redraw];
            }
            SlashCommand::Model(Some(_)) | SlashCommand::Clear => self
                .push_error("not while a run is active", "wait for it, or cancel it with Ctrl-C"),
            SlashCommand::Unknown(name) => self.push_error(
                &format!("there is no command /{name}"),
                "type /help; to send text that starts with a slash, type a space before it",
            ),
        }
        Vec::new()
    }

    fn push_error(&mut self, message: &str, hint: &str) {
        let problem = CliError::invalid(message).hint(hint);
        self.transcript.push(EntryBody::Error(problem));
    }
}
