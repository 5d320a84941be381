//! Commands that start with a slash.

/// Command of a line that starts with `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SlashCommand {
    /// Shows the commands and keys.
    Help,
    /// Shows the model, or switches to another model.
    Model(Option<String>),
    /// Shows the tools.
    Tools,
    /// Writes the conversation to a file.
    Save(Option<String>),
    /// Starts a new conversation.
    Clear,
    /// Ends the chat.
    Quit,
    /// Unknown command.
    Unknown(String),
}

/// Commands with their arguments and descriptions.
const COMMANDS: [(&str, &str); 6] = [
    ("/help", "show this text"),
    ("/model [name]", "show the model, or switch to another model"),
    ("/tools", "show the tools of the agent"),
    ("/save [file]", "write the conversation to a Markdown file"),
    ("/clear", "start a new conversation"),
    ("/quit", "quit (also Ctrl-D); an unfinished run continues next time"),
];

/// Keys with their descriptions.
const KEYS: [(&str, &str); 8] = [
    ("Enter", "send the message; during a run, add it to the run"),
    ("Alt-Enter, Ctrl-J", "new line"),
    ("Up, Down", "move between lines, then through earlier messages"),
    ("PgUp, PgDn", "scroll"),
    ("Tab, Shift-Tab", "select a tool call; Enter unfolds it"),
    ("Ctrl-O", "fold or unfold the selected or the last tool call"),
    ("y n a", "decide an approval on an empty line: yes, no, always for this tool"),
    ("Ctrl-C", "cancel the run; press twice on an empty line to quit"),
];

/// Parses a line. `None` if it is not a command.
pub(crate) fn parse(line: &str) -> Option<SlashCommand> {
    let line = line.strip_prefix('/')?;
    if line.contains('\n') {
        return None;
    }
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let argument = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
    Some(match name.trim() {
        "help" | "?" => SlashCommand::Help,
        "model" => SlashCommand::Model(argument),
        "tools" => SlashCommand::Tools,
        "save" => SlashCommand::Save(argument),
        "clear" => SlashCommand::Clear,
        "quit" | "exit" | "q" => SlashCommand::Quit,
        other => SlashCommand::Unknown(other.to_owned()),
    })
}

/// Returns the help text in Markdown.
pub(crate) fn help() -> String {
    let mut text = String::new();
    for (name, about) in COMMANDS {
        text.push_str(&format!("- `{name}`: {about}\n"));
    }
    text.push('\n');
    for (keys, about) in KEYS {
        text.push_str(&format!("- `{keys}`: {about}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_text() {
        assert_eq!(parse("hello"), None);
        assert_eq!(parse(" /help"), None);
        assert_eq!(parse("/help"), Some(SlashCommand::Help));
        assert_eq!(parse("/model"), Some(SlashCommand::Model(None)));
        assert_eq!(
            parse("/model  openai/x "),
            Some(SlashCommand::Model(Some("openai/x".to_owned())))
        );
        assert_eq!(parse("/nope"), Some(SlashCommand::Unknown("nope".to_owned())));
        assert_eq!(parse("/etc/hosts\nis a file"), None);
    }
}
