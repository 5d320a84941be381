//! Sending posts.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderName, HeaderValue, StatusCode};
use provost_bus::{Topic, Wakeup};
use provost_core::{Env, Timestamp};
use provost_engine::{Claim, ClaimedPost, Engine, EngineError, PostOutcome};
use provost_net::headers::retry_after;
use provost_net::{NetClient, NetRequest, Url};
use tokio::task::JoinSet;

use super::address::policy;
use super::key::MasterKey;
use super::payload::payload;
use crate::app::App;

/// How long one post may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long a claim holds: a sender that is still alive has settled by then.
const HOLD: Duration = Duration::from_secs(45);
/// Posts at once.
const AT_ONCE_MAX: usize = 64;
/// Posts to one webhook at once: a slow address must not take the place of others.
const PER_WEBHOOK: u64 = 4;
/// Events looked at for one webhook at once.
const FILL: u64 = 200;
/// How long events are gathered before they are looked at.
const GATHER: Duration = Duration::from_millis(50);
/// Other processes write to the same file and send no hints.
const POLL: Duration = Duration::from_secs(1);
/// How much of an answer is read, so that its connection can be used again.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("provost/", env!("CARGO_PKG_VERSION")));
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Sends what webhooks are to be told, until it is dropped. Any number of processes may do it for one database.
pub struct WebhookSender {
    task: tokio::task::JoinHandle<()>,
}

impl Drop for WebhookSender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// The server has no key of its own.
    #[error("webhooks need a master key: give one in the options")]
    NoKey,
}

impl App {
    /// Begins to send what webhooks are to be told.
    pub fn send_webhooks(&self) -> Result<WebhookSender, SenderError> {
        let options = &self.options();
        let key = options.master_key.clone().ok_or(SenderError::NoKey)?;
        let client = NetClient::new(policy(options.allow_private_webhooks));
        let post = Arc::new(Post { client, key, env: options.env.clone() });
        let sender = Sender { engine: self.engine().clone(), post };
        Ok(WebhookSender { task: tokio::spawn(sender.run()) })
    }
}

struct Sender {
    engine: Engine,
    post: Arc<Post>,
}

impl Sender {
    async fn run(self) {
        let mut hints = self.engine.store().bus().subscribe(Topic::Wakeups);
        let mut sending: JoinSet<()> = JoinSet::new();
        loop {
            let pause = match self.round(&mut sending).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "webhooks have to wait");
                    POLL
                }
            };
            tokio::select! {
                () = hints.woken(|wakeup| matches!(wakeup, Wakeup::Events(_))) => tokio::time::sleep(GATHER).await,
                Some(_) = sending.join_next() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Makes posts of what happened and sends what is due. Returns how long nothing will be to do, as far as is known.
    async fn round(&self, sending: &mut JoinSet<()>) -> Result<Duration, EngineError> {
        let filled = self.engine.webhooks().fill(FILL, payload).await?;
        while sending.try_join_next().is_some() {}
        let room = AT_ONCE_MAX.saturating_sub(sending.len());
        if room > 0 {
            let claim = Claim { limit: room as u64, per_webhook: PER_WEBHOOK, hold: HOLD };
            for claimed in self.engine.webhooks().claim(claim).await? {
                let (engine, post) = (self.engine.clone(), Arc::clone(&self.post));
                sending.spawn(async move { post.deliver(&engine, claimed).await });
            }
        }
        Ok(if filled.more { Duration::ZERO } else { POLL })
    }
}

/// How posts are made.
struct Post {
    client: NetClient,
    key: MasterKey,
    env: Env,
}

impl Post {
    async fn deliver(&self, engine: &Engine, claimed: ClaimedPost) {
        let outcome = self.send(&claimed).await;
        let post = &claimed.post;
        match engine.webhooks().settle(post, outcome).await {
            Ok(_) => {}
            // The claim ends by itself, and then it is sent again, under the same id.
            Err(error) => tracing::warn!(post.id = %post.id, %error, "a post cannot be settled"),
        }
    }

    async fn send(&self, claimed: &ClaimedPost) -> PostOutcome {
        let failed = |error: &str| PostOutcome::Failed {
            status: None,
            error: error.to_owned(),
            retry_after: None,
        };
        let Ok(url) = claimed.url.parse::<Url>() else {
            return failed("the address of the webhook cannot be read");
        };
        let post = &claimed.post;
        let (id, seconds) = (post.id.to_string(), self.env.now().as_millis() / 1000);
        let signature = self.key.of(post.webhook_id).sign(&id, seconds, &post.body);
        let mut request = NetRequest::post(url, post.body.clone(), Instant::now() + TIMEOUT)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, AGENT)
            .header(TIMESTAMP, seconds.into());
        for (name, value) in [(ID, id), (SIGNATURE, signature)] {
            let Ok(value) = HeaderValue::try_from(value) else {
                return failed("the post cannot be signed");
            };
            request = request.header(name, value);
        }
        match self.client.send(request).await {
            Ok(answer) => {
                let status = answer.status;
                let retry_after = retry_after(
                    &answer.headers,
                    UNIX_EPOCH + self.env.now().since(Timestamp::from_millis(0)),
                );
                // Whatever it says, it took the post.
                drop(answer.prefix(ANSWER_BYTES_MAX).await);
                outcome(status, retry_after)
            }
            // No text of it holds more of the address than its host: the rest may hold a key.
            Err(error) => failed(&error.to_string()),
        }
    }
}

fn outcome(status: StatusCode, retry_after: Option<Duration>) -> PostOutcome {
    match status.as_u16() {
        status @ 200..300 => PostOutcome::Delivered { status },
        410 => PostOutcome::Gone { status: 410 },
        status => PostOutcome::Failed {
            status: Some(status),
            error: format!("the address answered {status}"),
            retry_after,
        },
    }
}
