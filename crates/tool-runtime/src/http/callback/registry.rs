//! Where answers that come later are handed in: a server's route delivers, a waiting call receives.
//!
//! Invariants: an answer is taken once, with the token that was made for exactly this request, while its call still waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use provost_core::contract::{ToolContractError, ToolErrorCode, ToolResponse};
use ring::hmac;
use tokio::sync::oneshot;
use url::Url;

use crate::limits::CALLBACKS_MAX;

/// Bytes of the key that signs tokens.
pub const CALLBACK_KEY_BYTES: usize = 32;
/// Bytes that make two tokens for the same request different.
const NONCE_BYTES: usize = 16;

/// Where answers that come later are handed in. Cheap to clone; all clones are one desk.
#[derive(Clone)]
pub struct CallbackDesk {
    inner: Arc<Inner>,
}

struct Inner {
    base: Url,
    key: hmac::Key,
    waiting: Mutex<HashMap<String, Seat>>,
}

/// A call that waits.
struct Seat {
    nonce: [u8; NONCE_BYTES],
    answer: oneshot::Sender<ToolResponse>,
}

/// Why an answer is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// Nobody waits for it: it was answered, given up, or never asked.
    #[error("nobody waits for this request")]
    Unknown,
    /// The token is not the one that was made for this request.
    #[error("the token is not for this request")]
    Token,
    /// The envelope answers another request.
    #[error("the envelope's `request_id` is not the one of the address")]
    Mismatch,
}

impl CallbackDesk {
    /// A desk whose route is below this address: answers are posted to `<base>/<request id>`.
    pub fn new(base: Url, key: &[u8; CALLBACK_KEY_BYTES]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        Self { inner: Arc::new(Inner { base, key, waiting: Mutex::default() }) }
    }

    /// With a key of its own, for a program whose desk does not outlive it.
    pub fn with_random_key(base: Url) -> Result<Self, ToolContractError> {
        let mut key = [0; CALLBACK_KEY_BYTES];
        random(&mut key)?;
        Ok(Self::new(base, &key))
    }

    /// Begins to wait for the answer to a request. Dropping what it gives ends that.
    pub fn register(&self, request_id: &str) -> Result<Callback, ToolContractError> {
        let mut nonce = [0; NONCE_BYTES];
        random(&mut nonce)?;
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting();
        if waiting.len() >= CALLBACKS_MAX && !waiting.contains_key(request_id) {
            return Err(ToolContractError::new(
                ToolErrorCode::ExecutionFailed,
                format!("{CALLBACKS_MAX} calls wait for a callback already"),
            ));
        }
        // A second attempt has the same id, and the first one may not be quite gone: the last counts.
        waiting.insert(request_id.to_owned(), Seat { nonce, answer: sender });
        drop(waiting);
        let mut url = self.inner.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push(request_id);
        }
        Ok(Callback {
            desk: self.clone(),
            request_id: request_id.to_owned(),
            nonce,
            token: HEXLOWER.encode(&nonce)
                + &HEXLOWER.encode(self.sign(request_id, &nonce).as_ref()),
            url,
            answer: receiver,
        })
    }

    /// Hands in an answer: for the route `POST <base>/<request id>`, with the token of the header
    /// [`CALLBACK_TOKEN_HEADER`](crate::CALLBACK_TOKEN_HEADER).
    pub fn deliver(
        &self,
        request_id: &str,
        token: &str,
        response: ToolResponse,
    ) -> Result<(), CallbackError> {
        let mut waiting = self.waiting();
        let seat = waiting.get(request_id).ok_or(CallbackError::Unknown)?;
        let presented =
            HEXLOWER_PERMISSIVE.decode(token.as_bytes()).ok().ok_or(CallbackError::Token)?;
        let (nonce, signature) =
            presented.split_at_checked(NONCE_BYTES).ok_or(CallbackError::Token)?;
        let message = message(request_id, nonce);
        let signed = hmac::verify(&self.inner.key, &message, signature).is_ok();
        if !signed || nonce != seat.nonce {
            return Err(CallbackError::Token);
        }
        if response.request_id.trim() != request_id {
            return Err(CallbackError::Mismatch);
        }
        let seat = waiting.remove(request_id).ok_or(CallbackError::Unknown)?;
        drop(waiting);
        seat.answer.send(response).map_err(|_response| CallbackError::Unknown)
    }

    /// How many calls wait.
    pub fn waiting_count(&self) -> usize {
        self.waiting().len()
    }

    fn sign(&self, request_id: &str, nonce: &[u8]) -> hmac::Tag {
        hmac::sign(&self.inner.key, &message(request_id, nonce))
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Seat>> {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for CallbackDesk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallbackDesk")
            .field("waiting", &self.waiting_count())
            .finish_non_exhaustive()
    }
}

