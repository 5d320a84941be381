//! Models for tests: one plays a script, one records real responses and one replays a recording.

mod cassette;
mod scripted;

pub use cassette::{
    Cassette, CassetteError, CassetteMode, CassetteRedaction, RecordedAnswer, RecordedCall,
    RecordingModel, ReplayModel,
};
pub use scripted::{ScriptedModel, ScriptedTurn, call, calls, fail, text};
