//! A child process that executes commands line by line: this binary, started again.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Result;
use crate::measure::memory_of;

/// The process. Dropping it kills it.
pub(crate) struct ChildProcess {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl ChildProcess {
    /// Starts this binary with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).stdin(Stdio::piped());
        Self::spawn(command)
    }

    /// Starts another program.
    pub(crate) fn spawn(mut command: Command) -> Result<Self> {
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or("a process without pipes")?;
        Ok(Self { process, input, output: BufReader::new(output) })
    }

    /// Returns the current memory of the process, in bytes.
    pub(crate) fn memory(&self) -> Result<f64> {
        memory_of(&self.process.id().to_string())
    }

    /// Sends a line and waits for a line of output.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String> {
        if let Some(input) = &mut self.input {
            writeln!(input, "{line}")?;
        }
        self.read_line()
    }

    /// Waits for a line of output.
    pub(crate) fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            let status = self.process.wait()?;
            return Err(format!("a process ended without an answer: {status}").into());
        }
        Ok(line.trim().to_owned())
    }

    /// Closes the input. Returns the last line of output.
    pub(crate) fn end(mut self) -> Result<String> {
        drop(self.input.take());
        let last = self.read_line()?;
        self.process.wait()?;
        Ok(last)
    }

    /// Kills the process without a warning, like a power failure.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The process may have ended before.
        let _ended = self.process.kill().and_then(|()| self.process.wait()).is_ok();
    }
}

/// Parses the numbers of a line.
pub(crate) fn numbers<const COUNT: usize>(line: &str) -> Result<[f64; COUNT]> {
    let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let others = |numbers: Vec<f64>| format!("{} numbers, not {COUNT}: `{line}`", numbers.len());
    numbers.try_into().map_err(|numbers| others(numbers).into())
}
