//! A timer for whoever waits again and again.
//!
//! Most waits end long before their time, and setting a timer takes a lock that all of them share. So this one stays as it was
//! set for an earlier wait: it is set anew only if it rings before the time of this one, or would ring after it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The timer. It is made with the first wait that does not end at once.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
}

/// The time was over first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

impl Alarm {
    /// Ready once the moment has come.
    pub(crate) fn poll_until(&mut self, until: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if sleep.deadline() > until {
            sleep.as_mut().reset(until);
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= until {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(until);
        }
        Poll::Pending
    }

    /// Waits for something until a moment comes; which one that is, is asked only if there is something to wait for.
    pub(crate) async fn until<T>(
        &mut self,
        moment: impl FnOnce() -> Instant,
        awaited: impl Future<Output = T>,
    ) -> Result<T, Elapsed> {
        let mut awaited = pin!(awaited);
        let (mut moment, mut until) = (Some(moment), None);
        poll_fn(|cx| {
            if let Poll::Ready(done) = awaited.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            until = until.or_else(|| moment.take().map(|moment| moment()));
            until.map_or(Poll::Pending, |until| self.poll_until(until, cx).map(|()| Err(Elapsed)))
        })
        .await
    }

    /// Waits for something for so long.
    pub(crate) async fn within<T>(
        &mut self,
        time: Duration,
        awaited: impl Future<Output = T>,
    ) -> Result<T, Elapsed> {
        self.until(|| Instant::now() + time, awaited).await
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::sleep;

    use super::*;

    const SHORT: Duration = Duration::from_secs(10);
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn each_wait_has_its_own_time_whatever_was_waited_for_before() {
        let mut alarm = Alarm::default();
        assert_eq!(alarm.within(LONG, ready(1)).await, Ok(1));
        for time in [SHORT, LONG, SHORT, SHORT, LONG] {
            // One that ends early leaves the timer set.
            assert_eq!(alarm.within(LONG, sleep(Duration::from_secs(7))).await, Ok(()));
            let started = Instant::now();
            assert_eq!(alarm.within(time, pending::<()>()).await, Err(Elapsed));
            assert_eq!(started.elapsed().as_secs(), time.as_secs());
        }
    }
}
