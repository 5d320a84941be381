//! One attempt: the loop of the agent crate, driven through the journal.

mod drive;
pub(crate) mod follow;
mod instructions;
pub(crate) mod live_events;
pub(crate) mod outcome;
pub(crate) mod restore;
pub(crate) mod timeouts;
pub(crate) mod workspace;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use provost_agent::run::{Feed, Run};
use provost_agent::{OnApproval, RunBuilder};
use provost_core::StopReason;
use provost_core::recovery::OutcomeCode;
use provost_failpoint::failpoint;
use provost_store::table::work::{run, session_entry};
use provost_tool::{Deps, Origin};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use self::drive::{Driven, drive};
use crate::approval::Asking;
use crate::attempt::follow::Show;
use crate::attempt::instructions::ExtraInstructions;
use crate::attempt::live_events::{Tap, place_of};
use crate::attempt::outcome::Verdict;
use crate::attempt::restore::{Loaded, Words};
use crate::attempt::timeouts::Clocks;
use crate::child::team;
use crate::child::{Birth, EngineChildren, Family};
use crate::engine::Shared;
use crate::error::EngineError;
use crate::journal::RunJournal;
use crate::journal::shared_state;
use crate::run::settle::{self, Settled, Terms};
use crate::worker::lease::Lease;

/// The first wait before a settlement that the database did not take is tried again.
const SETTLE_RETRY: Duration = Duration::from_millis(50);
/// The longest of these waits.
const SETTLE_RETRY_MAX: Duration = Duration::from_secs(5);

/// What an attempt is told from outside; what is stronger replaces what is weaker, and never the reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    /// Go on.
    Work,
    /// Give the run back at the next boundary: the worker stops.
    Drain,
    /// End the run, or make room for a newer message: the reason is in its row.
    Stop,
    /// The lease is gone or the worker is: write nothing more.
    Abandon,
}

/// An attempt that is under way in this process, or that is being unwound.
pub(crate) struct Live {
    pub(crate) lease: Arc<Lease>,
    signal: watch::Sender<Signal>,
    journal: Mutex<Option<Arc<RunJournal>>>,
    /// Set when the attempt is settled or given up.
    pub(crate) over: CancellationToken,
    /// What whoever watches sees of it.
    pub(crate) show: Show,
}

impl Live {
    pub(crate) fn new(lease: Lease, tap: &Arc<Tap>) -> Self {
        Self {
            show: Show::new(place_of(&lease), Arc::clone(tap)),
            lease: Arc::new(lease),
            signal: watch::Sender::new(Signal::Work),
            journal: Mutex::default(),
            over: CancellationToken::new(),
        }
    }

    /// Waits until the attempt is over and settled.
    pub(crate) async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Tells the attempt what to do. Once it is given up nothing of it is written any more, whatever still runs.
    pub(crate) fn tell(&self, signal: Signal) {
        let journal = self.journal();
        self.signal.send_if_modified(|now| {
            let stronger = signal > *now;
            *now = signal.max(*now);
            stronger
        });
        if let (Signal::Abandon, Some(journal)) = (signal, &*journal) {
            journal.close();
        }
    }

    /// Looks for inputs at the next boundary.
    pub(crate) fn hint_input(&self) {
        if let Some(journal) = &*self.journal() {
            journal.hint_input();
        }
    }

    fn write_to(&self, journal: &Arc<RunJournal>) {
        let mut slot = self.journal();
        if *self.signal.borrow() == Signal::Abandon {
            journal.close();
        }
        *slot = Some(Arc::clone(journal));
    }

    fn journal(&self) -> MutexGuard<'_, Option<Arc<RunJournal>>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries an attempt to its end and settles it.
pub(crate) async fn carry(shared: &Shared, live: &Live) {
    let worked = AssertUnwindSafe(work(shared, live)).catch_unwind().await;
    let (verdict, written) = match worked {
        Ok(Ok(Some(done))) => done,
        Ok(Ok(None)) => return,
        Ok(Err(error)) if error.is_fenced() => return live.show.fenced(),
        Ok(Err(error)) => (Verdict::of_engine(&error), Written::default()),
        // What builds agents is not ours and may panic.
        Err(_) => {
            let detail = "the attempt panicked";
            (Verdict::failed(OutcomeCode::Internal, detail), Written::default())
        }
    };
    failpoint!("attempt.before_settle");
    settle(shared, live, verdict, written).await;
    failpoint!("attempt.settled");
}

/// How far an attempt has written; zero if that is not known.
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    /// The last step, unless it is known to be on disk. It need not be there before the attempt is settled, but must be with it.
    after: u64,
    /// No step before this one is without an outcome then.
    open_from: u64,
}

