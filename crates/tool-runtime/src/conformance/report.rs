//! What held and what did not.

use std::fmt;

/// A group of checks of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Envelopes, codes, reasons.
    Contract,
    /// Deadlines, stopping, nothing left behind.
    TimeoutCancel,
    /// Attempts.
    Retry,
    /// Credentials and secrets.
    AuthSecret,
    /// What may not run does not.
    PolicyHooks,
    /// What it runs in.
    Isolation,
    /// Ids that can be followed.
    Observability,
    /// The same call, the same outcome.
    Determinism,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Contract,
        Self::TimeoutCancel,
        Self::Retry,
        Self::AuthSecret,
        Self::PolicyHooks,
        Self::Isolation,
        Self::Observability,
        Self::Determinism,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Contract => "contract",
            Self::TimeoutCancel => "timeout/cancel",
            Self::Retry => "retry",
            Self::AuthSecret => "auth/secret",
            Self::PolicyHooks => "policy hooks",
            Self::Isolation => "isolation",
            Self::Observability => "observability",
            Self::Determinism => "determinism",
        }
    }
}

/// How a check came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Held,
    /// It does not, and why.
    Broken(String),
    /// The backend cannot act it out.
    NotPlayed,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its group.
    pub group: Group,
    /// What must hold.
    pub name: &'static str,
    /// Whether it does.
    pub outcome: Outcome,
}

/// What came of the suite for one stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The stage.
    pub stage: String,
    /// Its checks.
    pub checks: Vec<Check>,
}

impl Report {
    /// The checks that do not hold, one in each line.
    pub fn broken(&self) -> Vec<String> {
        let line = |check: &Check| match &check.outcome {
            Outcome::Broken(why) => {
                Some(format!("{}: {}: {}: {why}", self.stage, check.group.as_str(), check.name))
            }
            Outcome::Held | Outcome::NotPlayed => None,
        };
        self.checks.iter().filter_map(line).collect()
    }

    /// True if there are checks in a group and all that were played hold.
    pub fn holds(&self, group: Group) -> bool {
        let mut of_group = self.checks.iter().filter(|check| check.group == group).peekable();
        of_group.peek().is_some()
            && of_group.all(|check| !matches!(check.outcome, Outcome::Broken(_)))
    }

    /// Held, played and all checks of a group.
    pub fn count(&self, group: Group) -> (usize, usize, usize) {
        let (mut held, mut played, mut all) = (0, 0, 0);
        for check in self.checks.iter().filter(|check| check.group == group) {
            all += 1;
            played += usize::from(check.outcome != Outcome::NotPlayed);
            held += usize::from(check.outcome == Outcome::Held);
        }
        (held, played, all)
    }
}

/// Several reports as a table: a row for each stage, a column for each group, `held/played` in each field.
pub fn matrix(reports: &[Report]) -> impl fmt::Display + '_ {
    Matrix(reports)
}

struct Matrix<'a>(&'a [Report]);

impl fmt::Display for Matrix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24}", "runtime")?;
        for group in Group::ALL {
            write!(f, " {:>14}", group.as_str())?;
        }
        for report in self.0 {
            write!(f, "\n{:<24}", report.stage)?;
            for group in Group::ALL {
                let (held, played, _) = report.count(group);
                let field = if played == 0 { "-".to_owned() } else { format!("{held}/{played}") };
                write!(f, " {field:>14}")?;
            }
        }
        Ok(())
    }
}
