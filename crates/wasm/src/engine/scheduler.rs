//! Whose turn it is. A module comes out of its code much more often than others need to have theirs: whoever carries it looks at
//! the clock then, and goes back in unless its turn or its time is over. To go through the queue of the threads each time would
//! cost more than the code in between.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use crate::call::store_data::Halt;
use crate::limits;

/// Carries a call to its end, turn by turn, as long as it has time.
pub(crate) async fn in_time<T>(
    deadline: Instant,
    call: impl Future<Output = wasmtime::Result<T>>,
) -> wasmtime::Result<T> {
    let mut call = pin!(call);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    poll_fn(|cx| {
        let turn_began = Instant::now();
        loop {
            bell.listen(cx.waker());
            if let Poll::Ready(came) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(came);
            }
            let now = Instant::now();
            if now >= deadline {
                return Poll::Ready(Err(Halt::Late.into()));
            }
            // It waits for something, or it rang by itself and only came out to see whether it may go on.
            if !bell.has_rung() {
                return Poll::Pending;
            }
            if now.duration_since(turn_began) >= limits::TICK {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Wakes whoever carries a call, unless they are awake and will look.
#[derive(Default)]
struct Bell {
    is_heard: AtomicBool,
    rang: AtomicBool,
    outside: Mutex<Option<Waker>>,
}

impl Bell {
    /// From here on somebody is awake, who can be woken so when they are not any more.
    fn listen(&self, outside: &Waker) {
        let mut known = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.as_ref().is_some_and(|known| known.will_wake(outside)) {
            *known = Some(outside.clone());
        }
        self.rang.store(false, Ordering::SeqCst);
        self.is_heard.store(true, Ordering::SeqCst);
    }

    /// Nobody is awake from here on; true if it rang while somebody was. In this order no ring is lost: it comes before, and is
    /// seen here, or after, and wakes.
    fn has_rung(&self) -> bool {
        self.is_heard.store(false, Ordering::SeqCst);
        self.rang.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::SeqCst);
        if !self.is_heard.load(Ordering::SeqCst) {
            let outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(outside) = outside {
                outside.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn later(time: Duration) -> Instant {
        Instant::now() + time
    }

    #[tokio::test]
    async fn whoever_comes_out_goes_back_in_until_its_turn_is_over() {
        let (mut turns, mut polls) = (0, 0);
        let call = poll_fn(|cx| {
            turns += 1;
            cx.waker().wake_by_ref();
            if turns < 10_000 { Poll::Pending } else { Poll::Ready(Ok(turns)) }
        });
        let mut carried = pin!(in_time(later(Duration::from_secs(60)), call));
        let came = poll_fn(|cx| {
            polls += 1;
            carried.as_mut().poll(cx)
        });
        assert_eq!(came.await.unwrap(), 10_000);
        assert!(polls < 1_000, "{polls} polls for 10,000 turns of nothing");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whoever_waits_is_woken_from_elsewhere() {
        for _ in 0..1_000 {
            let (done, wait) = tokio::sync::oneshot::channel();
            let elsewhere = tokio::spawn(async move { done.send(7) });
            let call = async move { Ok(wait.await.unwrap_or_default()) };
            assert_eq!(in_time(later(Duration::from_secs(60)), call).await.unwrap(), 7);
            elsewhere.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn others_have_their_turn_and_time_ends() {
        let call = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<wasmtime::Result<()>>::Pending
        });
        let mut others = 0;
        let carried = in_time(later(Duration::from_millis(50)), call);
        let mut carried = pin!(carried);
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut carried => break ended,
                () = std::future::ready(()) => others += 1,
            }
            tokio::task::yield_now().await;
        };
        assert!(ended.unwrap_err().is::<Halt>());
        assert!(others > 0, "nobody else had a turn in 50 ms");
    }
}
