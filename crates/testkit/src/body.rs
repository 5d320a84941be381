//! Body of a scripted response: frames, pauses, and connection failures.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::watch;
use tokio::time::Sleep;

use crate::reply::Ending;

/// Response body that sends frames with a pause before each. If it is dropped before its end, it increments the counter
/// of abandoned responses.
pub(crate) struct ReplyBody {
    frames: Arc<[Bytes]>,
    next: usize,
    pause: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    ending: Ending,
    is_flushed: bool,
    is_ended: bool,
    abandoned: watch::Sender<usize>,
}

impl ReplyBody {
    pub(crate) fn new(
        frames: Arc<[Bytes]>,
        pause: Duration,
        ending: Ending,
        abandoned: watch::Sender<usize>,
    ) -> Self {
        Self {
            frames,
            next: 0,
            pause,
            sleep: None,
            ending,
            is_flushed: false,
            is_ended: false,
            abandoned,
        }
    }

    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.pause.is_zero() {
            return Poll::Ready(());
        }
        let pause = self.pause;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
        ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        Poll::Ready(())
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.next < self.frames.len() {
            ready!(self.poll_pause(cx));
            let frame = self.frames[self.next].clone();
            self.next += 1;
            return Poll::Ready(Some(Ok(Frame::data(frame))));
        }
        match self.ending {
            Ending::Hanging => Poll::Pending,
            Ending::Dropped if !self.is_flushed => {
                // A pause lets the server write its buffer before the connection breaks.
                self.is_flushed = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Ending::Dropped => {
                self.is_ended = true;
                Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())))
            }
            Ending::Complete | Ending::WithoutFinalFrame => {
                self.is_ended = true;
                Poll::Ready(None)
            }
        }
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        if !self.is_ended {
            self.abandoned.send_modify(|count| *count += 1);
        }
    }
}
