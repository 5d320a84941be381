//! An answer as it begins, whichever way it came.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body::Body as _;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::plain::PlainBody;
use crate::ModelError;

/// The head of an answer that is on its way.
pub(crate) type Answering = BoxFuture<'static, Result<Answer, Broken>>;

/// The head of an answer, and its body as far as somebody reads it.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

/// The body of an answer. Dropping it gives up the rest.
pub(crate) enum Body {
    Client(reqwest::Body),
    Plain(PlainBody),
}

impl From<reqwest::Response> for Answer {
    fn from(mut response: reqwest::Response) -> Self {
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        Self { status, headers, body: Body::Client(response.into()) }
    }
}

impl Body {
    /// The next piece; `None` at the end.
    pub(crate) fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        let body = match self {
            Self::Plain(body) => return body.poll_bytes(cx),
            Self::Client(body) => body,
        };
        loop {
            match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(Broken::Client(error)))),
                // Trailers tell us nothing.
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
            }
        }
    }
}

/// A connection that could not be made or that broke.
#[derive(Debug)]
pub(crate) enum Broken {
    Client(reqwest::Error),
    Connect(Box<dyn Error + Send + Sync>),
    ConnectTimeout,
    Line(Box<dyn Error + Send + Sync>),
    /// The request could not be signed, so it was never sent.
    Unsigned(ModelError),
}

impl Broken {
    pub(super) fn connect(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Connect(Box::new(error))
    }

    pub(super) fn line(error: hyper::Error) -> Self {
        Self::Line(Box::new(error))
    }

    pub(super) fn request(error: hyper::http::Error) -> Self {
        Self::Line(Box::new(error))
    }

    /// It took too long to connect.
    pub(super) fn is_timeout(&self) -> bool {
        match self {
            Self::Client(error) => error.is_timeout(),
            Self::ConnectTimeout => true,
            Self::Connect(_) | Self::Line(_) | Self::Unsigned(_) => false,
        }
    }

    /// It was never connected.
    pub(super) fn is_connect(&self) -> bool {
        match self {
            Self::Client(error) => error.is_connect(),
            Self::Connect(_) | Self::ConnectTimeout => true,
            Self::Line(_) | Self::Unsigned(_) => false,
        }
    }

    /// The same without the address, which may hold what is nobody's business.
    pub(super) fn without_url(self) -> Self {
        match self {
            Self::Client(error) => Self::Client(error.without_url()),
            other => other,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Connect(error) | Self::Line(error) => error.fmt(f),
            Self::ConnectTimeout => f.write_str("no connection in time"),
            Self::Unsigned(error) => error.fmt(f),
        }
    }
}

impl Error for Broken {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Client(error) => error.source(),
            Self::Connect(error) | Self::Line(error) => error.source(),
            Self::ConnectTimeout => None,
            Self::Unsigned(error) => Error::source(error),
        }
    }
}
