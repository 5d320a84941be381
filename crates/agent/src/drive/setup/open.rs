//! Opening a run: a new one, one that was suspended, one that was folded from its journal.

use std::sync::Arc;

use provost_core::{EventKind, Message, Role};

use super::Cx;
use crate::context;
use crate::drive::Driver;
use crate::drive::fit::TokenLedger;
use crate::drive::session::BoundSession;
use crate::drive::shared::{self, SharedBase};
use crate::drive::toolbox::Toolbox;
use crate::error::Error;
use crate::outcome::Suspended;
use crate::request::{Begin, Restored};
use crate::run::{BeginWith, Beginning, Feed, Run};

/// Loads the conversation and makes the run.
pub(crate) async fn open(
    cx: &Arc<Cx>,
    begin: Begin,
    mut base: SharedBase,
) -> Result<Driver, Error> {
    cx.check()?;
    let cx = &match begin.going_on() {
        Some(run) => cx.handed_along(run)?,
        None => Arc::clone(cx),
    };
    let config = begin.going_on().map_or_else(|| cx.config(), |run| run.config().clone());
    let system = cx.instructions(&config.output).await?;
    let begin = match begin {
        Begin::Resume(suspended) => {
            return Ok(reopen(cx, *suspended, system).await?.on_shared(base));
        }
        Begin::Restore(restored) => {
            return Ok(restore(cx, *restored, system).await?.on_shared(base));
        }
        other => other,
    };
    let (session, stored) = BoundSession::open(&cx.options, &cx.root).await?;
    if matches!(begin, Begin::Results(_) | Begin::Proceed)
        && session.is_none()
        && cx.options.history.is_empty()
    {
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
    let (history, repairs) = context::opening(&history, matches!(begin, Begin::Results(_)));
    if repairs > 0 {
        let message =
            format!("the stored conversation had {repairs} broken place(s), which were repaired");
        cx.queue.emit(EventKind::Warning { message });
    }
    let with = begin_with(cx, begin)?;
    let mut beginning = Beginning {
        agent: Arc::clone(&cx.agent),
        config,
        mirrors_session: session.is_some() && repairs == 0,
        shared: Vec::new(),
        state: cx.state.snapshot(),
        with,
        at: cx.started_at,
    };
    if let Some(journal) = &cx.journal {
        beginning.shared = shared::changes(&mut base, &beginning.state);
        journal.began(&beginning).await?;
    }
    let run = Run::begin(cx.run_id, beginning, history)?;
    Ok(driver(cx, run, system, session).on_shared(base))
}

/// What a new run begins with.
fn begin_with(cx: &Cx, begin: Begin) -> Result<BeginWith, Error> {
    Ok(match begin {
        Begin::Message(input) => {
            let said_at = cx.options.said_at.unwrap_or_else(|| cx.env.now());
            let message = Message::new(Role::User, input.0, said_at);
            if message.is_empty() {
                return Err(Error::Start("the message is empty: say something".to_owned()));
            }
            let message = Arc::new(message);
            cx.queue.emit(EventKind::UserMessage { message: Arc::clone(&message) });
            BeginWith::Message { message }
        }
        Begin::Results(results) => BeginWith::Results { results },
        Begin::Proceed => BeginWith::Nothing,
        Begin::Resume(_) | Begin::Restore(_) => {
            return Err(Error::Bug("a resumed run was opened as a new one".to_owned()));
        }
    })
}

/// Goes on with a run that was folded from its journal.
async fn restore(
    cx: &Arc<Cx>,
    restored: Restored,
    system: Option<Arc<str>>,
) -> Result<Driver, Error> {
    let Restored { run, revision } = restored;
    let session = BoundSession::at(&cx.options, &cx.root, revision)?;
    let mut driver = driver(cx, run, system, session);
    if driver.run.is_suspended() {
        driver.feed(Feed::Resumed { at: cx.env.now() })?;
    }
    if driver.run.is_done() {
        // It had been stopped, or had come to its end unnoticed: what was said to it since lets it go on.
        driver.hear_journal().await?;
    }
    driver.toolbox = Toolbox::gather(cx, &driver.run).await;
    Ok(driver)
}

async fn reopen(
    cx: &Arc<Cx>,
    suspended: Suspended,
    system: Option<Arc<str>>,
) -> Result<Driver, Error> {
    let Suspended { run, session: point, .. } = suspended;
    if !run.is_current_version() {
        return Err(Error::Start(crate::outcome::SuspendedError::Version.to_string()));
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
        Some(point) => Some(BoundSession::reopen(&cx.options, &cx.root, point).await?),
        None => None,
    };
    let mut run = *run;
    run.resumed(cx.env.now());
    cx.pot.go_on(&run.used_in_all(), run.used_before());
    if let Some(local) = &cx.local {
        local.load_labelled(&cx.state);
    }
    let mut driver = driver(cx, run, system, session);
    driver.toolbox = Toolbox::gather(cx, &driver.run).await;
    Ok(driver)
}

fn driver(
    cx: &Arc<Cx>,
    run: Run,
    system: Option<Arc<str>>,
    session: Option<BoundSession>,
) -> Driver {
    Driver {
        cx: Arc::clone(cx),
        run,
        system,
        session,
        toolbox: Toolbox::default(),
        ledger: TokenLedger::default(),
        fold: None,
        unseen: None,
        hears: false,
        limit_told: false,
        shared_base: None,
    }
}
