//! The connection to one server. It is opened when needed, reopened after a failure, and closed when idle.
//!
//! Invariant: a call that was passed to one connection is never passed to another one.

pub(crate) mod handshake;
pub(crate) mod monitor;
pub(crate) mod redaction;

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use provost_core::Backoff;
use rmcp::RoleClient;
use rmcp::model::SubscriptionFilter;
use rmcp::service::{Peer, RunningService, Subscription};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::connection::handshake::{Initialized, ServerRequestHandler, initialize};
use crate::connection::monitor::{ConnectionMonitor, locked};
use crate::connection::redaction::ServerRedaction;
use crate::limits::{BACKOFF_FIRST, BACKOFF_MAX, GOODBYE_TIMEOUT, PROGRAM_POLL, STABLE_AFTER};
use crate::server::{Handshake, McpServer};
use crate::tools::list::ToolListCache;
use crate::transport::stdio::ServerProcess;

/// A server of a pool: opens its connection when first needed, and again after a loss.
pub(crate) struct ServerConnection {
    pub(crate) server: McpServer,
    pub(crate) redaction: ServerRedaction,
    state: Mutex<ConnectionState>,
    opening: tokio::sync::Mutex<()>,
    closed: CancellationToken,
    watchers: TaskTracker,
}

/// Open connection of a server, and its recent failures.
#[derive(Default)]
struct ConnectionState {
    active: Option<Arc<ActiveConnection>>,
    failures: u32,
    cooldown: Option<(Instant, String)>,
    handshake: Option<Handshake>,
}

impl ServerConnection {
    pub(crate) fn new(server: McpServer, redaction: ServerRedaction) -> Arc<Self> {
        Arc::new(Self {
            server,
            redaction,
            state: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            closed: CancellationToken::new(),
            watchers: TaskTracker::new(),
        })
    }

    /// Registers the secrets of the server, and returns an open connection. Opens one if needed. Returns an error
    /// during the pause after repeated failures. The connection is not closed as idle while the guard exists.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Result<ConnectionGuard, Error> {
        // The redactor evicts the oldest secrets, so secrets in use are registered again.
        self.redaction.register_secrets(&self.server)?;
        if let Some(active) = self.reuse()? {
            return Ok(active);
        }
        let _opening = self.opening.lock().await;
        // Another task may have opened the connection, or failed to, in the meantime.
        if let Some(active) = self.reuse()? {
            return Ok(active);
        }
        self.open().await
    }

    /// Returns true if the connection is open.
    pub(crate) fn is_connected(&self) -> bool {
        locked(&self.state).active.as_ref().is_some_and(|active| active.is_alive())
    }

    /// Returns the open connection. Discards a connection that has ended, and records its loss. `None` if a new
    /// connection may be opened; an error if the pool is closed or during the pause after repeated failures.
    fn reuse(&self) -> Result<Option<ConnectionGuard>, Error> {
        if self.closed.is_cancelled() {
            return Err(Error::Closed);
        }
        let mut state = locked(&self.state);
        if let Some(active) = &state.active {
            if active.is_alive() {
                return Ok(Some(ConnectionGuard::new(active)));
            }
            let (lasted, reason) = (active.since.elapsed(), active.monitor.reason());
            state.active = None;
            state.record_loss(lasted, reason);
        }
        let Some((until, reason)) = &state.cooldown else {
            return Ok(None);
        };
        let wait = until.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Ok(None);
        }
        let (server, reason) = (self.server.name.clone(), reason.clone());
        Err(Error::CoolingDown { server, wait, reason })
    }

    /// Connects to the server, and starts the task that watches the connection. Records a failure.
    async fn open(self: &Arc<Self>) -> Result<ConnectionGuard, Error> {
        let handshake = match self.server.handshake {
            Handshake::Auto => locked(&self.state).handshake.unwrap_or_default(),
            handshake => handshake,
        };
        let initialized = tokio::select! {
            biased;
            () = self.closed.cancelled() => return Err(Error::Closed),
            initialized = Box::pin(initialize(&self.server, handshake, &self.redaction)) => initialized,
        };
        let mut state = locked(&self.state);
        match initialized {
            Ok(initialized) => {
                state.handshake = Some(initialized.handshake);
                state.cooldown = None;
                let active = ActiveConnection::new(initialized);
                let held = ConnectionGuard::new(&active);
                state.active = Some(Arc::clone(&active));
                drop(state);
                let watcher = watch_connection(
                    Arc::downgrade(self),
                    Arc::downgrade(&active),
                    self.closed.clone(),
                );
                self.watchers.spawn(watcher);
                Ok(held)
            }
            Err(error) => {
                // The server may have changed, so the next attempt detects the handshake again.
                state.handshake = None;
                // A missing isolation is an error of each call and does not start a cooldown.
                if !matches!(error, Error::Isolation { .. }) {
                    state.record_failure(error.to_string());
                }
                Err(error)
            }
        }
    }

    /// Discards a broken connection and records its loss, so that the next call opens a new one. Calls in progress keep
    /// it.
    pub(crate) fn discard(&self, active: &ConnectionGuard, reason: &str) {
        let mut state = locked(&self.state);
        if state.active.as_ref().is_some_and(|current| Arc::ptr_eq(current, &active.0)) {
            state.active = None;
            state.record_loss(active.since.elapsed(), reason.to_owned());
        }
    }

    /// Discards a connection, so that the next call opens a new one. Returns false, and keeps the connection, if a call
    /// uses it.
    fn discard_if_unused(&self, active: &Arc<ActiveConnection>) -> bool {
        let mut state = locked(&self.state);
        if active.busy.load(Ordering::Acquire) > 0 {
            return false;
        }
        if state.active.as_ref().is_some_and(|current| Arc::ptr_eq(current, active)) {
            state.active = None;
        }
        true
    }

    /// Closes the connection permanently, and waits until its program has ended.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        drop(self.opening.lock().await);
        self.watchers.close();
        self.watchers.wait().await;
    }
}

