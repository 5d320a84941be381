//! What is answered: the head at once, the body as far as its reader takes it.

use std::fmt;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};
use http::{StatusCode, Version};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::decode::Decoder;
use crate::error::NetError;
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX};

/// Room that a body gets before it has shown how much it needs.
const BODY_BYTES_FIRST: usize = 64 * 1024;

/// An answer. Dropping it gives up the rest of its body.
pub struct NetResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers; without those of an encoding that is undone here.
    pub headers: HeaderMap,
    /// Who answered: another than was asked if redirects were followed.
    pub url: Url,
    /// The protocol that was spoken.
    pub version: Version,
    body: Incoming,
    decoder: Option<Decoder>,
    deadline: Instant,
}

impl NetResponse {
    pub(crate) fn new(
        response: http::Response<Incoming>,
        url: Url,
        deadline: Instant,
    ) -> Result<Self, NetError> {
        let (head, body) = response.into_parts();
        let mut headers = head.headers;
        let host = url.host_str().unwrap_or_default();
        let size: usize =
            headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if size > HEAD_BYTES_MAX || headers.len() > HEADERS_MAX {
            return Err(NetError::malformed(host, "its head is too large"));
        }
        let decoder = match body.is_end_stream() {
            true => None,
            false => Decoder::of(&headers).map_err(|problem| NetError::malformed(host, problem))?,
        };
        if decoder.is_some() {
            headers.remove(CONTENT_ENCODING);
            headers.remove(CONTENT_LENGTH);
        }
        let (status, version) = (head.status, head.version);
        Ok(Self { status, headers, url, version, body, decoder, deadline })
    }

    /// The whole body, if it has at most this many bytes when it is unpacked.
    pub async fn bytes(mut self, max: usize) -> Result<Bytes, NetError> {
        if self.decoder.is_none() && self.body.size_hint().lower() > max as u64 {
            return Err(NetError::TooLarge { max });
        }
        match self.read(max).await? {
            (body, false) => Ok(body),
            (_, true) => Err(NetError::TooLarge { max }),
        }
    }

    /// The beginning of the body, and whether there was more.
    pub async fn prefix(mut self, max: usize) -> Result<(Bytes, bool), NetError> {
        self.read(max).await
    }

    /// The next piece of the body as it comes, unpacked; `None` at its end. Dropping the future loses nothing.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, NetError> {
        loop {
            if self.decoder.is_some() {
                // A small piece can be unpacked into very much: others have their turn, and time passes.
                consume_budget().await;
                self.check_time()?;
            }
            if let Some(decoder) = &mut self.decoder {
                let piece = decoder.next();
                let ended = decoder.is_ended();
                let piece =
                    piece.map_err(|error| NetError::malformed(self.host(), error.to_string()))?;
                if piece.is_some() || ended {
                    return Ok(piece);
                }
            }
            match (self.frame().await?, &mut self.decoder) {
                (None, None) => return Ok(None),
                (None, Some(decoder)) => decoder.end(),
                (Some(piece), _) if piece.is_empty() => {}
                (Some(piece), None) => return Ok(Some(piece)),
                (Some(piece), Some(decoder)) => decoder.feed(piece),
            }
        }
    }

    /// The body in pieces as they come, unpacked. It ends after an error.
    pub fn stream(self) -> impl Stream<Item = Result<Bytes, NetError>> + Send + 'static {
        futures::stream::try_unfold(self, async |mut response| {
            Ok(response.chunk().await?.map(|piece| (piece, response)))
        })
    }

    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    async fn read(&mut self, max: usize) -> Result<(Bytes, bool), NetError> {
        let Some(first) = self.chunk().await? else {
            return Ok((Bytes::new(), false));
        };
        if first.len() > max {
            return Ok((first.slice(..max), true));
        }
        // Most bodies are one piece.
        let Some(second) = self.chunk().await? else {
            return Ok((first, false));
        };
        let expected = self.body.size_hint().lower().min(BODY_BYTES_FIRST as u64) as usize;
        let mut whole = BytesMut::with_capacity(first.len() + second.len() + expected);
        whole.extend_from_slice(&first);
        let mut piece = second;
        loop {
            let room = max - whole.len();
            if piece.len() > room {
                whole.extend_from_slice(&piece[..room]);
                return Ok((whole.freeze(), true));
            }
            whole.extend_from_slice(&piece);
            match self.chunk().await? {
                Some(next) => piece = next,
                None => return Ok((whole.freeze(), false)),
            }
        }
    }

    async fn frame(&mut self) -> Result<Option<Bytes>, NetError> {
        // A body that never pauses would never let the timer run.
        self.check_time()?;
        loop {
            match timeout_at(self.deadline, self.body.frame()).await {
                Err(_) => return Err(NetError::Timeout { sent: true }),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(NetError::of_transport(self.host(), error)),
                // Trailers tell us nothing.
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(piece) => return Ok(Some(piece)),
                    Err(_) => continue,
                },
            }
        }
    }

    fn check_time(&self) -> Result<(), NetError> {
        match Instant::now() >= self.deadline {
            true => Err(NetError::Timeout { sent: true }),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for NetResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetResponse")
            .field("status", &self.status)
            .field("host", &self.host())
            .finish_non_exhaustive()
    }
}
