//! Opens a run: a new one, a suspended one, or one restored from its journal.

use std::sync::Arc;

use provost_core::EventKind;

use super::DriverContext;
use crate::context;
use crate::driver::Driver;
use crate::driver::compaction::ContextTokens;
use crate::driver::offered_tools::OfferedTools;
use crate::driver::session::RunSession;
use crate::driver::shared_state::{self, SharedStateSnapshot};
use crate::error::Error;
use crate::outcome::SuspendedRun;
use crate::run::{JournalEntry, Run, RunConfig, RunInput, RunStarted};
use crate::run_builder::{RestoredRun, RunSource};

/// Validates the run, loads the conversation and creates the driver.
pub(crate) async fn open(
    cx: &Arc<DriverContext>,
    source: RunSource,
    base: SharedStateSnapshot,
) -> Result<Driver, Error> {
    cx.validate()?;
    let cx = &match source.existing() {
        Some(run) => cx.after_handoffs(run)?,
        None => Arc::clone(cx),
    };
    let config = source.existing().map_or_else(|| cx.config(), |run| run.config().clone());
    let system = cx.instructions(&config.output).await?;
    let opened = match source {
        RunSource::Resume(suspended) => reopen(cx, *suspended, system).await?,
        RunSource::Restore(restored) => restore(cx, *restored, system).await?,
        RunSource::New(input) => return start(cx, input, config, system, base).await,
    };
    Ok(opened.with_shared_base(base))
}

/// Creates the driver of a new run with the stored conversation.
async fn start(
    cx: &Arc<DriverContext>,
    mut input: RunInput,
    config: RunConfig,
    system: Option<Arc<str>>,
    mut base: SharedStateSnapshot,
) -> Result<Driver, Error> {
    let is_message = matches!(input, RunInput::Message { .. });
    let (session, stored) = RunSession::open(&cx.options, &cx.root).await?;
    if !is_message && session.is_none() && cx.options.history.is_empty() {
        return Err(Error::Start(
            "going on needs the conversation: give `.session(..)` or `.history(..)`".to_owned(),
        ));
    }
    if session.is_some() && !cx.options.history.is_empty() {
        return Err(Error::Start(
            "a run has one conversation: give `.session(..)` or `.history(..)`, not both"
                .to_owned(),
        ));
    }
    let mut history = stored;
    history.extend(cx.options.history.iter().cloned());
    let brings_results = matches!(input, RunInput::ToolResults { .. });
    let (history, repairs) = context::load_context(&history, brings_results);
    if repairs > 0 {
        let message =
            format!("the stored conversation had {repairs} broken place(s), which were repaired");
        cx.events.emit(EventKind::Warning { message });
    }
    if let RunInput::Message { message } = &mut input {
        Arc::make_mut(message).created_at = cx.options.received_at.unwrap_or_else(|| cx.env.now());
        if message.is_empty() {
            return Err(Error::Start("the message is empty: say something".to_owned()));
        }
        cx.events.emit(EventKind::UserMessage { message: Arc::clone(message) });
    }
    let mut started = RunStarted {
        agent: Arc::clone(&cx.agent),
        config,
        context_matches_session: session.is_some() && repairs == 0,
        shared: Vec::new(),
        state: cx.state.snapshot(),
        input,
        at: cx.started_at,
    };
    if let Some(journal) = &cx.journal {
        started.shared = shared_state::take_changes(&mut base, &started.state);
        journal.run_started(&started).await?;
    }
    let run = Run::start(cx.run_id, started, history)?;
    Ok(driver(cx, run, system, session).with_shared_base(base))
}

/// Creates the driver of a run that was restored from its journal.
async fn restore(
    cx: &Arc<DriverContext>,
    restored: RestoredRun,
    system: Option<Arc<str>>,
) -> Result<Driver, Error> {
    let RestoredRun { run, revision } = restored;
    let session = RunSession::at_revision(&cx.options, &cx.root, revision)?;
    let mut driver = driver(cx, run, system, session);
    if driver.run.is_suspended() {
        driver.apply_entry(JournalEntry::Resumed { at: cx.env.now() })?;
    }
    if driver.run.is_done() {
        // The run was stopped or ended before it saw these messages: they continue it.
        driver.add_journal_messages().await?;
    }
    driver.offered_tools = OfferedTools::gather(cx, &driver.run).await;
    Ok(driver)
}

/// Creates the driver of a suspended run. Returns an error if another agent or version of the program stored it.
async fn reopen(
    cx: &Arc<DriverContext>,
    suspended: SuspendedRun,
    system: Option<Arc<str>>,
) -> Result<Driver, Error> {
    let SuspendedRun { run, session: point, .. } = suspended;
    if !run.is_current_version() {
        return Err(Error::Start(crate::outcome::SuspendedRunError::Version.to_string()));
    }
    let agent = cx.options.path(&cx.root.name);
    if run.agent() != &agent {
        return Err(Error::Start(format!(
            "the run belongs to agent `{}`, not to `{}`: resume it with its own agent",
            run.agent(),
            agent
        )));
    }
    let session = match point {
        Some(point) => Some(RunSession::reopen(&cx.options, &cx.root, point).await?),
        None => None,
    };
    let mut run = *run;
    run.apply(JournalEntry::Resumed { at: cx.env.now() })?;
    cx.budget.restore(&run.totals(), run.totals_before());
    if let Some(local) = &cx.relations.local {
        local.load_background_tasks(&cx.state);
    }
    let mut driver = driver(cx, run, system, session);
    driver.offered_tools = OfferedTools::gather(cx, &driver.run).await;
    Ok(driver)
}

/// Creates a driver without counted tokens and offered tools.
fn driver(
    cx: &Arc<DriverContext>,
    run: Run,
    system: Option<Arc<str>>,
    session: Option<RunSession>,
) -> Driver {
    Driver {
        cx: Arc::clone(cx),
        run,
        system,
        session,
        offered_tools: OfferedTools::default(),
        ledger: ContextTokens::default(),
        accumulator: None,
        unreviewed_usage: None,
        is_reviewing_input: false,
        limit_emitted: false,
        shared_base: None,
    }
}
