//! The pool of warm sandboxes.
//!
//! A warm sandbox has a specification, which is everything about it except the command. It serves one command and ends
//! with it. It also ends when the pool is dropped.

use std::fmt::Debug;
use std::mem;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::IsolationError;
use crate::limits::{WARM_IDLE, WARM_SPECS_MAX};

/// Creates warm sandboxes.
pub(crate) trait WarmFactory: Send + Sync + 'static {
    /// Everything about a sandbox except the command.
    type Spec: Debug + Clone + PartialEq + Send + Sync + 'static;
    /// A warm sandbox. Dropping it ends it.
    type Sandbox: Debug + Send + 'static;

    /// Creates a warm sandbox.
    fn create(
        self: Arc<Self>,
        spec: Self::Spec,
    ) -> BoxFuture<'static, Result<Self::Sandbox, IsolationError>>;

    /// Returns true if the sandbox has ended.
    fn has_ended(waiting: &Self::Sandbox) -> bool;
}

/// When the first sandboxes of a specification are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarmupPolicy {
    /// With its first job.
    FirstJob,
    /// With its second job: creating one costs as much as the job itself, and many specifications occur only once.
    SecondJob,
}

/// The warm sandboxes by specification.
#[derive(Debug)]
pub(crate) struct WarmPool<M: WarmFactory> {
    factory: Arc<M>,
    /// Maximum number of sandboxes per specification.
    size: usize,
    policy: WarmupPolicy,
    /// Buckets, ordered by their last use; the most recently used bucket is last.
    buckets: Mutex<Vec<PoolBucket<M>>>,
}

/// Warm sandboxes of one specification.
#[derive(Debug)]
struct PoolBucket<M: WarmFactory> {
    spec: M::Spec,
    /// Ready sandboxes with their creation time, oldest first.
    waiting: Vec<(Instant, M::Sandbox)>,
    /// Number of sandboxes that are being created.
    in_progress: usize,
    /// True if a task removes idle sandboxes of the bucket.
    has_expiry_task: bool,
    /// True if sandboxes of this specification cannot be warm.
    is_disabled: bool,
}

impl<M: WarmFactory> WarmPool<M> {
    /// Creates an empty pool. `size` is the number of warm sandboxes per specification.
    pub(crate) fn new(factory: Arc<M>, size: usize, policy: WarmupPolicy) -> Self {
        Self { factory, size, policy, buckets: Mutex::default() }
    }

    /// Takes a sandbox of a specification, if one is ready, and starts creating replacements. `None` if none is ready.
    pub(crate) fn acquire(self: &Arc<Self>, spec: &M::Spec) -> Option<M::Sandbox> {
        if self.size == 0 {
            return None;
        }
        let mut buckets = self.buckets.lock();
        let at = buckets.iter().position(|bucket| bucket.spec == *spec);
        let mut bucket = match at {
            Some(at) => buckets.remove(at),
            None => PoolBucket::new(spec.clone()),
        };
        let before = bucket.waiting.len();
        bucket.waiting.retain(|(_, waiting)| !M::has_ended(waiting));
        // A sandbox that ended without being used cannot be warm.
        bucket.is_disabled |= before > 0 && bucket.waiting.is_empty();
        let taken = if bucket.waiting.is_empty() { None } else { Some(bucket.waiting.remove(0)) };
        let missing = self.size.saturating_sub(bucket.waiting.len() + bucket.in_progress);
        let is_early = at.is_none() && self.policy == WarmupPolicy::SecondJob;
        let to_create = if bucket.is_disabled || is_early { 0 } else { missing };
        bucket.in_progress += to_create;
        buckets.push(bucket);
        let excess = buckets.len().saturating_sub(WARM_SPECS_MAX);
        let old: Vec<PoolBucket<M>> = buckets.drain(..excess).collect();
        drop(buckets);
        drop(old);
        for _ in 0..to_create {
            tokio::spawn(fill(Arc::downgrade(self), spec.clone()));
        }
        taken.map(|(_, waiting)| waiting)
    }

