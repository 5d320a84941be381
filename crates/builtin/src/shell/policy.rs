//! Which command lines run, which are asked about, and which never do.
//!
//! | | ask off | ask on a miss | ask always |
//! |---|---|---|---|
//! | deny | denied | denied | denied |
//! | allowlist, a match | runs | runs | asked |
//! | allowlist, a miss | denied | asked | asked |
//! | full | runs | runs | asked |
//!
//! A line matches if every command of it matches a rule. A line that is not understood is a miss.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use provost_tool::EffectClass;
use serde::Deserialize;

use super::indirect_exec;
use super::parse::{self, Command, Line};

/// What a rule can say of repeating its command. Nothing but a person knows more of a program.
const EFFECTS: [(&str, EffectClass); 3] = [
    ("pure", EffectClass::Pure),
    ("idempotent", EffectClass::Idempotent),
    ("opaque", EffectClass::Opaque),
];

/// What may be run at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Security {
    /// Nothing.
    Deny,
    /// What the rules allow.
    #[default]
    Allowlist,
    /// Whatever the sandbox holds.
    Full,
}

/// When a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Before every command.
    Always,
    /// When no rule matches.
    #[default]
    OnMiss,
    /// Never: what no rule matches is denied at once.
    Off,
}

/// Which arguments a rule allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Args {
    /// Any, unless they make the command run another one.
    Any,
    /// These first, then any, unless they make the command run another one.
    Begin(Vec<String>),
    /// Exactly these.
    Exact(Vec<String>),
}

/// One command that is allowed.
#[derive(Debug, Clone)]
pub struct Rule {
    program: Program,
    args: Args,
    effect: EffectClass,
}

#[derive(Debug, Clone)]
enum Program {
    /// A name that is looked for where the system has programs.
    Name(String),
    /// A pattern over whole paths.
    Path(GlobMatcher),
}

/// What becomes of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It runs, as it is written here.
    Run {
        /// The line, written so that a shell reads it as it was checked.
        line: String,
        /// What repeating it would do.
        effect: EffectClass,
    },
    /// A person is asked, and if that one agrees the line runs as it was given.
    Ask {
        /// Why it is asked.
        why: String,
    },
    /// It does not run.
    Deny {
        /// Why.
        why: String,
    },
}

/// What an agent may run.
#[derive(Debug, Clone, Default)]
pub struct ExecPolicy {
    /// What may be run at all.
    pub security: Security,
    /// When a person is asked.
    pub ask: Ask,
    /// What is allowed.
    pub rules: Vec<Rule>,
}

impl Rule {
    /// A command by its name, as `ls`, or by a pattern over its whole path, as `/opt/tools/*`. Nothing is known of what
    /// repeating it would do.
    pub fn new(program: &str, args: Args) -> Result<Self, String> {
        let program = match program.contains('/') {
            _ if program.is_empty() || !program.chars().all(is_legal) => {
                return Err(format!("`{program}` is no name of a program"));
            }
            false => Program::Name(program.to_owned()),
            true if !program.starts_with('/') => {
                return Err(format!("`{program}` is no whole path: begin with `/`"));
            }
            true => {
                let glob = GlobBuilder::new(program).literal_separator(true).build();
                Program::Path(glob.map_err(|error| error.to_string())?.compile_matcher())
            }
        };
        Ok(Self { program, args, effect: EffectClass::Opaque })
    }