impl ConnectionState {
    /// Resets the number of failures if the connection lasted long enough. Otherwise records a failure.
    fn record_loss(&mut self, lasted: Duration, reason: String) {
        match lasted >= STABLE_AFTER {
            true => self.failures = 0,
            false => self.record_failure(reason),
        }
    }

    /// Counts a failure. From the second failure in a row, starts a pause whose length grows with each failure.
    fn record_failure(&mut self, reason: String) {
        self.failures = self.failures.saturating_add(1);
        // The first retry is immediate, because most servers are back at once.
        self.cooldown = self.failures.checked_sub(2).map(|times| {
            let backoff = Backoff { first: BACKOFF_FIRST, max: BACKOFF_MAX };
            (Instant::now() + backoff.wait(times), reason)
        });
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

/// An open connection to a server with its program and its tool list. Dropping it kills the program.
pub(crate) struct ActiveConnection {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) monitor: Arc<ConnectionMonitor>,
    pub(crate) listed: tokio::sync::Mutex<Option<ToolListCache>>,
    service: Mutex<Option<RunningService<RoleClient, ServerRequestHandler>>>,
    process: Option<Arc<ServerProcess>>,
    since: Instant,
    used: Mutex<Instant>,
    busy: AtomicUsize,
}

impl ActiveConnection {
    fn new(initialized: Initialized) -> Arc<Self> {
        Arc::new(Self {
            peer: initialized.service.peer().clone(),
            monitor: initialized.monitor,
            listed: tokio::sync::Mutex::default(),
            service: Mutex::new(Some(initialized.service)),
            process: initialized.process,
            since: Instant::now(),
            used: Mutex::new(Instant::now()),
            busy: AtomicUsize::new(0),
        })
    }

    /// Returns true if the connection has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        !self.monitor.dead.is_cancelled() && !self.peer.is_transport_closed()
    }

    /// Returns the reason why the connection ended, with the exit status and the standard error of the program.
    pub(crate) async fn close_reason(&self) -> String {
        let reason = self.monitor.reason();
        match &self.process {
            Some(process) => reason + &process.exit_description().await,
            None => reason,
        }
    }

