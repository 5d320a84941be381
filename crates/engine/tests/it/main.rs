//! The engine against a real database.

mod admission;
mod agents;
mod basics;
mod children;
mod inputs;
mod journal;
mod sessions;
mod simulation;
mod stage;
mod talk;