/// A place at the desk: what the other side is told, and the answer when it comes.
pub struct Callback {
    desk: CallbackDesk,
    request_id: String,
    nonce: [u8; NONCE_BYTES],
    token: String,
    url: Url,
    answer: oneshot::Receiver<ToolResponse>,
}

impl Callback {
    /// Where the answer is posted.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// What proves that an answer comes from whoever was asked.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Waits for the answer. It can be called again if it was dropped before.
    pub async fn answer(&mut self) -> Option<ToolResponse> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        let mut waiting = self.desk.waiting();
        // The place may be another attempt's by now.
        if waiting.get(&self.request_id).is_some_and(|seat| seat.nonce == self.nonce) {
            waiting.remove(&self.request_id);
        }
    }
}

/// The nonce has a fixed length, so no two pairs give the same bytes.
fn message(request_id: &str, nonce: &[u8]) -> Vec<u8> {
    [nonce, request_id.as_bytes()].concat()
}

fn random(bytes: &mut [u8]) -> Result<(), ToolContractError> {
    getrandom::fill(bytes).map_err(|error| {
        ToolContractError::new(
            ToolErrorCode::ExecutionFailed,
            format!("there are no random bytes: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use provost_core::contract::{ToolRequest, ToolResponse};

    use super::*;

    fn desk() -> CallbackDesk {
        CallbackDesk::with_random_key(Url::parse("https://me.example/v1/callbacks").unwrap())
            .unwrap()
    }

    fn response(request_id: &str) -> ToolResponse {
        let request = ToolRequest { request_id: request_id.to_owned(), ..ToolRequest::default() };
        ToolResponse::of(&request, Ok("done".to_owned()), 1)
    }

    #[tokio::test]
    async fn an_answer_is_taken_once() {
        let desk = desk();
        let mut callback = desk.register("r/1").unwrap();
        assert_eq!(callback.url().as_str(), "https://me.example/v1/callbacks/r%2F1");
        let token = callback.token().to_owned();
        desk.deliver("r/1", &token, response("r/1")).unwrap();
        assert_eq!(desk.deliver("r/1", &token, response("r/1")), Err(CallbackError::Unknown));
        assert_eq!(callback.answer().await.unwrap().output.result, "done");
        assert_eq!(desk.waiting_count(), 0);
    }

    #[test]
    fn only_its_own_token_opens_a_request() {
        let desk = desk();
        let (one, two) = (desk.register("1").unwrap(), desk.register("2").unwrap());
        let token = |callback: &Callback| callback.token().to_owned();
        for wrong in [token(&two), String::new(), "zz".repeat(48), "é".repeat(48), "00".repeat(48)]
        {
            assert_eq!(desk.deliver("1", &wrong, response("1")), Err(CallbackError::Token));
        }
        let mut flipped = token(&one).into_bytes();
        let last = flipped.len() - 1;
        flipped[last] = if flipped[last] == b'0' { b'1' } else { b'0' };
        let flipped = String::from_utf8(flipped).unwrap();
        assert_eq!(desk.deliver("1", &flipped, response("1")), Err(CallbackError::Token));
        assert_eq!(desk.deliver("1", &token(&one), response("2")), Err(CallbackError::Mismatch));
        assert!(desk.deliver("1", &token(&one), response("1")).is_ok());
    }

    #[test]
    fn a_token_is_worth_nothing_once_its_call_is_gone() {
        let desk = desk();
        let callback = desk.register("1").unwrap();
        let token = callback.token().to_owned();
        let second = desk.register("1").unwrap();
        drop(callback);
        assert_eq!(desk.deliver("1", &token, response("1")), Err(CallbackError::Token));
        assert_eq!(desk.waiting_count(), 1, "the second attempt waits on");
        drop(second);
        assert_eq!(desk.deliver("1", &token, response("1")), Err(CallbackError::Unknown));
        let again = desk.register("1").unwrap();
        assert_eq!(desk.deliver("1", &token, response("1")), Err(CallbackError::Token));
        drop(again);
        assert_eq!(desk.waiting_count(), 0);
    }
}
