//! Commands that call the API, of a server or of this process.

pub(super) mod agent;
pub(super) mod approve;
pub(super) mod audit;
pub(super) mod budget;
pub(super) mod class;
pub(super) mod delivery;
pub(super) mod explain;
pub(super) mod grant;
mod listing;
pub(super) mod runs;
pub(super) mod schedule;
pub(super) mod server;
pub(super) mod session;
pub(super) mod task;
pub(super) mod token;
pub(super) mod top;
pub(super) mod webhook;

use std::path::Path;

use super::{block_on, parse_duration, parse_word};
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs, IfMissing};
use crate::render::output::Output;

/// A command that calls the API: of a server, or of this process on the database of this machine.
pub(super) trait ApiCommand {
    /// Where the runs are, and how results are shown.
    fn connection(&self) -> &ConnectionArgs;

    /// What to do where there is no database yet.
    fn if_missing(&self) -> IfMissing {
        IfMissing::Fail
    }

    /// Reads and checks what the command needs before anything is opened.
    fn check(&mut self) -> Result<(), Problem> {
        Ok(())
    }

    /// Does its work; the number is the exit code.
    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem>;
}

/// Runs a command over a connection that is opened and closed here.
pub(super) fn connected(
    mut command: impl ApiCommand,
    data: Option<&Path>,
    output: &Output,
) -> Result<u8, Problem> {
    command.check()?;
    block_on(async {
        let args = command.connection();
        let mut cx = args.open(data, output, command.if_missing()).await?;
        let done = command.run(&mut cx).await;
        cx.close().await;
        done
    })?
}