impl Written {
    fn to(journal: &RunJournal) -> Self {
        Self { after: journal.unconfirmed_step(), open_from: journal.open_from() }
    }
}

/// Settles an attempt, however long the database does not take it: what was done must not be done again.
async fn settle(shared: &Shared, live: &Live, mut verdict: Verdict, mut written: Written) {
    let options = &shared.options;
    let (expiry, fallback) = (options.approval_expiry, options.fallback);
    let asking = Asking { id: shared.env.id(), expiry, fallback };
    let chance = shared.env.random_unit();
    let mut signal = live.signal.subscribe();
    let mut wait = SETTLE_RETRY;
    let journal = live.journal().clone();
    loop {
        let (lease, settled) = (Arc::clone(&live.lease), verdict.clone());
        let Written { after, open_from } = written;
        let terms = Terms { chance, asking, after, open_from };
        let settled = shared.store.write(move |tx| settle::settle(tx, &lease, &settled, terms));
        let error = match (settled.await, &journal) {
            (Ok(Settled::WriteLost), Some(journal)) => {
                written = Written::default();
                match journal.confirm().await {
                    Err(error) if error.is_fenced() => return live.show.fenced(),
                    Err(error) => verdict = Verdict::of_engine(&error),
                    Ok(()) if matches!(verdict, Verdict::Ok(_)) => {
                        verdict = Verdict::Unwritten("what it wrote last was lost".to_owned());
                    }
                    Ok(()) => {}
                }
                continue;
            }
            (Ok(_), _) => return,
            (Err(error), _) => error,
        };
        if error.is_fenced() {
            return live.show.fenced();
        }
        tracing::warn!(run = %live.lease.run, %error, "an attempt could not be settled");
        if !error.kind().retryable() {
            // The worker finds that nobody works on it any more and gives it to another attempt.
            return;
        }
        tokio::select! {
            biased;
            _ = signal.wait_for(|signal| *signal == Signal::Abandon) => return,
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(SETTLE_RETRY_MAX),
        }
    }
}

/// Works until there is something to settle; `None` if the run was given up.
async fn work(shared: &Shared, live: &Live) -> Result<Option<(Verdict, Written)>, EngineError> {
    failpoint!("attempt.claimed");
    let mut signal = live.signal.subscribe();
    let opened = tokio::select! {
        biased;
        opened = open(shared, live) => opened?,
        // Nothing of it has happened yet.
        _ = signal.wait_for(|signal| *signal == Signal::Abandon) => return Ok(None),
    };
    let Opened { builder, journal, watch, span } = opened;
    let driven = drive(builder, live, &journal, watch).instrument(span).await;
    Ok(match driven {
        Driven::GivenUp => None,
        Driven::Boundary => Some((Verdict::HandedOver, Written::to(&journal))),
        Driven::Ended(outcome) => Some((Verdict::of(*outcome), Written::to(&journal))),
        Driven::Stopped(verdict) => Some((verdict, Written::default())),
    })
}

/// A run that is ready to be driven.
struct Opened {
    builder: RunBuilder,
    journal: Arc<RunJournal>,
    watch: drive::Watch,
    span: tracing::Span,
}

