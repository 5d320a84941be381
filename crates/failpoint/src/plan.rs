//! What shall happen where, as data. Nothing here acts.

use std::fmt;
use std::path::PathBuf;

/// What happens at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// SIGKILL to the process.
    Kill,
    /// SIGSTOP to the process.
    Freeze,
    /// The process ends with [`EXIT_CODE`](crate::EXIT_CODE).
    Exit,
    /// The thread blocks until the file exists.
    Pause(PathBuf),
    /// The thread panics.
    Panic,
    /// The function returns the value given at the place.
    Error,
}

/// At which hits of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At this one only; 1 is the first.
    At(u64),
    /// At this one and all later ones.
    From(u64),
}

impl When {
    pub(crate) fn holds(self, hit: u64) -> bool {
        match self {
            Self::At(n) => hit == n,
            Self::From(n) => hit >= n,
        }
    }

    /// The same, for a place that was hit before the counting began.
    pub(crate) fn after(self, hits: u64) -> Self {
        match self {
            Self::At(n) => Self::At(hits + n),
            Self::From(n) => Self::From(hits + n),
        }
    }
}

/// One action at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) action: Action,
    pub(crate) when: When,
}

/// The action of the first rule that holds.
pub(crate) fn decide(rules: &[Rule], name: &str, hit: u64) -> Option<Action> {
    let rule = rules.iter().find(|rule| rule.name == name && rule.when.holds(hit))?;
    Some(rule.action.clone())
}

/// A rule that cannot be read, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    rule: String,
    problem: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {:?}: {}; write name=action[@n];…", self.rule, self.problem)
    }
}

/// Reads `name=action[@n];…`; empty parts are skipped.
pub(crate) fn parse(text: &str) -> Result<Vec<Rule>, Malformed> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| rule(part).map_err(|problem| Malformed { rule: part.to_owned(), problem }))
        .collect()
}

fn rule(text: &str) -> Result<Rule, &'static str> {
    let (name, action) = text.split_once('=').ok_or("it has no `=`")?;
    if !is_name(name) {
        return Err("a name consists of a-z, 0-9, `.`, `_` and `-`");
    }
    // A path may hold an `@`, so only a number after the last one is taken for a hit.
    let (action, when) = match action.rsplit_once('@') {
        Some((action, hit)) if is_hit(hit) => (action, when(hit)?),
        Some((action, _)) if !action.starts_with("pause:") => {
            return Err("after `@` comes the number of a hit, such as @2 or @2+");
        }
        _ => (action, When::At(1)),
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

fn when(text: &str) -> Result<When, &'static str> {
    let (digits, when): (_, fn(u64) -> When) = match text.strip_suffix('+') {
        Some(digits) => (digits, When::From),
        None => (text, When::At),
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
