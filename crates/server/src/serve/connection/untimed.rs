//! The protocol's timer, where the socket keeps the time: it never rings, and costs nothing.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// The timer, and the moment that it says is now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Untimed(pub(super) Instant);

struct Never;

impl Future for Never {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Sleep for Never {}

impl Timer for Untimed {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Never)
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Never)
    }

    fn now(&self) -> Instant {
        self.0
    }
}
