//! What somebody has missed who comes in the middle of a model's answer.

use provost_core::{EventKind, RunId};

use super::source::Source;
use crate::app::App;
use crate::live::{has_durable_form, piece};

/// The pieces so far.
pub(super) struct Draft {
    pub(super) run: RunId,
    pub(super) epoch: u64,
    /// The number of the first piece that is not in it.
    pub(super) next: u64,
    events: Vec<provost_core::Event>,
}

/// The present draft, if anybody is at work in this process.
pub(super) async fn take(app: &App, source: &Source) -> Option<Draft> {
    let run = Box::pin(source.present_run(app.engine())).await?;
    let provost_engine::Draft { epoch, mut events, next, .. } =
        app.engine().draft(source.namespace(), run)?;
    events.retain(|event| !has_durable_form(run, event));
    Some(Draft { run, epoch, next, events })
}

impl Draft {
    /// True if a durable event has told it all: it was committed, and only nobody has said so live. `told` is the newest model
    /// call that an event has ended.
    pub(super) fn is_told(&self, told: Option<(RunId, u32)>) -> bool {
        let begun = self.events.iter().rev().find_map(|event| match event.kind {
            EventKind::TurnStarted { turn } if event.run_id == self.run => Some(turn),
            _ => None,
        });
        let told = told.filter(|(run, _)| *run == self.run).map(|(_, turn)| turn);
        matches!((told, begun), (Some(told), Some(begun)) if told >= begun)
    }

    /// As it is sent.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for event in &self.events {
            out.extend(piece(self.run, self.epoch, event).into_iter().flatten());
        }
    }
}
