//! Export of a run as a cassette: all model calls with their responses, to replay the run without a model.

use provost_agent::run::JournalEntry;
use provost_core::RunId;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::StepKind;
use provost_model::Cassette;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::run_step::{self, RunStepRow};
use provost_store::{Tx, load_text};

use crate::attempt::restore::{self, ReplayFrom};
use crate::error::EngineError;
use crate::journal::JournalState;
use crate::journal::entry;
use crate::run::Runs;
use provost_store::table::work::stored_message as message;

/// Rows that are read per query.
const PAGE: u64 = 500;

impl Runs<'_> {
    /// Exports the model calls of a run. The requests contain only the conversation: instructions and tools are not
    /// stored, and a replay does not compare fields that the cassette lacks. Changes nothing. Fails if the run does not
    /// exist.
    pub async fn export(self, namespace: &Namespace, id: RunId) -> Result<Cassette, EngineError> {
        let (namespace, env) = (namespace.clone(), self.engine.inner.env.clone());
        let read = self.engine.inner.store.read(move |tx| {
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
                    add_model_call(tx, &row, step, journal, &mut cassette)?;
                }
            }
        });
        read.await
    }
}

/// Adds the model call of a step, if the step is a finished model call.
fn add_model_call(
    tx: &mut Tx<'_>,
    run: &RunRow,
    step: &RunStepRow,
    mut journal: JournalState,
    cassette: &mut Cassette,
) -> Result<(), EngineError> {
    let kind: StepKind = step.kind;
    let Some(entry_no) = step.entry_no.filter(|_| kind == StepKind::ModelCall) else {
        return Ok(());
    };
    let body = load_text(tx, step.body.clone(), step.blob.as_deref())?.unwrap_or_default();
    let message = step.message_id.map(|id| message::get(tx, id)).transpose()?;
    let JournalEntry::ModelResponded { response, .. } = entry::decode_entry(kind, &body, message)?
    else {
        return Ok(());
    };
    // The state of the run at the time of the request.
    let before =
        restore::rebuild(tx, run, Some(entry_no - 1), ReplayFrom::Beginning, &mut journal)?;
    if let Some(before) = before {
        cassette.push_answer(before.context(), *response);
    }
    Ok(())
}
