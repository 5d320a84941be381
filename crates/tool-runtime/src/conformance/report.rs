//! Report of the conformance suite.

use std::fmt;

/// Group of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Envelopes, error codes and reasons.
    Contract,
    /// Deadlines, cancellation and cleanup.
    TimeoutCancel,
    /// Attempts and retries.
    Retry,
    /// Credentials and secrets.
    AuthSecret,
    /// Denied calls.
    PolicyHooks,
    /// Isolation.
    Isolation,
    /// Propagation of ids.
    Observability,
    /// Equal results of equal calls.
    Determinism,
}

impl Group {
    /// All groups, in the order of the report.
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

    /// Returns the name of the group.
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

/// Outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The check passed.
    Passed,
    /// The check failed, with the reason.
    Failed(String),
    /// The backend does not support the scenario.
    Skipped,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Group of the check.
    pub group: Group,
    /// Name of the check.
    pub name: &'static str,
    /// Outcome of the check.
    pub outcome: Outcome,
}

/// Report of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Name of the backend.
    pub backend: String,
    /// All checks.
    pub checks: Vec<Check>,
}

impl Report {
    /// Returns one line for each failed check.
    pub fn failures(&self) -> Vec<String> {
        let line = |check: &Check| match &check.outcome {
            Outcome::Failed(reason) => Some(format!(
                "{}: {}: {}: {reason}",
                self.backend,
                check.group.as_str(),
                check.name
            )),
            Outcome::Passed | Outcome::Skipped => None,
        };
        self.checks.iter().filter_map(line).collect()
    }

    /// Returns true if the group has checks and none of them failed.
    pub fn passed(&self, group: Group) -> bool {
        let mut of_group = self.checks.iter().filter(|check| check.group == group).peekable();
        of_group.peek().is_some()
            && of_group.all(|check| !matches!(check.outcome, Outcome::Failed(_)))
    }

    /// Returns how many checks of a group passed, were executed, and exist.
    pub fn count(&self, group: Group) -> (usize, usize, usize) {
        let (mut passed, mut run, mut all) = (0, 0, 0);
        for check in self.checks.iter().filter(|check| check.group == group) {
            all += 1;
            run += usize::from(check.outcome != Outcome::Skipped);
            passed += usize::from(check.outcome == Outcome::Passed);
        }
        (passed, run, all)
    }
}

/// Formats reports as a table: a row for each backend, a column for each group, and `passed/executed` in each cell.
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
            write!(f, "\n{:<24}", report.backend)?;
            for group in Group::ALL {
                let (passed, run, _) = report.count(group);
                let field = if run == 0 { "-".to_owned() } else { format!("{passed}/{run}") };
                write!(f, " {field:>14}")?;
            }
        }
        Ok(())
    }
}
