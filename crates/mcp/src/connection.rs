//! One server's connection: made when it is needed, made again after it died, closed when nobody needs it.
//!
//! Invariant: a call that was handed to a connection is never handed to another one.

pub(crate) mod handshake;
pub(crate) mod monitor;
pub(crate) mod redaction;

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use provost_core::Backoff;
use rmcp::RoleClient;
use rmcp::model::SubscriptionFilter;
use rmcp::service::{Peer, RunningService, Subscription};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::connection::handshake::{Client, Greeted, greet};
use crate::connection::monitor::{Wire, locked};
use crate::connection::redaction::Scrub;
use crate::limits::{BACKOFF_FIRST, BACKOFF_MAX, GOODBYE_TIMEOUT, PROGRAM_POLL, STABLE_AFTER};
use crate::server::{Era, McpServer};
use crate::tools::list::Listed;
use crate::transport::stdio::Process;

/// One server of a pool.
pub(crate) struct Link {
    pub(crate) server: McpServer,
    pub(crate) scrub: Scrub,
    now: Mutex<Now>,
    opening: tokio::sync::Mutex<()>,
    closed: CancellationToken,
    keepers: TaskTracker,
}

/// How it stands.
#[derive(Default)]
struct Now {
    live: Option<Arc<Live>>,
    failures: u32,
    rest: Option<(Instant, String)>,
    era: Option<Era>,
}

impl Link {
    pub(crate) fn new(server: McpServer, scrub: Scrub) -> Arc<Self> {
        Arc::new(Self {
            server,
            scrub,
            now: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            closed: CancellationToken::new(),
            keepers: TaskTracker::new(),
        })
    }

    /// A connection that works: the one there is, or a new one. It stays open as long as it is held.
    pub(crate) async fn live(self: &Arc<Self>) -> Result<Held, Error> {
        // Redaction forgets what was taught longest ago; what is in use is taught again.
        self.scrub.learn_all(&self.server)?;
        if let Some(live) = self.ready()? {
            return Ok(live);
        }
        let _opening = self.opening.lock().await;
        // Somebody else may have opened it, or failed to, while we waited.
        if let Some(live) = self.ready()? {
            return Ok(live);
        }
        self.open().await
    }

    /// True if there is a connection.
    pub(crate) fn is_live(&self) -> bool {
        locked(&self.now).live.as_ref().is_some_and(|live| live.is_alive())
    }

    fn ready(&self) -> Result<Option<Held>, Error> {
        if self.closed.is_cancelled() {
            return Err(Error::Closed);
        }
        let mut now = locked(&self.now);
        if let Some(live) = &now.live {
            if live.is_alive() {
                return Ok(Some(Held::new(live)));
            }
            let (lasted, reason) = (live.since.elapsed(), live.wire.reason());
            now.live = None;
            now.lost(lasted, reason);
        }
        let Some((until, reason)) = &now.rest else {
            return Ok(None);
        };
        let wait = until.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Ok(None);
        }
        let (server, reason) = (self.server.name.clone(), reason.clone());
        Err(Error::Resting { server, wait, reason })
    }

    async fn open(self: &Arc<Self>) -> Result<Held, Error> {
        let era = match self.server.era {
            Era::Auto => locked(&self.now).era.unwrap_or_default(),
            era => era,
        };
        let greeted = tokio::select! {
            biased;
            () = self.closed.cancelled() => return Err(Error::Closed),
            greeted = Box::pin(greet(&self.server, era, &self.scrub)) => greeted,
        };
        let mut now = locked(&self.now);
        match greeted {
            Ok(greeted) => {
                now.era = Some(greeted.era);
                now.rest = None;
                let live = Live::new(greeted);
                let held = Held::new(&live);
                now.live = Some(Arc::clone(&live));
                drop(now);
                let keeper = keep(Arc::downgrade(self), Arc::downgrade(&live), self.closed.clone());
                self.keepers.spawn(keeper);
                Ok(held)
            }
            Err(error) => {
                // What worked once need not be what the server speaks now.
                now.era = None;
                // What cannot be isolated is refused each time, and never taken for a server that rests.
                if !matches!(error, Error::Isolation { .. }) {
                    now.fail(error.to_string());
                }
                Err(error)
            }
        }
    }

    /// Lets go of a connection that does not work, so that the next call makes a new one. Calls under way keep it.
    pub(crate) fn give_up(&self, live: &Held, reason: &str) {
        let mut now = locked(&self.now);
        if now.live.as_ref().is_some_and(|current| Arc::ptr_eq(current, &live.0)) {
            now.live = None;
            now.lost(live.since.elapsed(), reason.to_owned());
        }
    }

    /// Lets go of a connection that has been idle for too long. False if it is in use again.
    fn let_go(&self, live: &Arc<Live>) -> bool {
        let mut now = locked(&self.now);
        if live.busy.load(Ordering::Acquire) > 0 {
            return false;
        }
        if now.live.as_ref().is_some_and(|current| Arc::ptr_eq(current, live)) {
            now.live = None;
        }
        true
    }

    /// Closes for good, and waits until nothing is left of it.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        drop(self.opening.lock().await);
        self.keepers.close();
        self.keepers.wait().await;
    }
}

