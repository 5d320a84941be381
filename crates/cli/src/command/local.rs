//! Commands that work without the API. `chat` and `exec` use the API if `--server` is given.

pub(super) mod chat;
pub(super) mod completions;
pub(super) mod db;
pub(super) mod doctor;
pub(super) mod exec;
pub(super) mod model;
pub(super) mod openapi;
pub(super) mod secret;
pub(super) mod serve;
pub(super) mod tool;

use super::{Cli, SHUTDOWN_TIMEOUT, block_on};
