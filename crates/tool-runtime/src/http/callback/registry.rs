//! Registry of callbacks: an HTTP route delivers a response to the pending call.
//!
//! Invariants: a callback is accepted once, with the token of exactly this request, while its call is pending.

use std::collections::HashMap;
use std::sync::Arc;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use parking_lot::Mutex;
use provost_core::contract::{ToolContractError, ToolErrorCode, ToolResponse};
use ring::hmac;
use tokio::sync::oneshot;
use url::Url;

use crate::limits::CALLBACKS_MAX;

/// Size of the key that signs tokens.
pub const CALLBACK_KEY_BYTES: usize = 32;
/// Size of the nonce that distinguishes tokens of the same request.
const NONCE_BYTES: usize = 16;

/// Calls that wait for a callback. Clones share the registry.
#[derive(Clone)]
pub struct CallbackRegistry {
    inner: Arc<Inner>,
}

/// State that the clones of a registry share.
struct Inner {
    base: Url,
    key: hmac::Key,
    pending: Mutex<HashMap<String, PendingCallback>>,
}

/// A call that waits for a callback.
struct PendingCallback {
    nonce: [u8; NONCE_BYTES],
    response: oneshot::Sender<ToolResponse>,
}

/// Error of a callback that was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// No call is pending for this request.
    #[error("no call is pending for this request")]
    Unknown,
    /// The token belongs to another request.
    #[error("the token does not belong to this request")]
    Token,
    /// The envelope belongs to another request.
    #[error("the `request_id` of the envelope differs from the URL")]
    Mismatch,
}

impl CallbackRegistry {
    /// Creates a registry whose route is `<base>/<request id>`.
    pub fn new(base: Url, key: &[u8; CALLBACK_KEY_BYTES]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        Self { inner: Arc::new(Inner { base, key, pending: Mutex::default() }) }
    }

    /// Creates a registry with a random key. Its tokens become invalid when the process ends.
    pub fn with_random_key(base: Url) -> Result<Self, ToolContractError> {
        let mut key = [0; CALLBACK_KEY_BYTES];
        random(&mut key)?;
        Ok(Self::new(base, &key))
    }

    /// Registers a call. Dropping the [`Callback`] removes it. Returns an error if too many calls wait, or a call with
    /// this id already waits.
    pub fn register(&self, request_id: &str) -> Result<Callback, ToolContractError> {
        let mut nonce = [0; NONCE_BYTES];
        random(&mut nonce)?;
        let (sender, receiver) = oneshot::channel();
        let mut pending = self.inner.pending.lock();
        if pending.len() >= CALLBACKS_MAX && !pending.contains_key(request_id) {
            return Err(ToolContractError::new(
                ToolErrorCode::ExecutionFailed,
                format!("{CALLBACKS_MAX} calls already wait for a callback"),
            ));
        }
        // A retry has the same request id, and the first attempt may not be removed yet. The latest one wins.
        pending.insert(request_id.to_owned(), PendingCallback { nonce, response: sender });
        drop(pending);
        let mut url = self.inner.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push(request_id);
        }
        Ok(Callback {
            registry: self.clone(),
            request_id: request_id.to_owned(),
            nonce,
            token: HEXLOWER.encode(&nonce)
                + &HEXLOWER.encode(self.sign(request_id, &nonce).as_ref()),
            url,
            response: receiver,
        })
    }

    /// Passes a response to the waiting call. The route `POST <base>/<request id>` calls it with the token of the
    /// header [`CALLBACK_TOKEN_HEADER`](crate::CALLBACK_TOKEN_HEADER). Returns an error if no call waits or the token
    /// is wrong.
    pub fn deliver(
        &self,
        request_id: &str,
        token: &str,
        response: ToolResponse,
    ) -> Result<(), CallbackError> {
        let mut pending = self.inner.pending.lock();
        let entry = pending.get(request_id).ok_or(CallbackError::Unknown)?;
        let presented =
            HEXLOWER_PERMISSIVE.decode(token.as_bytes()).ok().ok_or(CallbackError::Token)?;
        let (nonce, signature) =
            presented.split_at_checked(NONCE_BYTES).ok_or(CallbackError::Token)?;
        let message = message(request_id, nonce);
        let signed = hmac::verify(&self.inner.key, &message, signature).is_ok();
        if !signed || nonce != entry.nonce {
            return Err(CallbackError::Token);
        }
        if response.request_id.trim() != request_id {
            return Err(CallbackError::Mismatch);
        }
        let entry = pending.remove(request_id).ok_or(CallbackError::Unknown)?;
        drop(pending);
        entry.response.send(response).map_err(|_response| CallbackError::Unknown)
    }

    /// Returns the number of waiting calls.
    pub fn pending_count(&self) -> usize {
        self.inner.pending.lock().len()
    }

    /// Returns the signature of a token.
    fn sign(&self, request_id: &str, nonce: &[u8]) -> hmac::Tag {
        hmac::sign(&self.inner.key, &message(request_id, nonce))
    }
}

