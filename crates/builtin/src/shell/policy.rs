//! Decides which command lines run, which require approval, and which are denied.
//!
//! | | ask off | ask on a miss | ask always |
//! |---|---|---|---|
//! | deny | denied | denied | denied |
//! | allowlist, match | runs | runs | approval |
//! | allowlist, miss | denied | approval | approval |
//! | full | runs | runs | approval |
//!
//! A line matches if each of its commands matches a rule. A line that cannot be parsed is a miss.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use provost_tool::EffectClass;
use serde::Deserialize;

use super::indirect_exec;
use super::parse::{self, Command, CommandLine};

/// Effect classes that a rule can declare.
const EFFECTS: [(&str, EffectClass); 3] = [
    ("pure", EffectClass::Pure),
    ("idempotent", EffectClass::Idempotent),
    ("opaque", EffectClass::Opaque),
];

/// Which commands can run at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecMode {
    /// No command.
    Deny,
    /// Commands that a rule allows.
    #[default]
    Allowlist,
    /// All commands, confined by the sandbox.
    Full,
}

/// Which commands require approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskPolicy {
    /// Every command.
    Always,
    /// Commands that no rule matches. In mode [`ExecMode::Full`], none.
    #[default]
    OnMiss,
    /// No command. In mode [`ExecMode::Allowlist`], a command without a matching rule is denied.
    Off,
}

/// Arguments that a rule allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgMatcher {
    /// Any arguments, unless they make the program run another program.
    Any,
    /// These arguments first, then any, unless they make the program run another program.
    Prefix(Vec<String>),
    /// Exactly these.
    Exact(Vec<String>),
}

/// A rule that allows one program with certain arguments.
#[derive(Debug, Clone)]
pub struct CommandRule {
    program: Program,
    args: ArgMatcher,
    effect: EffectClass,
}

/// Program of a rule: a name, or a pattern of paths.
#[derive(Debug, Clone)]
enum Program {
    /// A name, which is searched in the system directories.
    Name(String),
    /// A glob over absolute paths.
    Path(GlobMatcher),
}

/// Decision about a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecDecision {
    /// The line runs.
    Run {
        /// The line in canonical form, which a shell interprets as it was checked.
        line: String,
        /// Effect class of the line.
        effect: EffectClass,
    },
    /// The line requires approval. An approved line runs as written.
    Ask {
        /// Reason why approval is required.
        reason: String,
    },
    /// The line does not run.
    Deny {
        /// Reason for the denial.
        reason: String,
    },
}

/// Decides which command lines an agent can run.
#[derive(Debug, Clone, Default)]
pub struct ExecPolicy {
    /// Commands that may run at all.
    pub mode: ExecMode,
    /// When a command requires approval.
    pub ask: AskPolicy,
    /// Rules that allow commands.
    pub rules: Vec<CommandRule>,
}

impl CommandRule {
    /// Creates a rule for a program name, such as `ls`, or a glob over its absolute path, such as `/opt/tools/*`. Its
    /// effect class is opaque. Returns a message if the program is invalid.
    pub fn new(program: &str, args: ArgMatcher) -> Result<Self, String> {
        let program = match program.contains('/') {
            _ if program.is_empty() || !program.chars().all(is_pattern_char) => {
                return Err(format!("`{program}` is not a program name"));
            }
            false => Program::Name(program.to_owned()),
            true if !program.starts_with('/') => {
                return Err(format!("`{program}` is not an absolute path: begin with `/`"));
            }
            true => {
                let glob = GlobBuilder::new(program).literal_separator(true).build();
                Program::Path(glob.map_err(|error| error.to_string())?.compile_matcher())
            }
        };
        Ok(Self { program, args, effect: EffectClass::Opaque })
    }

    /// Parses a rule from one line: `git status` allows `git` with `status` as its first argument, and `=make check`
    /// exactly that command. The prefixes `pure:` and `idempotent:` declare the effect class, as in `pure: git log`.
    /// Returns a message if the line is not a rule.
    pub fn parse(text: &str) -> Result<Self, String> {
        let prefix = EFFECTS.iter().find_map(|(word, effect)| {
            Some((text.trim_start().strip_prefix(word)?.strip_prefix(": ")?, *effect))
        });
        let (text, effect) = prefix.unwrap_or((text, EffectClass::Opaque));
        let text = text.trim_start();
        let (text, is_exact) = match text.strip_prefix('=') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let text = text.trim();
        let (program, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        // `x` replaces the program, because the parser rejects a program that is a pattern.
        let line = parse::parse(&format!("x {rest}"));
        let line = line.map_err(|reason| format!("`{text}` is not a rule: {reason}"))?;
        let [command] = line.commands.as_slice() else {
            return Err(format!("`{text}` is more than one command"));
        };
        let args: Vec<String> = command.args().iter().map(|word| word.text.clone()).collect();
        let args = match (is_exact, args.is_empty()) {
            (true, _) => ArgMatcher::Exact(args),
            (false, true) => ArgMatcher::Any,
            (false, false) => ArgMatcher::Prefix(args),
        };
        Ok(Self::new(program, args)?.effect(effect))
    }

    /// Sets the effect class of the command.
    #[must_use]
    pub fn effect(mut self, effect: EffectClass) -> Self {
        self.effect = effect;
        self
    }

    /// Returns true if the rule allows the command.
    fn matches(&self, command: &Command) -> bool {
        if !self.program.matches(command.name()) {
            return false;
        }
        let arguments = command.args();
        let is_plain = |expected: &[String]| {
            arguments.len() >= expected.len()
                && arguments
                    .iter()
                    .zip(expected)
                    .all(|(word, text)| !word.is_pattern && word.text == *text)
        };
        match &self.args {
            ArgMatcher::Exact(expected) => arguments.len() == expected.len() && is_plain(expected),
            ArgMatcher::Prefix(expected) => {
                is_plain(expected) && !indirect_exec::runs_other_programs(command)
            }
            ArgMatcher::Any => !indirect_exec::runs_other_programs(command),
        }
    }
}

impl Program {
    /// Returns true if the program of a command is the program of the rule. A name also matches its path in a system
    /// directory.
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(expected) => name == expected || is_system_path_of(name, expected),
            Self::Path(pattern) => {
                let path = Path::new(name);
                let is_whole =
                    path.is_absolute() && !name.contains("/../") && !name.ends_with("/..");
                is_whole && pattern.is_match(path)
            }
        }
    }
}

