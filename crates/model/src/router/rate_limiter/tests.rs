use futures::future::join_all;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn limiter(requests: Option<u64>, tokens: Option<u64>) -> RateLimiter {
    RateLimiter::new(
        RateLimits { requests_per_minute: requests, tokens_per_minute: tokens },
        Instant::now(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_thousand_callers_at_once_stay_within_the_limits_and_all_get_through() {
    let limiter = limiter(Some(200), Some(5_000));
    let start = Instant::now();
    let through = join_all((0..1_000u64).map(|n| {
        let limiter = &limiter;
        async move {
            let tokens = 10 + n % 30;
            let taken = limiter.acquire(tokens).await.unwrap();
            let at = Instant::now();
            // Half of the estimate.
            limiter.correct(taken, tokens / 2);
            (at, tokens / 2)
        }
    }))
    .await;
    assert!(through.iter().map(|(at, _)| *at).is_sorted(), "who comes first goes first");
    for (from, _) in &through {
        let minute = through.iter().filter(|(at, _)| at >= from && *at < *from + MINUTE);
        let (requests, tokens) = minute.fold((0, 0), |(n, sum), (_, used)| (n + 1, sum + used));
        assert!(requests <= 200 && tokens <= 5_000, "{requests} {tokens}");
    }
    let took = start.elapsed();
    assert!(took >= 4 * MINUTE && took < 6 * MINUTE, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_leaves_the_queue_to_the_others() {
    let limiter = limiter(Some(1), None);
    limiter.try_acquire(0, Instant::now()).unwrap();
    let mut first = Box::pin(limiter.acquire(0));
    let mut second = Box::pin(limiter.acquire(0));
    assert!(futures::poll!(first.as_mut()).is_pending());
    assert!(futures::poll!(second.as_mut()).is_pending());
    assert_eq!(
        limiter.check(0, Instant::now()),
        Err(RateLimited::For(MINUTE + Duration::from_secs(1)))
    );
    drop(first);
    second.await.unwrap();
    assert_eq!(limiter.state.lock().queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn tokens_that_were_not_used_are_given_to_who_waits() {
    let limiter = limiter(None, Some(100));
    let taken = limiter.try_acquire(90, Instant::now()).unwrap();
    let mut waiting = Box::pin(limiter.acquire(50));
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    let start = Instant::now();
    limiter.correct(taken, 20);
    waiting.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(limiter.try_acquire(101, Instant::now()).unwrap_err(), RateLimited::Never);
    assert_eq!(limiter.acquire(101).await.unwrap_err(), RateLimited::Never);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_sent_is_given_back_whole() {
    let limiter = limiter(Some(1), Some(10));
    let taken = limiter.try_acquire(10, Instant::now()).unwrap();
    assert!(limiter.try_acquire(1, Instant::now()).is_err());
    limiter.refund(taken);
    limiter.try_acquire(10, Instant::now()).unwrap();
}

#[test]
fn without_limits_nobody_waits() {
    let limiter = limiter(None, None);
    assert!(!limiter.counts_tokens());
    for _ in 0..1_000 {
        let taken = limiter.try_acquire(u64::MAX, Instant::now()).unwrap();
        limiter.correct(taken, 1);
    }
}