    /// A rule as it is written in one line: `git status` allows `git` with `status` first, `=make check` exactly that, and
    /// `pure: git log` or `idempotent: touch` says beside what repeating it would do.
    pub fn read(text: &str) -> Result<Self, String> {
        let declared = EFFECTS.iter().find_map(|(word, effect)| {
            Some((text.trim_start().strip_prefix(word)?.strip_prefix(": ")?, *effect))
        });
        let (text, effect) = declared.unwrap_or((text, EffectClass::Opaque));
        let text = text.trim_start();
        let (text, is_exact) = match text.strip_prefix('=') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let text = text.trim();
        let (program, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        // The place of the program is held by a word that is none, since a rule may name programs by a pattern.
        let line = parse::parse(&format!("x {rest}"));
        let line = line.map_err(|why| format!("`{text}` is no rule: {why}"))?;
        let [command] = line.commands.as_slice() else {
            return Err(format!("`{text}` is more than one command"));
        };
        let args: Vec<String> = command.args().iter().map(|word| word.text.clone()).collect();
        let args = match (is_exact, args.is_empty()) {
            (true, _) => Args::Exact(args),
            (false, true) => Args::Any,
            (false, false) => Args::Begin(args),
        };
        Ok(Self::new(program, args)?.effect(effect))
    }

    /// Says what repeating the command would do.
    #[must_use]
    pub fn effect(mut self, effect: EffectClass) -> Self {
        self.effect = effect;
        self
    }

    fn matches(&self, command: &Command) -> bool {
        if !self.program.is(command.name()) {
            return false;
        }
        let given = command.args();
        let is_plain = |expected: &[String]| {
            given.len() >= expected.len()
                && given
                    .iter()
                    .zip(expected)
                    .all(|(word, text)| !word.is_pattern && word.text == *text)
        };
        match &self.args {
            Args::Exact(expected) => given.len() == expected.len() && is_plain(expected),
            Args::Begin(expected) => is_plain(expected) && !indirect_exec::carries(command),
            Args::Any => !indirect_exec::carries(command),
        }
    }
}

impl Program {
    fn is(&self, name: &str) -> bool {
        match self {
            Self::Name(expected) => name == expected || is_that_program(name, expected),
            Self::Path(pattern) => {
                let path = Path::new(name);
                let is_whole =
                    path.is_absolute() && !name.contains("/../") && !name.ends_with("/..");
                is_whole && pattern.is_match(path)
            }
        }
    }
}

/// What a rule may say of a program.
fn is_legal(c: char) -> bool {
    c.is_alphanumeric() || "._-+/*?[]{},@:".contains(c)
}

/// A path to where the system has the program of this name.
fn is_that_program(path: &str, name: &str) -> bool {
    const DIRS: [&str; 4] = ["/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"];
    DIRS.iter().any(|dir| path.strip_prefix(dir) == Some(name))
}

impl ExecPolicy {
    /// What becomes of a command line.
    pub fn decide(&self, text: &str) -> Decision {
        let deny = |why: String| Decision::Deny { why };
        if self.security == Security::Deny {
            return deny("no command may be run here".to_owned());
        }
        let full = || Decision::Run { line: text.to_owned(), effect: EffectClass::Opaque };
        match (self.security, self.ask) {
            (_, Ask::Always) => Decision::Ask { why: "every command is asked about".to_owned() },
            (Security::Full, _) => full(),
            (_, ask) => match (self.matched(text), ask) {
                (Ok((line, effect)), _) => Decision::Run { line: line.canonical(), effect },
                (Err(why), Ask::OnMiss) => Decision::Ask { why },
                (Err(why), _) => deny(why),
            },
        }
    }

    /// The line and its effect, if every command of it is allowed.
    fn matched(&self, text: &str) -> Result<(Line, EffectClass), String> {
        let line =
            parse::parse(text).map_err(|why| format!("the line is not understood: {why}"))?;
        let mut effect = EffectClass::Pure;
        for command in &line.commands {
            let rule = self.rules.iter().find(|rule| rule.matches(command));
            let Some(rule) = rule else {
                let name: String = command.name().chars().take(64).collect();
                return Err(match indirect_exec::carries(command) {
                    true => format!("`{name}` runs other commands, which no rule allows in full"),
                    false => format!("no rule allows `{name}` with these arguments"),
                });
            };
            effect = graver(effect, rule.effect);
        }
        Ok((line, effect))
    }

    /// What repeating a line would do: known only of one that rules let run.
    pub fn effect_for(&self, text: &str) -> EffectClass {
        match self.decide(text) {
            Decision::Run { effect, .. } => effect,
            Decision::Ask { .. } | Decision::Deny { .. } => EffectClass::Opaque,
        }
    }

    /// What repeating a call would do, whatever it is: known only where nothing but rules lets a command run.
    pub fn effect(&self) -> EffectClass {
        match (self.security, self.ask) {
            (Security::Allowlist, Ask::Off) => {
                self.rules.iter().fold(EffectClass::Pure, |sum, rule| graver(sum, rule.effect))
            }
            _ => EffectClass::Opaque,
        }
    }

    /// The stricter of two in everything: a session or a call can only harden what the operator allows.
    #[must_use]
    pub fn stricter(&self, other: &Self) -> Self {
        let rules = match (self.security, other.security) {
            (Security::Full, _) => other.rules.clone(),
            (_, Security::Full) => self.rules.clone(),
            // Both must allow a command; only what is the same in both surely does.
            _ => self.rules.iter().filter_map(|rule| rule.shared(&other.rules)).collect(),
        };
        Self { security: self.security.min(other.security), ask: self.ask.min(other.ask), rules }
    }
}

impl Rule {
    /// The rule, if it is among others, with the graver effect of both.
    fn shared(&self, others: &[Self]) -> Option<Self> {
        let other = others.iter().find(|other| other.same(self))?;
        Some(Self { effect: graver(self.effect, other.effect), ..self.clone() })
    }

    fn same(&self, other: &Self) -> bool {
        let is_same = match (&self.program, &other.program) {
            (Program::Name(a), Program::Name(b)) => a == b,
            (Program::Path(a), Program::Path(b)) => a.glob() == b.glob(),
            _ => false,
        };
        is_same && self.args == other.args
    }
}

/// The one of two that is less safe to repeat.
fn graver(a: EffectClass, b: EffectClass) -> EffectClass {
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