impl Now {
    fn lost(&mut self, lasted: Duration, reason: String) {
        match lasted >= STABLE_AFTER {
            true => self.failures = 0,
            false => self.fail(reason),
        }
    }

    fn fail(&mut self, reason: String) {
        self.failures = self.failures.saturating_add(1);
        // The first new try is free: most servers come back at once.
        self.rest = self.failures.checked_sub(2).map(|times| {
            let backoff = Backoff { first: BACKOFF_FIRST, max: BACKOFF_MAX };
            (Instant::now() + backoff.wait(times), reason)
        });
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

/// A connection that was made.
pub(crate) struct Live {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) listed: tokio::sync::Mutex<Option<Listed>>,
    service: Mutex<Option<RunningService<RoleClient, Client>>>,
    process: Option<Arc<Process>>,
    since: Instant,
    used: Mutex<Instant>,
    busy: AtomicUsize,
}

impl Live {
    fn new(greeted: Greeted) -> Arc<Self> {
        Arc::new(Self {
            peer: greeted.service.peer().clone(),
            wire: greeted.wire,
            listed: tokio::sync::Mutex::default(),
            service: Mutex::new(Some(greeted.service)),
            process: greeted.process,
            since: Instant::now(),
            used: Mutex::new(Instant::now()),
            busy: AtomicUsize::new(0),
        })
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.wire.dead.is_cancelled() && !self.peer.is_transport_closed()
    }

    /// Why it ended, with the last words of its program.
    pub(crate) async fn why(&self) -> String {
        let reason = self.wire.reason();
        match &self.process {
            Some(process) => reason + &process.last_words().await,
            None => reason,
        }
    }

    fn program_ended(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.has_ended())
    }

    fn idle_since(&self) -> Option<Instant> {
        (self.busy.load(Ordering::Acquire) == 0).then(|| *locked(&self.used))
    }

    /// Asks a server of the newer generation to tell when its tools change. Older ones tell by themselves.
    async fn subscribe(&self) -> Option<Subscription> {
        let info = self.peer.peer_info()?;
        let tells = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
        if info.protocol_version.has_initialize() || tells != Some(true) {
            return None;
        }
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        match tokio::time::timeout(GOODBYE_TIMEOUT, self.peer.listen(filter)).await {
            Ok(Ok(subscription)) => Some(subscription),
            Ok(Err(error)) => {
                tracing::debug!(%error, "an MCP server does not tell about changes");
                None
            }
            Err(_) => None,
        }
    }

    /// Ends it: says goodbye, and leaves no process.
    async fn end(&self) {
        self.wire.die("the connection was closed");
        let service = locked(&self.service).take();
        if let Some(mut service) = service
            && !matches!(service.close_with_timeout(GOODBYE_TIMEOUT).await, Ok(Some(_)))
        {
            tracing::debug!("a connection to an MCP server did not close in time");
        }
        if let Some(process) = &self.process {
            process.end().await;
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.wire.die("the pool is gone");
        if let Some(process) = &self.process {
            process.kill();
        }
    }
}

/// A connection in use: it is not closed as idle.
pub(crate) struct Held(Arc<Live>);

impl Held {
    fn new(live: &Arc<Live>) -> Self {
        live.busy.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(live))
    }
}

impl Deref for Held {
    type Target = Live;

    fn deref(&self) -> &Live {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *locked(&self.0.used) = Instant::now();
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits for the end of a connection, whatever the reason, and cleans up.
async fn keep(link: Weak<Link>, live: Weak<Live>, closed: CancellationToken) {
    let (wire, _subscription) = match live.upgrade() {
        Some(live) => {
            let wire = Arc::clone(&live.wire);
            let subscription = tokio::select! {
                biased;
                () = wire.dead.cancelled() => None,
                () = closed.cancelled() => None,
                subscription = live.subscribe() => subscription,
            };
            (wire, subscription)
        }
        None => return,
    };
    loop {
        let Some(wait) = until_idle(&link, &live) else {
            return;
        };
        if wait.is_zero() {
            match (link.upgrade(), live.upgrade()) {
                (Some(link), Some(live)) if !link.let_go(&live) => continue,
                _ => break,
            }
        }
        tokio::select! {
            biased;
            () = wire.dead.cancelled() => break,
            () = closed.cancelled() => break,
            () = tokio::time::sleep(wait.min(PROGRAM_POLL)) => {}
        }
        // What a program has started may hold its pipes open after its end.
        if live.upgrade().is_some_and(|live| live.program_ended()) {
            wire.die("the program ended");
            break;
        }
    }
    // One that died stays with the link until it is asked for: its end decides when it is tried again.
    if let Some(live) = live.upgrade() {
        live.end().await;
    }
}

/// How long until the connection has been idle for too long. `None` if it is gone.
fn until_idle(link: &Weak<Link>, live: &Weak<Live>) -> Option<Duration> {
    let live = live.upgrade()?;
    let Some(limit) = link.upgrade().and_then(|link| link.server.idle_timeout) else {
        return Some(Duration::MAX);
    };
    let since = live.idle_since().unwrap_or_else(Instant::now);
    Some((since + limit).saturating_duration_since(Instant::now()))
}
