//! Rules of failpoints, as data.

use std::fmt;
use std::path::PathBuf;

/// Action of a failpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sends SIGKILL to the process.
    Kill,
    /// Sends SIGSTOP to the process.
    Freeze,
    /// Ends the process with [`EXIT_CODE`](crate::EXIT_CODE).
    Exit,
    /// Blocks the thread until the file exists.
    Pause(PathBuf),
    /// Panics.
    Panic,
    /// Leaves the function with the value of the failpoint.
    Error,
}

/// Hits of a failpoint to which a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HitCondition {
    /// Only this hit. 1 is the first.
    At(u64),
    /// This hit and all later ones.
    From(u64),
}

impl HitCondition {
    pub(crate) fn holds(self, hit: u64) -> bool {
        match self {
            Self::At(n) => hit == n,
            Self::From(n) => hit >= n,
        }
    }

    /// Shifts the condition by the hits that came before the rule.
    pub(crate) fn after(self, hits: u64) -> Self {
        match self {
            Self::At(n) => Self::At(hits + n),
            Self::From(n) => Self::From(hits + n),
        }
    }
}

/// One action of one failpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) action: Action,
    pub(crate) when: HitCondition,
}

/// Returns the action of the first rule that applies.
pub(crate) fn decide(rules: &[Rule], name: &str, hit: u64) -> Option<Action> {
    let rule = rules.iter().find(|rule| rule.name == name && rule.when.holds(hit))?;
    Some(rule.action.clone())
}

/// Invalid rule, with the reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    rule: String,
    problem: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {:?}: {}; write name=action[@n];…", self.rule, self.problem)
    }
}

/// Parses `name=action[@n];…`. Empty parts are skipped.
pub(crate) fn parse(text: &str) -> Result<Vec<Rule>, ParseError> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| rule(part).map_err(|problem| ParseError { rule: part.to_owned(), problem }))
        .collect()
}

fn rule(text: &str) -> Result<Rule, &'static str> {
    let (name, action) = text.split_once('=').ok_or("it has no `=`")?;
    if !is_name(name) {
        return Err("a name consists of a-z, 0-9, `.`, `_` and `-`");
    }
    // A path can contain an `@`, so only a number after the last one is parsed as a hit.
    let (action, when) = match action.rsplit_once('@') {
        Some((action, hit)) if is_hit(hit) => (action, when(hit)?),
        Some((action, _)) if !action.starts_with("pause:") => {
            return Err("after `@` comes the number of a hit, such as @2 or @2+");
        }
        _ => (action, HitCondition::At(1)),
    };
    Ok(Rule { name: name.to_owned(), action: self::action(action)?, when })
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    !name.is_empty() && name.chars().all(letter)
}

fn is_hit(text: &str) -> bool {
    let digits = text.strip_suffix('+').unwrap_or(text);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

fn when(text: &str) -> Result<HitCondition, &'static str> {
    let (digits, when): (_, fn(u64) -> HitCondition) = match text.strip_suffix('+') {
        Some(digits) => (digits, HitCondition::From),
        None => (text, HitCondition::At),
    };
    match digits.parse() {
        Ok(0) => Err("hits are counted from 1"),
        Ok(n) => Ok(when(n)),
        Err(_) => Err("the number of the hit is too big"),
    }
}

fn action(text: &str) -> Result<Action, &'static str> {
    Ok(match text {
        "kill" => Action::Kill,
        "freeze" => Action::Freeze,
        "exit" => Action::Exit,
        "panic" => Action::Panic,
        "error" => Action::Error,
        _ => match text.strip_prefix("pause:") {
            Some("") => return Err("pause needs the path of a file"),
            Some(path) => Action::Pause(path.into()),
            None => {
                return Err("the actions are kill, freeze, exit, pause:<path>, panic and error");
            }
        },
    })
}

#[cfg(test)]
mod tests;
