//! Sends the deliveries of webhooks.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderName, HeaderValue, StatusCode};
use provost_bus::{Topic, Wakeup};
use provost_core::{Env, Timestamp};
use provost_engine::{
    ClaimedWebhookDelivery, Engine, EngineError, WebhookClaimLimits, WebhookDeliveryResult,
};
use provost_net::headers::retry_after;
use provost_net::{NetClient, NetRequest, Url};
use tokio::task::JoinSet;

use super::address::policy;
use super::key::WebhookSigningKey;
use super::payload::payload;
use crate::app::App;

/// Maximum time of one request.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Duration of a claim. It is longer than a request, so that an active sender settles its deliveries in time.
const LEASE: Duration = Duration::from_secs(45);
/// Maximum number of concurrent requests.
const CONCURRENT_MAX: usize = 64;
/// Maximum number of concurrent requests to one webhook, so that a slow receiver does not delay others.
const CONCURRENT_PER_WEBHOOK_MAX: u64 = 4;
/// Maximum number of events that are read for one webhook at a time.
const FAN_OUT_BATCH: u64 = 200;
/// Delay between a new event and its delivery, so that one read covers several events.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// Interval at which the database is read without a wake-up, because other processes send none.
const POLL: Duration = Duration::from_secs(1);
/// Maximum size of a response that is read. A connection can be reused only after its response was read.
const RESPONSE_BYTES_MAX: usize = 16 * 1024;

const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("provost/", env!("CARGO_PKG_VERSION")));
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Sends the deliveries of webhooks until it is dropped. Several processes can send for the same database.
pub struct WebhookSender {
    task: tokio::task::JoinHandle<()>,
}

impl Drop for WebhookSender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Error of starting the sender.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// The server has no signing key.
    #[error("webhooks need a signing key: set one in the options of the server")]
    MissingSigningKey,
}

impl App {
    /// Starts to send the deliveries of webhooks.
    pub fn send_webhooks(&self) -> Result<WebhookSender, SenderError> {
        let options = &self.options();
        let key = options.webhook_signing_key.clone().ok_or(SenderError::MissingSigningKey)?;
        let client = NetClient::new(policy(options.allow_private_webhooks));
        let deliveries = Arc::new(DeliveryClient { client, key, env: options.env.clone() });
        let sender = Sender { engine: self.engine().clone(), deliveries };
        Ok(WebhookSender { task: tokio::spawn(sender.run()) })
    }
}

/// Engine and HTTP client of the sender's task.
struct Sender {
    engine: Engine,
    deliveries: Arc<DeliveryClient>,
}

impl Sender {
    /// Sends due deliveries, then waits for new events or the next due time. Never returns.
    async fn run(self) {
        let mut wakeups = self.engine.store().bus().subscribe(Topic::Wakeups);
        let mut sending: JoinSet<()> = JoinSet::new();
        loop {
            let delay = match self.send_due(&mut sending).await {
                Ok(delay) => delay,
                Err(error) => {
                    tracing::warn!(%error, "cannot send webhooks; retrying");
                    POLL
                }
            };
            tokio::select! {
                () = wakeups.woken(|wakeup| matches!(wakeup, Wakeup::Events(_))) => tokio::time::sleep(DEBOUNCE).await,
                Some(_) = sending.join_next() => {}
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    /// Creates deliveries for new events, and starts to send the due ones. Returns the time until the next call.
    async fn send_due(&self, sending: &mut JoinSet<()>) -> Result<Duration, EngineError> {
        let report = self.engine.webhooks().fan_out(FAN_OUT_BATCH, payload).await?;
        while sending.try_join_next().is_some() {}
        let room = CONCURRENT_MAX.saturating_sub(sending.len());
        if room > 0 {
            let limits = WebhookClaimLimits {
                limit: room as u64,
                per_webhook: CONCURRENT_PER_WEBHOOK_MAX,
                duration: LEASE,
            };
            for claimed in self.engine.webhooks().claim(limits).await? {
                let (engine, client) = (self.engine.clone(), Arc::clone(&self.deliveries));
                sending.spawn(async move { client.deliver(&engine, claimed).await });
            }
        }
        Ok(if report.more { Duration::ZERO } else { POLL })
    }
}

/// Signs and sends deliveries.
struct DeliveryClient {
    client: NetClient,
    key: WebhookSigningKey,
    env: Env,
}

impl DeliveryClient {
    /// Sends a delivery and records its result.
    async fn deliver(&self, engine: &Engine, claimed: ClaimedWebhookDelivery) {
        let result = self.send(&claimed).await;
        let delivery = &claimed.delivery;
        match engine.webhooks().record_result(delivery, result).await {
            Ok(_) => {}
            // When the claim expires, the delivery is sent again with the same id.
            Err(error) => {
                tracing::warn!(delivery.id = %delivery.id, %error, "cannot record the result of a delivery")
            }
        }
    }

    /// Signs and sends one attempt. An error is a result.
    async fn send(&self, claimed: &ClaimedWebhookDelivery) -> WebhookDeliveryResult {
        let failed = |error: &str| WebhookDeliveryResult::Failed {
            status: None,
            error: error.to_owned(),
            retry_after: None,
        };
        let Ok(url) = claimed.url.parse::<Url>() else {
            return failed("the URL of the webhook is invalid");
        };
        let delivery = &claimed.delivery;
        let (id, seconds) = (delivery.id.to_string(), self.env.now().as_millis() / 1000);
        let signature = self.key.derive(delivery.webhook_id).sign(&id, seconds, &delivery.body);
        let mut request = NetRequest::post(url, delivery.body.clone(), Instant::now() + TIMEOUT)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, USER_AGENT_VALUE)
            .header(TIMESTAMP, seconds.into());
        for (name, value) in [(ID, id), (SIGNATURE, signature)] {
            let Ok(value) = HeaderValue::try_from(value) else {
                return failed("the delivery cannot be signed");
            };
            request = request.header(name, value);
        }
        match self.client.send(request).await {
            Ok(response) => {
                let status = response.status;
                let retry_after = retry_after(
                    &response.headers,
                    UNIX_EPOCH + self.env.now().since(Timestamp::from_millis(0)),
                );
                // The status determines the result. The body is only read to reuse the connection.
                drop(response.prefix(RESPONSE_BYTES_MAX).await);
                outcome(status, retry_after)
            }
            // The error text contains only the host of the URL, because the rest can contain a key.
            Err(error) => failed(&error.to_string()),
        }
    }
}

fn outcome(status: StatusCode, retry_after: Option<Duration>) -> WebhookDeliveryResult {
    match status.as_u16() {
        status @ 200..300 => WebhookDeliveryResult::Delivered { status },
        410 => WebhookDeliveryResult::Gone { status: 410 },
        status => WebhookDeliveryResult::Failed {
            status: Some(status),
            error: format!("the receiver answered {status}"),
            retry_after,
        },
    }
}
