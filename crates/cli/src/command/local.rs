//! Commands that work in this process, on this machine.

pub(super) mod chat;
pub(super) mod completions;
pub(super) mod db;
pub(super) mod doctor;
pub(super) mod models;
pub(super) mod openapi;
pub(super) mod run;
pub(super) mod secret;
pub(super) mod serve;
pub(super) mod tool;

use super::{Cli, LEAVE_PATIENCE, block_on};