/// Returns true for the characters that a rule may use for a program.
fn is_pattern_char(c: char) -> bool {
    c.is_alphanumeric() || "._-+/*?[]{},@:".contains(c)
}

/// Returns true for the path of the program in a system directory.
fn is_system_path_of(path: &str, name: &str) -> bool {
    const DIRS: [&str; 4] = ["/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"];
    DIRS.iter().any(|dir| path.strip_prefix(dir) == Some(name))
}

impl ExecPolicy {
    /// Returns whether a command line runs, requires approval or is denied, as in the table of this module.
    pub fn decide(&self, text: &str) -> ExecDecision {
        let deny = |reason: String| ExecDecision::Deny { reason };
        if self.mode == ExecMode::Deny {
            return deny("the policy denies all commands".to_owned());
        }
        let full = || ExecDecision::Run { line: text.to_owned(), effect: EffectClass::Opaque };
        match (self.mode, self.ask) {
            (_, AskPolicy::Always) => {
                ExecDecision::Ask { reason: "every command requires approval".to_owned() }
            }
            (ExecMode::Full, _) => full(),
            (_, ask) => match (self.match_rules(text), ask) {
                (Ok((line, effect)), _) => ExecDecision::Run { line: line.canonical(), effect },
                (Err(reason), AskPolicy::OnMiss) => ExecDecision::Ask { reason },
                (Err(reason), _) => deny(reason),
            },
        }
    }

    /// Parses a line, and returns its least repeatable effect class. Returns the reason if the line cannot be parsed or
    /// a command matches no rule.
    fn match_rules(&self, text: &str) -> Result<(CommandLine, EffectClass), String> {
        let line = parse::parse(text)
            .map_err(|reason| format!("the command line cannot be parsed: {reason}"))?;
        let mut effect = EffectClass::Pure;
        for command in &line.commands {
            let rule = self.rules.iter().find(|rule| rule.matches(command));
            let Some(rule) = rule else {
                let name: String = command.name().chars().take(64).collect();
                return Err(match indirect_exec::runs_other_programs(command) {
                    true => format!(
                        "`{name}` runs other programs, and no rule lists all of its arguments"
                    ),
                    false => format!("no rule allows `{name}` with these arguments"),
                });
            };
            effect = less_repeatable(effect, rule.effect);
        }
        Ok((line, effect))
    }

    /// Returns the effect class of a line. Opaque unless rules allow the line.
    pub fn effect_for(&self, text: &str) -> EffectClass {
        match self.decide(text) {
            ExecDecision::Run { effect, .. } => effect,
            ExecDecision::Ask { .. } | ExecDecision::Deny { .. } => EffectClass::Opaque,
        }
    }

    /// Returns the effect class of all lines. Opaque unless only rules can allow a line.
    pub fn effect(&self) -> EffectClass {
        match (self.mode, self.ask) {
            (ExecMode::Allowlist, AskPolicy::Off) => self
                .rules
                .iter()
                .fold(EffectClass::Pure, |sum, rule| less_repeatable(sum, rule.effect)),
            _ => EffectClass::Opaque,
        }
    }

    /// Returns the more restrictive policy in every respect: a session or a call can only tighten the policy of the
    /// operator.
    #[must_use]
    pub fn stricter(&self, other: &Self) -> Self {
        let rules = match (self.mode, other.mode) {
            (ExecMode::Full, _) => other.rules.clone(),
            (_, ExecMode::Full) => self.rules.clone(),
            // Both policies must allow a command. Only identical rules guarantee that.
            _ => self.rules.iter().filter_map(|rule| rule.common_with(&other.rules)).collect(),
        };
        Self { mode: self.mode.min(other.mode), ask: self.ask.min(other.ask), rules }
    }
}

impl CommandRule {
    /// Returns the rule with the less repeatable effect class, if `others` contains the same rule. `None` if not.
    fn common_with(&self, others: &[Self]) -> Option<Self> {
        let other = others.iter().find(|other| other.is_same(self))?;
        Some(Self { effect: less_repeatable(self.effect, other.effect), ..self.clone() })
    }

    /// Returns true if both rules allow the same program with the same arguments.
    fn is_same(&self, other: &Self) -> bool {
        let is_same = match (&self.program, &other.program) {
            (Program::Name(a), Program::Name(b)) => a == b,
            (Program::Path(a), Program::Path(b)) => a.glob() == b.glob(),
            _ => false,
        };
        is_same && self.args == other.args
    }
}

/// Returns the effect class that is less safe to repeat.
fn less_repeatable(a: EffectClass, b: EffectClass) -> EffectClass {
    let rank = |effect| match effect {
        EffectClass::Pure => 0,
        EffectClass::Idempotent => 1,
        EffectClass::Keyed => 2,
        EffectClass::Provable => 3,
        _ => 4,
    };
    if rank(a) >= rank(b) { a } else { b }
}

#[cfg(test)]
mod tests;
