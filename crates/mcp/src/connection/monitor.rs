//! What passes between us and a server, watched.
//!
//! Every transport is wrapped in [`Watched`]. It takes out what only concerns us (progress, changed lists, chatter) before it
//! can pile up anywhere, and it ends a connection whose other side asks for too much. The end of a connection is known here
//! first: whoever waits for an answer watches [`Wire::dead`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use provost_tool::ToolCx;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions, GetMeta, ProgressNotificationParam, ProgressToken,
    ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

use crate::limits::{FOLLOWED_SWEEP, PROGRESS_MAX, SERVER_REQUESTS_MAX};

/// What is known about one connection, for both its ends.
#[derive(Default)]
pub(crate) struct Wire {
    /// Set once nothing more can come.
    pub(crate) dead: CancellationToken,
    reason: Mutex<Option<String>>,
    changed: AtomicBool,
    followed: Mutex<HashMap<ProgressToken, Weak<Follower>>>,
    asked: AtomicUsize,
}

impl Wire {
    /// Ends the connection. The first reason counts.
    pub(crate) fn die(&self, reason: impl Into<String>) {
        locked(&self.reason).get_or_insert_with(|| reason.into());
        self.dead.cancel();
    }

    /// Why the connection ended.
    pub(crate) fn reason(&self) -> String {
        let reason = locked(&self.reason).clone();
        reason.unwrap_or_else(|| "the connection ended".to_owned())
    }

    /// True once after the server has said that its list of tools changed.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// Looks at what we send: a call whose progress is followed says so by what it carries.
    fn going(&self, message: &ClientJsonRpcMessage) {
        let ClientJsonRpcMessage::Request(request) = message else {
            return;
        };
        let Some(Followed(follower)) = request.request.extensions().get::<Followed>() else {
            return;
        };
        if let Some(follower) = follower.upgrade() {
            follower.sent.store(true, Ordering::Release);
        }
        if let Some(token) = request.request.get_meta().get_progress_token() {
            let mut followed = locked(&self.followed);
            if followed.len() >= FOLLOWED_SWEEP {
                followed.retain(|_, follower| follower.strong_count() > 0);
            }
            followed.insert(token, follower.clone());
        }
    }

    /// Looks at what came. False for what ends here.
    fn coming(&self, message: &ServerJsonRpcMessage) -> bool {
        match message {
            ServerJsonRpcMessage::Request(_) => {
                if self.asked.fetch_add(1, Ordering::AcqRel) >= SERVER_REQUESTS_MAX {
                    self.die(format!(
                        "it asked for more than {SERVER_REQUESTS_MAX} things at once"
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
                    self.progress(&progress.params);
                    false
                }
                ServerNotification::SubscriptionsAcknowledgedNotification(_)
                | ServerNotification::CancelledNotification(_) => true,
                // Logs, resources and prompts are nobody's business here.
                _ => false,
            },
            ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) => true,
        }
    }

    fn progress(&self, progress: &ProgressNotificationParam) {
        let follower = locked(&self.followed).get(&progress.progress_token).and_then(Weak::upgrade);
        if let Some(follower) = follower {
            follower.report(progress);
        }
    }
}

/// A call whose progress is passed on, and whose sending is noted.
pub(crate) struct Follower {
    cx: ToolCx,
    reports: AtomicU32,
    sent: AtomicBool,
}

impl Follower {
    pub(crate) fn new(cx: ToolCx) -> Arc<Self> {
        Arc::new(Self { cx, reports: AtomicU32::new(0), sent: AtomicBool::new(false) })
    }

    /// True if the call was handed to the transport: from then on it may have happened.
    pub(crate) fn was_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }

    fn report(&self, progress: &ProgressNotificationParam) {
        if self.reports.fetch_add(1, Ordering::Relaxed) >= PROGRESS_MAX {
            return;
        }
        let done = match progress.total {
            Some(total) => format!("{}/{total}", progress.progress),
            None => progress.progress.to_string(),
        };
        self.cx.progress(match &progress.message {
            Some(message) => format!("{done} {message}"),
            None => done,
        });
    }
}

/// What a request carries to be followed. It stays here: it is never written out.
#[derive(Clone)]
pub(crate) struct Followed(pub(crate) Weak<Follower>);

/// A transport that is watched.
pub(crate) struct Watched<T> {
    pub(crate) inner: T,
    pub(crate) wire: Arc<Wire>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.wire.going(&message);
        let answers =
            matches!(message, ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_));
        let wire = Arc::clone(&self.wire);
        let send = self.inner.send(message);
        async move {
            let sent = send.await;
            if answers {
                wire.asked.fetch_sub(1, Ordering::AcqRel);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = tokio::select! {
                biased;
                () = self.wire.dead.cancelled() => return None,
                message = self.inner.receive() => message,
            };
            let Some(message) = message else {
                self.wire.die("the server closed the connection");
                return None;
            };
            if self.wire.coming(&message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.wire.die("the connection was closed");
        self.inner.close().await
    }
}

/// A lock that a panic elsewhere does not take away.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
