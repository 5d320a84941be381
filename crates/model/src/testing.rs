//! Models for tests: one that plays a script, one that records real answers and one that replays them.

mod cassette;
mod scripted;

pub use cassette::{
    Cassette, CassetteError, CassetteMode, Player, RecordedAnswer, RecordedCall, Recorder,
    Redaction,
};
pub use scripted::{ScriptedModel, Turn, call, calls, fail, text};
