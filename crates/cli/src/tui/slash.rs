//! The commands that begin with a slash.

/// What a line that begins with `/` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slash {
    /// Show what there is.
    Help,
    /// Show the model, or use another one.
    Model(Option<String>),
    /// Show the tools.
    Tools,
    /// Write the conversation to a file.
    Save(Option<String>),
    /// Begin a new conversation.
    Clear,
    /// Leave.
    Quit,
    /// Something else.
    Unknown(String),
}

/// Every command with what follows it and what it does.
const COMMANDS: [(&str, &str); 6] = [
    ("/help", "this text"),
    ("/model [name]", "show the model, or use another one"),
    ("/tools", "what the agent can do"),
    ("/save [file]", "write the conversation as Markdown"),
    ("/clear", "begin a new conversation"),
    ("/quit", "leave (also Ctrl-D); a turn that is not finished goes on next time"),
];

const KEYS: [(&str, &str); 8] = [
    ("Enter", "send; while a turn runs, tell it something more"),
    ("Alt-Enter, Ctrl-J", "new line"),
    ("Up, Down", "lines, then earlier messages"),
    ("PgUp, PgDn", "look back"),
    ("Tab, Shift-Tab", "mark a tool call; Enter folds it open"),
    ("Ctrl-O", "fold the marked or the last tool call"),
    ("y n a", "answer a question on an empty line: yes, no, always this tool"),
    ("Ctrl-C", "stop the turn; twice on an empty line leaves"),
];

/// Reads a line; `None` if it is no command.
pub(crate) fn parse(line: &str) -> Option<Slash> {
    let line = line.strip_prefix('/')?;
    if line.contains('\n') {
        return None;
    }
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let argument = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
    Some(match name.trim() {
        "help" | "?" => Slash::Help,
        "model" => Slash::Model(argument),
        "tools" => Slash::Tools,
        "save" => Slash::Save(argument),
        "clear" => Slash::Clear,
        "quit" | "exit" | "q" => Slash::Quit,
        other => Slash::Unknown(other.to_owned()),
    })
}

/// The help, in Markdown.
pub(crate) fn help() -> String {
    let mut text = String::new();
    for (name, what) in COMMANDS {
        text.push_str(&format!("- `{name}`: {what}\n"));
    }
    text.push('\n');
    for (keys, what) in KEYS {
        text.push_str(&format!("- `{keys}`: {what}\n"));
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
        assert_eq!(parse("/help"), Some(Slash::Help));
        assert_eq!(parse("/model"), Some(Slash::Model(None)));
        assert_eq!(parse("/model  openai/x "), Some(Slash::Model(Some("openai/x".to_owned()))));
        assert_eq!(parse("/nope"), Some(Slash::Unknown("nope".to_owned())));
        assert_eq!(parse("/etc/hosts\nis a file"), None);
    }
}