    /// Adds a created sandbox to its bucket. An error disables the bucket. Returns true if the caller must start the
    /// expiry task.
    fn put(&self, spec: &M::Spec, created: Result<M::Sandbox, IsolationError>) -> bool {
        let mut buckets = self.buckets.lock();
        let Some(bucket) = buckets.iter_mut().find(|bucket| bucket.spec == *spec) else {
            return false;
        };
        bucket.in_progress = bucket.in_progress.saturating_sub(1);
        match created {
            Ok(waiting) => {
                bucket.waiting.push((Instant::now(), waiting));
                !mem::replace(&mut bucket.has_expiry_task, true)
            }
            Err(error) => {
                tracing::info!(%error, "sandboxes of this kind cannot be warm; each job creates its own");
                bucket.is_disabled = true;
                false
            }
        }
    }

    /// Removes sandboxes that have been idle too long. Returns the time of the next expiry, or `None` if no sandbox is
    /// left.
    fn expire(&self, spec: &M::Spec) -> Option<Instant> {
        let mut buckets = self.buckets.lock();
        let bucket = buckets.iter_mut().find(|bucket| bucket.spec == *spec)?;
        let now = Instant::now();
        bucket.waiting.retain(|(since, _)| *since + WARM_IDLE > now);
        let next = bucket.waiting.first().map(|(since, _)| *since + WARM_IDLE);
        bucket.has_expiry_task = next.is_some();
        next
    }
}

impl<M: WarmFactory> PoolBucket<M> {
    /// Creates an empty bucket.
    fn new(spec: M::Spec) -> Self {
        Self {
            spec,
            waiting: Vec::new(),
            in_progress: 0,
            has_expiry_task: false,
            is_disabled: false,
        }
    }
}

/// Creates one sandbox and adds it to the pool. If its bucket has no expiry task, stays to remove idle sandboxes until
/// none is left.
async fn fill<M: WarmFactory>(pool: Weak<WarmPool<M>>, spec: M::Spec) {
    let Some(now) = pool.upgrade() else { return };
    let created = Arc::clone(&now.factory).create(spec.clone()).await;
    let needs_expiry_task = now.put(&spec, created);
    drop(now);
    let mut next = needs_expiry_task.then(|| Instant::now() + WARM_IDLE);
    while let Some(at) = next {
        tokio::time::sleep_until(at).await;
        next = pool.upgrade().and_then(|pool| pool.expire(&spec));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// Creates characters in place of sandboxes. They never end.
    struct Letters;

    impl WarmFactory for Letters {
        type Spec = char;
        type Sandbox = char;

        fn create(self: Arc<Self>, spec: char) -> BoxFuture<'static, Result<char, IsolationError>> {
            async move { Ok(spec) }.boxed()
        }

        fn has_ended(_: &char) -> bool {
            false
        }
    }

    fn waiting(pool: &WarmPool<Letters>) -> usize {
        pool.buckets.lock().iter().map(|bucket| bucket.waiting.len()).sum()
    }

    #[tokio::test(start_paused = true)]
    async fn one_waits_from_the_second_job_on_and_goes_when_nobody_wants_it() {
        let pool = Arc::new(WarmPool::new(Arc::new(Letters), 1, WarmupPolicy::SecondJob));
        let moment = || tokio::time::sleep(std::time::Duration::from_millis(1));
        assert_eq!(pool.acquire(&'a'), None);
        moment().await;
        assert_eq!((pool.acquire(&'a'), pool.acquire(&'b')), (None, None));
        moment().await;
        for _ in 0..100 {
            assert_eq!(pool.acquire(&'a'), Some('a'));
            moment().await;
        }
        // There is one expiry task, however many sandboxes were created.
        assert_eq!((waiting(&pool), Arc::weak_count(&pool)), (1, 1));
        tokio::time::sleep(WARM_IDLE / 2).await;
        assert_eq!(waiting(&pool), 1);
        tokio::time::sleep(WARM_IDLE).await;
        assert_eq!((waiting(&pool), Arc::weak_count(&pool)), (0, 0));
        assert_eq!(pool.acquire(&'a'), None);
        moment().await;
        assert_eq!(pool.acquire(&'a'), Some('a'));
    }
}
