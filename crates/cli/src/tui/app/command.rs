//! What the commands that begin with a slash do.

use super::{App, Effect};
use crate::problem::Problem;
use crate::tui::slash::{self, Slash};
use crate::tui::transcript::Body;

impl App {
    pub(super) fn slash(&mut self, command: Slash) -> Vec<Effect> {
        let is_idle = self.running.is_none();
        match command {
            Slash::Help => self.transcript.push(Body::Notice(slash::help())),
            Slash::Model(None) => {
                let text = format!("the model is `{}`", self.facts.model);
                self.transcript.push(Body::Notice(text));
            }
            Slash::Tools => {
                let line = |(name, what): &(String, String)| format!("- `{name}`: {what}\n");
                let lines: String = self.facts.tools.iter().map(line).collect();
                let text = if lines.is_empty() { "there are no tools".to_owned() } else { lines };
                self.transcript.push(Body::Notice(text));
            }
            Slash::Save(file) => {
                return vec![Effect::Save(file, self.transcript.to_markdown())];
            }
            Slash::Quit => return vec![Effect::Quit],
            Slash::Model(Some(name)) if is_idle => return vec![Effect::Model(name)],
            Slash::Clear if is_idle => return vec![Effect::BeginAnew, Effect::Redraw],
            Slash::Model(Some(_)) | Slash::Clear => {
                self.complain("not while a turn is running", "wait for it, or stop it with Ctrl-C")
            }
            Slash::Unknown(name) => self.complain(
                &format!("there is no command /{name}"),
                "type /help; begin with a space to send text that begins with a slash",
            ),
        }
        Vec::new()
    }

    fn complain(&mut self, what: &str, help: &str) {
        let problem = Problem::invalid(what).help(help);
        self.transcript.push(Body::Problem(problem));
    }
}
