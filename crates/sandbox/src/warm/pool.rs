//! Sandboxes that wait for a job.
//!
//! One is made for a shape: everything about it but what runs in it. It is for one job, ends with it, and ends by itself when
//! nobody can start it any more.

use std::fmt::Debug;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::error::IsolationError;
use crate::limits::{WARM_IDLE, WARM_SHAPES_MAX};

/// Makes sandboxes that wait.
pub(crate) trait Maker: Send + Sync + 'static {
    /// Everything about a sandbox but what runs in it.
    type Shape: Debug + Clone + PartialEq + Send + Sync + 'static;
    /// One that waits. Dropping it ends it.
    type Waiting: Debug + Send + 'static;

    /// Makes one.
    fn make(
        self: Arc<Self>,
        shape: Self::Shape,
    ) -> BoxFuture<'static, Result<Self::Waiting, IsolationError>>;

    /// True if it does not wait any more.
    fn has_ended(waiting: &Self::Waiting) -> bool;
}

/// When the first ones of a shape are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// With the first job of it.
    FirstJob,
    /// With the second job of it: to make one costs as much as the job itself, and many shapes are seen once.
    SecondJob,
}

/// The sandboxes that wait.
#[derive(Debug)]
pub(crate) struct Pool<M: Maker> {
    maker: Arc<M>,
    /// For each shape.
    size: usize,
    from: When,
    /// The shape that was used last is the last.
    shelves: Mutex<Vec<Shelf<M>>>,
}

#[derive(Debug)]
struct Shelf<M: Maker> {
    shape: M::Shape,
    /// The one that has waited longest is the first.
    waiting: Vec<(Instant, M::Waiting)>,
    /// Those that are being made.
    coming: usize,
    /// True if somebody lets those go that nobody wants.
    is_watched: bool,
    /// True if none of this shape can wait.
    is_hopeless: bool,
}

impl<M: Maker> Pool<M> {
    pub(crate) fn new(maker: Arc<M>, size: usize, from: When) -> Self {
        Self { maker, size, from, shelves: Mutex::default() }
    }

    fn shelves(&self) -> MutexGuard<'_, Vec<Shelf<M>>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of a shape, if one waits. Others are made in its place.
    pub(crate) fn take(self: &Arc<Self>, shape: &M::Shape) -> Option<M::Waiting> {
        if self.size == 0 {
            return None;
        }
        let mut shelves = self.shelves();
        let at = shelves.iter().position(|shelf| shelf.shape == *shape);
        let mut shelf = match at {
            Some(at) => shelves.remove(at),
            None => Shelf::new(shape.clone()),
        };
        let before = shelf.waiting.len();
        shelf.waiting.retain(|(_, waiting)| !M::has_ended(waiting));
        // What ended without having been used could not wait.
        shelf.is_hopeless |= before > 0 && shelf.waiting.is_empty();
        let taken = if shelf.waiting.is_empty() { None } else { Some(shelf.waiting.remove(0)) };
        let missing = self.size.saturating_sub(shelf.waiting.len() + shelf.coming);
        let is_early = at.is_none() && self.from == When::SecondJob;
        let wanted = if shelf.is_hopeless || is_early { 0 } else { missing };
        shelf.coming += wanted;
        shelves.push(shelf);
        let excess = shelves.len().saturating_sub(WARM_SHAPES_MAX);
        let old: Vec<Shelf<M>> = shelves.drain(..excess).collect();
        drop(shelves);
        drop(old);
        for _ in 0..wanted {
            tokio::spawn(make(Arc::downgrade(self), shape.clone()));
        }
        taken.map(|(_, waiting)| waiting)
    }

    /// Puts one on its shelf. True if somebody must watch that one from now on.
    fn put(&self, shape: &M::Shape, made: Result<M::Waiting, IsolationError>) -> bool {
        let mut shelves = self.shelves();
        let Some(shelf) = shelves.iter_mut().find(|shelf| shelf.shape == *shape) else {
            return false;
        };
        shelf.coming = shelf.coming.saturating_sub(1);
        match made {
            Ok(waiting) => {
                shelf.waiting.push((Instant::now(), waiting));
                !mem::replace(&mut shelf.is_watched, true)
            }
            Err(error) => {
                tracing::info!(%error, "sandboxes of this sort cannot wait: each job makes its own");
                shelf.is_hopeless = true;
                false
            }
        }
    }

    /// Lets those go that nobody has wanted. The time is that of the next one; without it nobody needs to watch any more.
    fn expire(&self, shape: &M::Shape) -> Option<Instant> {
        let mut shelves = self.shelves();
        let shelf = shelves.iter_mut().find(|shelf| shelf.shape == *shape)?;
        let now = Instant::now();
        shelf.waiting.retain(|(since, _)| *since + WARM_IDLE > now);
        let next = shelf.waiting.first().map(|(since, _)| *since + WARM_IDLE);
        shelf.is_watched = next.is_some();
        next
    }
}

impl<M: Maker> Shelf<M> {
    fn new(shape: M::Shape) -> Self {
        Self { shape, waiting: Vec::new(), coming: 0, is_watched: false, is_hopeless: false }
    }
}

async fn make<M: Maker>(pool: Weak<Pool<M>>, shape: M::Shape) {
    let Some(now) = pool.upgrade() else { return };
    let made = Arc::clone(&now.maker).make(shape.clone()).await;
    let must_watch = now.put(&shape, made);
    drop(now);
    let mut next = must_watch.then(|| Instant::now() + WARM_IDLE);
    while let Some(at) = next {
        tokio::time::sleep_until(at).await;
        next = pool.upgrade().and_then(|pool| pool.expire(&shape));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// Makes letters, which wait for ever.
    struct Letters;

    impl Maker for Letters {
        type Shape = char;
        type Waiting = char;

        fn make(self: Arc<Self>, shape: char) -> BoxFuture<'static, Result<char, IsolationError>> {
            async move { Ok(shape) }.boxed()
        }

        fn has_ended(_: &char) -> bool {
            false
        }
    }

    fn waiting(pool: &Pool<Letters>) -> usize {
        pool.shelves().iter().map(|shelf| shelf.waiting.len()).sum()
    }

    #[tokio::test(start_paused = true)]
    async fn one_waits_from_the_second_job_on_and_goes_when_nobody_wants_it() {
        let pool = Arc::new(Pool::new(Arc::new(Letters), 1, When::SecondJob));
        let moment = || tokio::time::sleep(std::time::Duration::from_millis(1));
        assert_eq!(pool.take(&'a'), None);
        moment().await;
        assert_eq!((pool.take(&'a'), pool.take(&'b')), (None, None));
        moment().await;
        for _ in 0..100 {
            assert_eq!(pool.take(&'a'), Some('a'));
            moment().await;
        }
        // However many were made, one watches over those that wait.
        assert_eq!((waiting(&pool), Arc::weak_count(&pool)), (1, 1));
        tokio::time::sleep(WARM_IDLE / 2).await;
        assert_eq!(waiting(&pool), 1);
        tokio::time::sleep(WARM_IDLE).await;
        assert_eq!((waiting(&pool), Arc::weak_count(&pool)), (0, 0));
        assert_eq!(pool.take(&'a'), None);
        moment().await;
        assert_eq!(pool.take(&'a'), Some('a'));
    }
}
