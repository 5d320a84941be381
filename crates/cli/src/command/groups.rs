//! The help text of `provost --help`: the commands under headings, with an example for each heading.
//!
//! clap has no groups of subcommands, so the list of commands is a part of the help template.

use std::fmt::Write;

/// Commands under one heading of the help text.
pub(super) struct CommandGroup {
    /// Heading.
    pub(super) heading: &'static str,
    /// Names of the commands, in the order in which they are shown.
    pub(super) commands: &'static [&'static str],
    /// Command line that shows a typical use.
    pub(super) example: &'static str,
}

/// Every visible command belongs to exactly one group.
pub(super) const GROUPS: [CommandGroup; 4] = [
    CommandGroup {
        heading: "Work",
        commands: &["chat", "exec", "task", "run", "session", "approval", "explain", "schedule"],
        example: "provost exec \"what is (2 + 3) * 4?\"",
    },
    CommandGroup {
        heading: "Agents and tools",
        commands: &["agent", "model", "tool", "grant"],
        example: "provost tool call calculator '{\"expression\": \"2 + 3\"}'",
    },
    CommandGroup {
        heading: "Operate",
        commands: &["serve", "server", "top", "class", "budget", "delivery", "webhook", "audit"],
        example: "provost serve --listen 127.0.0.1:7077",
    },
    CommandGroup {
        heading: "Set up",
        commands: &["doctor", "token", "secret", "db", "openapi", "completions"],
        example: "provost token create ci --scope read --scope write",
    },
];

/// Returns the help template of the root command.
pub(super) fn help_template(root: &clap::Command) -> String {
    let names = GROUPS.iter().flat_map(|group| group.commands);
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let header = root.get_styles().get_header();
    let literal = root.get_styles().get_literal();
    let mut text = String::from("{about}\n\n{usage-heading} {usage}\n");
    for group in &GROUPS {
        write!(text, "\n{header}{}:{header:#}\n", group.heading).ok();
        for name in group.commands {
            let command = root.find_subcommand(name);
            let about = command.and_then(clap::Command::get_about).cloned().unwrap_or_default();
            writeln!(text, "  {literal}{name:<width$}{literal:#}  {about}").ok();
        }
        writeln!(text, "  {:width$}  Example: {}", "", group.example).ok();
    }
    write!(text, "\n{header}Options:{header:#}\n").ok();
    text.push_str("{options}{after-help}");
    text
}