    /// Returns true if the program has exited. False for a server over HTTP.
    fn has_program_ended(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.has_ended())
    }

    /// Returns the time of the last call. `None` while a call uses the connection.
    fn idle_since(&self) -> Option<Instant> {
        (self.busy.load(Ordering::Acquire) == 0).then(|| *locked(&self.used))
    }

    /// Asks a server of the newer protocol generation to report changes of its tools. `None` if the server does not
    /// support it or is older. Older servers report changes without a request.
    async fn subscribe(&self) -> Option<Subscription> {
        let info = self.peer.peer_info()?;
        let reports_changes = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
        if info.protocol_version.has_initialize() || reports_changes != Some(true) {
            return None;
        }
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        match tokio::time::timeout(GOODBYE_TIMEOUT, self.peer.listen(filter)).await {
            Ok(Ok(subscription)) => Some(subscription),
            Ok(Err(error)) => {
                tracing::debug!(%error, "MCP server does not report changes of its tools");
                None
            }
            Err(_) => None,
        }
    }

    /// Closes the connection and ends the program.
    async fn end(&self) {
        self.monitor.mark_dead("the connection was closed");
        let service = locked(&self.service).take();
        if let Some(mut service) = service
            && !matches!(service.close_with_timeout(GOODBYE_TIMEOUT).await, Ok(Some(_)))
        {
            tracing::debug!("connection to an MCP server did not close in time");
        }
        if let Some(process) = &self.process {
            process.end().await;
        }
    }
}

impl Drop for ActiveConnection {
    fn drop(&mut self) {
        self.monitor.mark_dead("the pool was dropped");
        if let Some(process) = &self.process {
            process.kill();
        }
    }
}

/// A connection in use. It is not closed as idle until the guard is dropped.
pub(crate) struct ConnectionGuard(Arc<ActiveConnection>);

impl ConnectionGuard {
    fn new(active: &Arc<ActiveConnection>) -> Self {
        active.busy.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(active))
    }
}

impl Deref for ConnectionGuard {
    type Target = ActiveConnection;

    fn deref(&self) -> &ActiveConnection {
        &self.0
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        *locked(&self.0.used) = Instant::now();
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits until a connection ends, the pool is closed or the connection was idle for too long. Then closes the
/// connection and ends its program.
async fn watch_connection(
    connection: Weak<ServerConnection>,
    active: Weak<ActiveConnection>,
    closed: CancellationToken,
) {
    let (monitor, _subscription) = match active.upgrade() {
        Some(active) => {
            let monitor = Arc::clone(&active.monitor);
            let subscription = tokio::select! {
                biased;
                () = monitor.dead.cancelled() => None,
                () = closed.cancelled() => None,
                subscription = active.subscribe() => subscription,
            };
            (monitor, subscription)
        }
        None => return,
    };
    loop {
        let Some(wait) = time_until_idle(&connection, &active) else {
            return;
        };
        if wait.is_zero() {
            match (connection.upgrade(), active.upgrade()) {
                (Some(connection), Some(active)) if !connection.discard_if_unused(&active) => {
                    continue;
                }
                _ => break,
            }
        }
        tokio::select! {
            biased;
            () = monitor.dead.cancelled() => break,
            () = closed.cancelled() => break,
            () = tokio::time::sleep(wait.min(PROGRAM_POLL)) => {}
        }
        // A child of the program may hold the pipes open after the program has exited.
        if active.upgrade().is_some_and(|active| active.has_program_ended()) {
            monitor.mark_dead("the program exited");
            break;
        }
    }
    // A dead connection remains in the state until the next call, because its lifetime determines the cooldown.
    if let Some(active) = active.upgrade() {
        active.end().await;
    }
}

/// Returns the time until the connection has been idle for too long, [`Duration::MAX`] if it is never closed as idle.
/// `None` if the connection was discarded.
fn time_until_idle(
    connection: &Weak<ServerConnection>,
    active: &Weak<ActiveConnection>,
) -> Option<Duration> {
    let active = active.upgrade()?;
    let Some(limit) = connection.upgrade().and_then(|connection| connection.server.idle_timeout)
    else {
        return Some(Duration::MAX);
    };
    let since = active.idle_since().unwrap_or_else(Instant::now);
    Some((since + limit).saturating_duration_since(Instant::now()))
}
