//! One program to run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::IsolationError;
use crate::limits::ARGUMENT_BYTES_MAX;
use crate::profile::Profile;

/// One program to run, with what it may have.
#[derive(Debug, Clone)]
pub struct Job {
    /// A name that is looked for in the sandbox, or a path in it.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment, besides the few names that every program has. Nothing of ours is in it.
    pub env: BTreeMap<String, String>,
    /// Where it starts, relative to the workspace; the workspace itself if nothing is said.
    pub dir: Option<PathBuf>,
    /// What it reads.
    pub input: Input,
    /// What it may have.
    pub profile: Profile,
}

/// What a program reads from its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Input {
    /// Nothing: the end comes at once.
    #[default]
    Empty,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// What is written to [`Running::take_stdin`](crate::Running::take_stdin).
    Piped,
}

impl Job {
    /// A program with arguments, without input.
    pub fn new<A: Into<OsString>>(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = A>,
        profile: Profile,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            dir: None,
            input: Input::Empty,
            profile,
        }
    }

    /// With something to read.
    #[must_use]
    pub fn input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// With a value in its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Refuses what can never be handed to a program.
    pub(crate) fn check(&self) -> Result<(), IsolationError> {
        let refused = |why: &str| Err(IsolationError::Job(why.to_owned()));
        if self.program.is_empty() {
            return refused("it names no program");
        }
        let texts = std::iter::once(&self.program).chain(&self.args);
        let mut size = 0;
        for text in texts {
            size += text.len();
            if text.as_encoded_bytes().contains(&0) {
                return refused("an argument has a zero byte in it");
            }
        }
        for (name, value) in &self.env {
            size += name.len() + value.len();
            let legal = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
            if name.is_empty() || !name.bytes().all(legal) {
                return Err(IsolationError::Job(format!("`{name}` is no name for a variable")));
            }
            if value.contains('\0') {
                return refused("a variable has a zero byte in it");
            }
        }
        if size > ARGUMENT_BYTES_MAX {
            return refused("its arguments and variables are longer than 1 MiB together");
        }
        if let Some(dir) = &self.dir {
            let inner = |part| matches!(part, std::path::Component::Normal(_));
            if !dir.components().all(inner) {
                return refused("its directory leaves the workspace");
            }
        }
        Ok(())
    }
}