impl std::fmt::Debug for CallbackRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallbackRegistry")
            .field("pending", &self.pending_count())
            .finish_non_exhaustive()
    }
}

/// A registered callback: its URL and token for the service, and the response.
pub struct Callback {
    registry: CallbackRegistry,
    request_id: String,
    nonce: [u8; NONCE_BYTES],
    token: String,
    url: Url,
    response: oneshot::Receiver<ToolResponse>,
}

impl Callback {
    /// Returns the URL for the callback.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the token that authenticates the callback.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Waits for the response. `None` if another call with the same id replaced this one. The call is cancellation
    /// safe.
    pub async fn response(&mut self) -> Option<ToolResponse> {
        (&mut self.response).await.ok()
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        let mut pending = self.registry.inner.pending.lock();
        // A retry may have replaced the entry.
        if pending.get(&self.request_id).is_some_and(|entry| entry.nonce == self.nonce) {
            pending.remove(&self.request_id);
        }
    }
}

/// Returns the signed text. The nonce has a fixed length, so the encoding is unambiguous.
fn message(request_id: &str, nonce: &[u8]) -> Vec<u8> {
    [nonce, request_id.as_bytes()].concat()
}

/// Fills the bytes with random values. Returns an error if the system has none.
fn random(bytes: &mut [u8]) -> Result<(), ToolContractError> {
    getrandom::fill(bytes).map_err(|error| {
        ToolContractError::new(
            ToolErrorCode::ExecutionFailed,
            format!("no random bytes are available: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use provost_core::contract::{ToolRequest, ToolResponse};

    use super::*;

    fn registry() -> CallbackRegistry {
        CallbackRegistry::with_random_key(Url::parse("https://me.example/v1/callbacks").unwrap())
            .unwrap()
    }

    fn response(request_id: &str) -> ToolResponse {
        let request = ToolRequest { request_id: request_id.to_owned(), ..ToolRequest::default() };
        ToolResponse::of(&request, Ok("done".to_owned()), 1)
    }

    #[tokio::test]
    async fn an_answer_is_taken_once() {
        let registry = registry();
        let mut callback = registry.register("r/1").unwrap();
        assert_eq!(callback.url().as_str(), "https://me.example/v1/callbacks/r%2F1");
        let token = callback.token().to_owned();
        registry.deliver("r/1", &token, response("r/1")).unwrap();
        assert_eq!(registry.deliver("r/1", &token, response("r/1")), Err(CallbackError::Unknown));
        assert_eq!(callback.response().await.unwrap().output.result, "done");
        assert_eq!(registry.pending_count(), 0);
    }

    #[test]
    fn only_its_own_token_opens_a_request() {
        let registry = registry();
        let (one, two) = (registry.register("1").unwrap(), registry.register("2").unwrap());
        let token = |callback: &Callback| callback.token().to_owned();
        for wrong in [token(&two), String::new(), "zz".repeat(48), "é".repeat(48), "00".repeat(48)]
        {
            assert_eq!(registry.deliver("1", &wrong, response("1")), Err(CallbackError::Token));
        }
        let mut flipped = token(&one).into_bytes();
        let last = flipped.len() - 1;
        flipped[last] = if flipped[last] == b'0' { b'1' } else { b'0' };
        let flipped = String::from_utf8(flipped).unwrap();
        assert_eq!(registry.deliver("1", &flipped, response("1")), Err(CallbackError::Token));
        assert_eq!(
            registry.deliver("1", &token(&one), response("2")),
            Err(CallbackError::Mismatch)
        );
        assert!(registry.deliver("1", &token(&one), response("1")).is_ok());
    }

    #[test]
    fn a_token_is_worth_nothing_once_its_call_is_gone() {
        let registry = registry();
        let callback = registry.register("1").unwrap();
        let token = callback.token().to_owned();
        let second = registry.register("1").unwrap();
        drop(callback);
        assert_eq!(registry.deliver("1", &token, response("1")), Err(CallbackError::Token));
        assert_eq!(registry.pending_count(), 1, "the second attempt waits on");
        drop(second);
        assert_eq!(registry.deliver("1", &token, response("1")), Err(CallbackError::Unknown));
        let again = registry.register("1").unwrap();
        assert_eq!(registry.deliver("1", &token, response("1")), Err(CallbackError::Token));
        drop(again);
        assert_eq!(registry.pending_count(), 0);
    }
}
