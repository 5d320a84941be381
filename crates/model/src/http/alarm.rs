//! The one timer of a call.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer for a moment that moves with every piece of an answer.
///
/// It exists once something is waited for, and it follows the moment only when it fires too early or would fire too late: to
/// set a timer for every token would cost more than the token.
#[derive(Default)]
pub(super) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    /// Who is woken when it fires.
    waker: Option<Waker>,
    /// The moment that was asked for when others were given their turn first.
    yielded: Option<Instant>,
}

impl Alarm {
    /// Ready once this moment is there.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, moment: Instant) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(moment)));
        let is_late = sleep.deadline() > moment;
        let is_mine = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if is_mine && !is_late && !sleep.is_elapsed() {
            return Poll::Pending;
        }
        if is_late && self.yielded != Some(moment) {
            // The moment comes closer when an answer is whole, and then what ends it is nearly always on its way.
            self.yielded = Some(moment);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.waker = Some(cx.waker().clone());
        if is_late {
            sleep.as_mut().reset(moment);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= moment {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(moment);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_follows_a_moment_that_moves() {
        let started = Instant::now();
        let after = |seconds| started + Duration::from_secs(seconds);
        let mut alarm = Alarm::default();
        // The moment moves on while the timer stands, so the timer fires too early once.
        assert!(futures::poll!(poll_fn(|cx| alarm.poll(cx, after(10)))).is_pending());
        poll_fn(|cx| alarm.poll(cx, after(30))).await;
        assert_eq!(started.elapsed(), Duration::from_secs(30));
        // Another wait with the same timer, whose moment comes closer meanwhile.
        assert!(futures::poll!(poll_fn(|cx| alarm.poll(cx, after(300)))).is_pending());
        poll_fn(|cx| alarm.poll(cx, after(35))).await;
        assert_eq!(started.elapsed(), Duration::from_secs(35));
    }

    #[tokio::test(start_paused = true)]
    async fn it_wakes_whoever_asked_last() {
        let mut alarm = Alarm::default();
        let moment = Instant::now() + Duration::from_secs(1);
        let nobody = &mut Context::from_waker(Waker::noop());
        assert!(alarm.poll(nobody, moment).is_pending());
        poll_fn(|cx| alarm.poll(cx, moment)).await;
        assert_eq!(Instant::now(), moment);
    }
}
