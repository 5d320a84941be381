//! Monitoring of the messages between client and server.
//!
//! Every transport is wrapped in [`MonitoredTransport`]. It consumes notifications such as progress and changed lists
//! before they can accumulate, and it ends the connection if the server sends too many requests. The end of a
//! connection is detected here first: a pending call watches [`ConnectionMonitor::dead`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use provost_tool::ToolContext;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions, GetMeta, ProgressNotificationParam, ProgressToken,
    ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

use crate::limits::{LISTENER_SWEEP, PROGRESS_MAX, SERVER_REQUESTS_MAX};

/// State of one connection that its transport and its callers share: why it ended, progress listeners and changes of
/// the tool list.
#[derive(Default)]
pub(crate) struct ConnectionMonitor {
    /// Cancelled once the connection is dead.
    pub(crate) dead: CancellationToken,
    reason: Mutex<Option<String>>,
    changed: AtomicBool,
    listeners: Mutex<HashMap<ProgressToken, Weak<ProgressListener>>>,
    server_requests: AtomicUsize,
}

impl ConnectionMonitor {
    /// Ends the connection. Only the first reason is recorded.
    pub(crate) fn mark_dead(&self, reason: impl Into<String>) {
        locked(&self.reason).get_or_insert_with(|| reason.into());
        self.dead.cancel();
    }

    /// Returns the reason why the connection ended. Returns a general text if no reason was recorded.
    pub(crate) fn reason(&self) -> String {
        let reason = locked(&self.reason).clone();
        reason.unwrap_or_else(|| "the connection ended".to_owned())
    }

    /// Returns true if the server reported a changed tool list since the last call of this function.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// Marks a call as sent, and registers its progress listener. Ignores other messages.
    fn inspect_outgoing(&self, message: &ClientJsonRpcMessage) {
        let ClientJsonRpcMessage::Request(request) = message else {
            return;
        };
        let Some(ProgressListenerRef(listener)) =
            request.request.extensions().get::<ProgressListenerRef>()
        else {
            return;
        };
        if let Some(listener) = listener.upgrade() {
            listener.sent.store(true, Ordering::Release);
        }
        if let Some(token) = request.request.get_meta().get_progress_token() {
            let mut listeners = locked(&self.listeners);
            if listeners.len() >= LISTENER_SWEEP {
                listeners.retain(|_, listener| listener.strong_count() > 0);
            }
            listeners.insert(token, listener.clone());
        }
    }

    /// Handles progress and changes of the tool list. Returns false if the message must not be passed on. Ends the
    /// connection if the server sends too many requests.
    fn inspect_incoming(&self, message: &ServerJsonRpcMessage) -> bool {
        match message {
            ServerJsonRpcMessage::Request(_) => {
                if self.server_requests.fetch_add(1, Ordering::AcqRel) >= SERVER_REQUESTS_MAX {
                    self.mark_dead(format!(
                        "the server sent more than {SERVER_REQUESTS_MAX} concurrent requests"
                    ));
                }
                true
            }
            ServerJsonRpcMessage::Notification(notification) => match &notification.notification {
                ServerNotification::ToolListChangedNotification(_) => {
                    self.changed.store(true, Ordering::Release);
                    false
                }
                ServerNotification::ProgressNotification(progress) => {
                    self.report_progress(&progress.params);
                    false
                }
                ServerNotification::SubscriptionsAcknowledgedNotification(_)
                | ServerNotification::CancelledNotification(_) => true,
                // Notifications about logs, resources and prompts are ignored.
                _ => false,
            },
            ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) => true,
        }
    }

    /// Passes progress to the listener of its call, if the call still waits.
    fn report_progress(&self, progress: &ProgressNotificationParam) {
        let listener =
            locked(&self.listeners).get(&progress.progress_token).and_then(Weak::upgrade);
        if let Some(listener) = listener {
            listener.report(progress);
        }
    }
}

/// Progress listener of a call. It also records whether the call was sent.
pub(crate) struct ProgressListener {
    cx: ToolContext,
    report_count: AtomicU32,
    sent: AtomicBool,
}

impl ProgressListener {
    pub(crate) fn new(cx: ToolContext) -> Arc<Self> {
        Arc::new(Self { cx, report_count: AtomicU32::new(0), sent: AtomicBool::new(false) })
    }

    /// Returns true if the call was passed to the transport. From then on it may have been executed.
    pub(crate) fn was_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }

    /// Reports progress to the call, up to [`PROGRESS_MAX`] times.
    fn report(&self, progress: &ProgressNotificationParam) {
        if self.report_count.fetch_add(1, Ordering::Relaxed) >= PROGRESS_MAX {
            return;
        }
        let completed = match progress.total {
            Some(total) => format!("{}/{total}", progress.progress),
            None => progress.progress.to_string(),
        };
        self.cx.progress(match &progress.message {
            Some(message) => format!("{completed} {message}"),
            None => completed,
        });
    }
}

/// Request extension with the progress listener. It is never serialized.
#[derive(Clone)]
pub(crate) struct ProgressListenerRef(pub(crate) Weak<ProgressListener>);

/// A transport that reports its messages to the monitor.
pub(crate) struct MonitoredTransport<T> {
    pub(crate) inner: T,
    pub(crate) monitor: Arc<ConnectionMonitor>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for MonitoredTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.monitor.inspect_outgoing(&message);
        let answers =
            matches!(message, ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_));
        let monitor = Arc::clone(&self.monitor);
        let send = self.inner.send(message);
        async move {
            let sent = send.await;
            if answers {
                monitor.server_requests.fetch_sub(1, Ordering::AcqRel);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = tokio::select! {
                biased;
                () = self.monitor.dead.cancelled() => return None,
                message = self.inner.receive() => message,
            };
            let Some(message) = message else {
                self.monitor.mark_dead("the server closed the connection");
                return None;
            };
            if self.monitor.inspect_incoming(&message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.monitor.mark_dead("the connection was closed");
        self.inner.close().await
    }
}

/// Locks a mutex, even if another thread panicked while it held the lock.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