async fn open(shared: &Shared, live: &Live) -> Result<Opened, EngineError> {
    let lease = &live.lease;
    let loaded = load(shared, lease).await?;
    let Words { extra, by, birth } = loaded.words;
    let Loaded { machine, message, revision, mut journal, agent, .. } = loaded;
    let owners = shared_state::owners(lease, loaded.user.as_deref());
    journal.user = loaded.user;
    let profile = shared.profiles.get(&shared.store, agent).await?;
    let budgeted = !lease.budgets.is_empty();
    let store = shared.store.clone();
    let journal =
        RunJournal::new(store, Arc::clone(lease), journal, shared.options.on_unknown, budgeted);
    let journal = Arc::new(journal);
    live.write_to(&journal);
    let agent = shared.agents.build(&profile, lease)?;
    let agent = match &birth {
        Some(birth) => birth.agent(&agent)?,
        None => agent,
    };
    let builder = match (machine, message) {
        (Some(machine), _) => {
            workspace::check(shared, lease, &journal).await?;
            let machine = take_up(shared, lease, &journal, machine).await?;
            agent.restore(machine, revision)
        }
        (None, Some(message)) => agent.run(message.parts).said_at(message.created_at),
        (None, None) => return Err(EngineError::bug("a run without a message")),
    };
    let builder = builder
        .run_id(lease.run)
        .session(journal.clone(), lease.session.clone())
        .journal(journal.clone())
        .shared_values(owners, loaded.shared)
        .deps(given(shared, lease, &journal))
        .children(Arc::new(EngineChildren::new(
            Family::new(shared, lease, &journal),
            birth.as_ref(),
        )))
        .origin(Origin {
            namespace: lease.namespace.clone(),
            task: lease.task.to_string(),
            worker: lease.worker.to_string(),
            principal: by.unwrap_or_default(),
            ..Origin::default()
        })
        .on_approval(OnApproval::Suspend);
    let span = Birth::span(birth.as_ref(), lease.run);
    let member = team::membership(shared, birth.as_ref()).await?;
    let builder = match team::seat(shared, lease, agent.team_book(), member) {
        Some(seat) => builder.seat(seat),
        None => builder,
    };
    let builder = match birth {
        Some(birth) => birth.place_in(builder),
        None => builder,
    };
    let builder = match extra {
        Some(extra) => builder.hook(ExtraInstructions(extra)),
        None => builder,
    };
    let watch = drive::Watch::new(Clocks::of(&profile.config)?, &shared.options);
    Ok(Opened { builder, journal, watch, span })
}

/// What the engine gives to the tools of a run.
fn given(shared: &Shared, lease: &Arc<Lease>, journal: &Arc<RunJournal>) -> Deps {
    Deps::default().with_shared(journal.transactional()).with(Family::new(shared, lease, journal))
}

async fn load(shared: &Shared, lease: &Arc<Lease>) -> Result<Loaded, EngineError> {
    let (lease, env) = (Arc::clone(lease), shared.env.clone());
    let loading = shared.store.read(move |tx| {
        let row = run::get(tx, lease.run)?;
        let row = row.ok_or_else(|| EngineError::not_found("run", lease.run))?;
        restore::load(tx, &row, &env)
    });
    loading.await
}

/// A run that was interrupted stops first; the driver then takes in what interrupted it. One that had freed its session
/// meanwhile notes what changed.
async fn take_up(
    shared: &Shared,
    lease: &Arc<Lease>,
    journal: &Arc<RunJournal>,
    mut machine: Run,
) -> Result<Run, EngineError> {
    use provost_agent::journal::Journal as _;
    let bug = |error: &dyn std::fmt::Display| EngineError::bug(error.to_string());
    let found = {
        let lease = Arc::clone(lease);
        shared.store.read(move |tx| {
            let interrupts = crate::input::interrupts(tx, &lease)?;
            let since = run::get(tx, lease.run)?.and_then(|row| row.base_revision).unwrap_or(0);
            let session = lease.session();
            let moved = session_entry::added_by_others(tx, session, lease.run, since)?;
            Ok::<_, EngineError>((interrupts, moved))
        })
    };
    let (interrupts, moved) = found.await?;
    let mut feeds = Vec::new();
    if moved && !machine.is_done() {
        // Its conversation is no longer the end of the session: nothing of others may be taken out by counting from there.
        let messages = machine.pieces(machine.context());
        feeds.push(Feed::ContextChanged { messages });
    }
    if interrupts && !machine.is_done() {
        let (reason, at) = (StopReason::Cancelled, shared.env.now());
        feeds.push(Feed::Stopped { partial: None, cost: None, reason, limit: None, at });
    }
    for feed in feeds {
        journal.record(&feed).map_err(|error| bug(&error))?;
        machine.apply(feed).map_err(|error| bug(&error))?;
    }
    Ok(machine)
}
