//! Temporary: a subset of the tests while others are being written.
#![allow(dead_code)]
#[path = "it/children.rs"]
mod children;
#[path = "it/stage.rs"]
mod stage;
