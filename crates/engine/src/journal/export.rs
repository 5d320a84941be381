//! A run as a cassette: every call of its model with the answer, so that the run can be played back without a model.

use provost_agent::run::Feed;
use provost_core::RunId;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::StepKind;
use provost_model::Cassette;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::run_step::{self, RunStepRow};
use provost_store::{Tx, load_body};

use crate::attempt::restore::{self, Start};
use crate::error::EngineError;
use crate::journal::JournalState;
use crate::journal::entry;
use crate::run::Runs;
use crate::run::lifecycle::word;
use provost_store::table::work::stored_message as message;

/// Rows that are read at once.
const PAGE: u64 = 500;

impl Runs<'_> {
    /// The model calls of a run with their answers. What was asked is known as far as the conversation goes: instructions and
    /// tools are not stored, and a player does not compare what a cassette does not have. Nothing is changed.
    pub async fn export(self, namespace: &Namespace, id: RunId) -> Result<Cassette, EngineError> {
        let (namespace, env) = (namespace.clone(), self.engine.shared.env.clone());
        let read = self.engine.shared.store.read(move |tx| {
            let row = run::find(tx, namespace.as_str(), id)?;
            let row = row.ok_or_else(|| EngineError::not_found("run", id))?;
            let mut cassette = Cassette::default();
            let mut after = 0;
            loop {
                let page = run_step::after(tx, id, after, PAGE)?;
                let Some(last) = page.last() else { return Ok(cassette) };
                after = last.step;
                for step in &page {
                    let journal = JournalState::new(env.clone());
                    add(tx, &row, step, journal, &mut cassette)?;
                }
            }
        });
        read.await
    }
}

/// Adds the call of a step, if it is one that was answered.
fn add(
    tx: &mut Tx<'_>,
    run: &RunRow,
    step: &RunStepRow,
    mut journal: JournalState,
    cassette: &mut Cassette,
) -> Result<(), EngineError> {
    let kind: StepKind = word(&step.kind)?;
    let Some(fed) = step.fed.filter(|_| kind == StepKind::ModelCall) else { return Ok(()) };
    let body = load_body(tx, step.body.clone(), step.blob.as_deref())?.unwrap_or_default();
    let said = step.message_id.map(|id| message::get(tx, id)).transpose()?;
    let Feed::ModelAnswered { response, .. } = entry::read_feed(kind, &body, said)? else {
        return Ok(());
    };
    // As the run was when the model was asked.
    let before = restore::fold(tx, run, Some(fed - 1), Start::Beginning, &mut journal)?;
    if let Some(before) = before {
        cassette.push_answer(before.context(), *response);
    }
    Ok(())
}
