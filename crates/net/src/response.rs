//! HTTP responses: the head, and the body on demand.

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

use crate::decode::BodyDecoder;
use crate::error::NetError;
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX};

/// Initial buffer size of a body, in bytes.
const BODY_BYTES_FIRST: usize = 64 * 1024;

/// The head of a response, with its body still to be read. Dropping it cancels the remaining body.
pub struct NetResponse {
    /// Status.
    pub status: StatusCode,
    /// Headers, without those of an encoding that the client decodes.
    pub headers: HeaderMap,
    /// URL of the response. Differs from the request after redirects.
    pub url: Url,
    /// Protocol version.
    pub version: Version,
    body: Incoming,
    decoder: Option<BodyDecoder>,
    deadline: Instant,
}

impl NetResponse {
    /// Creates the response with a decoder of its body. Fails if the head is too large or the encoding is unknown.
    /// Removes `Content-Encoding` and `Content-Length` if the body is decoded.
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
            return Err(NetError::malformed(host, "the response head is too large"));
        }
        let decoder = match body.is_end_stream() {
            true => None,
            false => {
                BodyDecoder::of(&headers).map_err(|problem| NetError::malformed(host, problem))?
            }
        };
        if decoder.is_some() {
            headers.remove(CONTENT_ENCODING);
            headers.remove(CONTENT_LENGTH);
        }
        let (status, version) = (head.status, head.version);
        Ok(Self { status, headers, url, version, body, decoder, deadline })
    }

    /// Returns the complete body. Fails if its decoded size exceeds `max` bytes.
    pub async fn bytes(mut self, max: usize) -> Result<Bytes, NetError> {
        if self.decoder.is_none() && self.body.size_hint().lower() > max as u64 {
            return Err(NetError::TooLarge { max });
        }
        match self.read(max).await? {
            (body, false) => Ok(body),
            (_, true) => Err(NetError::TooLarge { max }),
        }
    }

    /// Returns up to `max` bytes of the body, and whether there were more.
    pub async fn prefix(mut self, max: usize) -> Result<(Bytes, bool), NetError> {
        self.read(max).await
    }

    /// Returns the next decoded chunk of the body. `None` at its end. Cancel-safe.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, NetError> {
        loop {
            if self.decoder.is_some() {
                // A small chunk can decode to very much data: other tasks must run, and the deadline applies.
                consume_budget().await;
                self.check_time()?;
            }
            if let Some(decoder) = &mut self.decoder {
                let chunk = decoder.next();
                let ended = decoder.is_ended();
                let chunk =
                    chunk.map_err(|error| NetError::malformed(self.host(), error.to_string()))?;
                if chunk.is_some() || ended {
                    return Ok(chunk);
                }
            }
            match (self.frame().await?, &mut self.decoder) {
                (None, None) => return Ok(None),
                (None, Some(decoder)) => decoder.end(),
                (Some(chunk), _) if chunk.is_empty() => {}
                (Some(chunk), None) => return Ok(Some(chunk)),
                (Some(chunk), Some(decoder)) => decoder.feed(chunk),
            }
        }
    }

    /// Returns the decoded body as a stream. It ends after an error.
    pub fn stream(self) -> impl Stream<Item = Result<Bytes, NetError>> + Send + 'static {
        futures::stream::try_unfold(self, async |mut response| {
            Ok(response.chunk().await?.map(|chunk| (chunk, response)))
        })
    }

    /// Returns the host of the request. Empty if the URL has none.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Reads the body up to `max` bytes. The flag is true if the body has more.
    async fn read(&mut self, max: usize) -> Result<(Bytes, bool), NetError> {
        let Some(first) = self.chunk().await? else {
            return Ok((Bytes::new(), false));
        };
        if first.len() > max {
            return Ok((first.slice(..max), true));
        }
        // Most bodies have one chunk.
        let Some(second) = self.chunk().await? else {
            return Ok((first, false));
        };
        let expected = self.body.size_hint().lower().min(BODY_BYTES_FIRST as u64) as usize;
        let mut whole = BytesMut::with_capacity(first.len() + second.len() + expected);
        whole.extend_from_slice(&first);
        let mut chunk = second;
        loop {
            let room = max - whole.len();
            if chunk.len() > room {
                whole.extend_from_slice(&chunk[..room]);
                return Ok((whole.freeze(), true));
            }
            whole.extend_from_slice(&chunk);
            match self.chunk().await? {
                Some(next) => chunk = next,
                None => return Ok((whole.freeze(), false)),
            }
        }
    }

    /// Returns the next chunk of the body as received, before decoding. `None` at its end. Trailers are ignored.
    async fn frame(&mut self) -> Result<Option<Bytes>, NetError> {
        // The timer would never fire for a body without pauses.
        self.check_time()?;
        loop {
            match timeout_at(self.deadline, self.body.frame()).await {
                Err(_) => return Err(NetError::Timeout { sent: true }),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(NetError::from_transport(self.host(), error)),
                // Trailers are ignored.
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(chunk) => return Ok(Some(chunk)),
                    Err(_) => continue,
                },
            }
        }
    }

    /// Fails with [`NetError::Timeout`] if the deadline has passed.
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
