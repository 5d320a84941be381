//! Commands that call the API of a server or of this process.

pub(super) mod agent;
pub(super) mod approval;
pub(super) mod audit;
pub(super) mod budget;
pub(super) mod class;
pub(super) mod delivery;
pub(super) mod explain;
pub(super) mod grant;
mod listing;
pub(super) mod run;
pub(super) mod schedule;
pub(super) mod server;
pub(super) mod session;
pub(super) mod task;
pub(super) mod token;
pub(super) mod top;
pub(super) mod webhook;

use std::path::Path;

use super::{block_on, parse_duration, parse_variant};
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs, IfMissing};
use crate::render::output::Output;

/// Command that calls the API of a server, or the API of this process over the local database.
pub(super) trait ApiCommand {
    /// Returns the server arguments and the output format.
    fn connection(&self) -> &ConnectionArgs;

    /// Returns how to handle a missing local database.
    fn if_missing(&self) -> IfMissing {
        IfMissing::Fail
    }

    /// Reads and validates the input of the command before the connection is opened.
    fn read_input(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    /// Runs the command and returns the exit code.
    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError>;
}

/// Opens a connection, runs a command and closes the connection.
pub(super) fn run_connected(
    mut command: impl ApiCommand,
    data: Option<&Path>,
    output: &Output,
) -> Result<u8, CliError> {
    command.read_input()?;
    block_on(async {
        let args = command.connection();
        let mut cx = args.open(data, output, command.if_missing()).await?;
        let result = command.run(&mut cx).await;
        cx.close().await;
        result
    })?
}
