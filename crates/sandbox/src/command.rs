//! A command and its input.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::IsolationError;
use crate::limits::ARGUMENT_BYTES_MAX;
use crate::profile::IsolationProfile;

/// A program with its arguments, environment, input and isolation profile.
#[derive(Debug, Clone)]
pub struct SandboxCommand {
    /// Program name, which is searched in the sandbox, or a path in the sandbox.
    pub program: OsString,
    /// Arguments of the program.
    pub args: Vec<OsString>,
    /// Additional environment variables. The sandbox sets a few common ones and inherits none.
    pub env: BTreeMap<String, String>,
    /// Working directory, relative to the workspace. `None`: the workspace itself.
    pub dir: Option<PathBuf>,
    /// Standard input of the program.
    pub input: Stdin,
    /// Isolation profile of the program.
    pub profile: IsolationProfile,
}

/// Standard input of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Stdin {
    /// No input: the program reads the end of the file immediately.
    #[default]
    Empty,
    /// These bytes, then the end of the file.
    Bytes(Vec<u8>),
    /// The bytes that the caller writes to [`SandboxedProcess::take_stdin`](crate::SandboxedProcess::take_stdin).
    Piped,
}

impl SandboxCommand {
    /// Creates a command without input.
    pub fn new<A: Into<OsString>>(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = A>,
        profile: IsolationProfile,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            dir: None,
            input: Stdin::Empty,
            profile,
        }
    }

    /// Sets the standard input.
    #[must_use]
    pub fn input(mut self, input: Stdin) -> Self {
        self.input = input;
        self
    }

    /// Adds an environment variable. A later value replaces an earlier one of the same name.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Fails for a command that cannot be started: an empty program name, a zero byte, an invalid variable name, a
    /// working directory that leaves the workspace, or more than 1 MiB of arguments and variables.
    pub(crate) fn check(&self) -> Result<(), IsolationError> {
        let refused = |reason: &str| Err(IsolationError::Invalid(reason.to_owned()));
        if self.program.is_empty() {
            return refused("the program name is empty");
        }
        let texts = std::iter::once(&self.program).chain(&self.args);
        let mut size = 0;
        for text in texts {
            size += text.len();
            if text.as_encoded_bytes().contains(&0) {
                return refused("an argument contains a zero byte");
            }
        }
        for (name, value) in &self.env {
            size += name.len() + value.len();
            let is_valid = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
            if name.is_empty() || !name.bytes().all(is_valid) {
                return Err(IsolationError::Invalid(format!(
                    "`{name}` is not a valid variable name"
                )));
            }
            if value.contains('\0') {
                return refused("a variable contains a zero byte");
            }
        }
        if size > ARGUMENT_BYTES_MAX {
            return refused("the arguments and variables exceed 1 MiB");
        }
        if let Some(dir) = &self.dir {
            let is_normal = |part| matches!(part, std::path::Component::Normal(_));
            if !dir.components().all(is_normal) {
                return refused("the working directory is outside of the workspace");
            }
        }
        Ok(())
    }
}
