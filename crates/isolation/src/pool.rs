//! Sandboxes that wait for a job.
//!
//! One is made for a shape: everything about it but what runs in it. It is for one job, ends with it, and ends by itself when
//! nobody can start it any more.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::future::BoxFuture;

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
    waiting: Vec<(u64, M::Waiting)>,
    /// Those that are being made.
    coming: usize,
    next: u64,
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

    /// Puts one on its shelf; gives its number there.
    fn put(&self, shape: &M::Shape, made: Result<M::Waiting, IsolationError>) -> Option<u64> {
        let mut shelves = self.shelves();
        let shelf = shelves.iter_mut().find(|shelf| shelf.shape == *shape)?;
        shelf.coming = shelf.coming.saturating_sub(1);
        match made {
            Ok(waiting) => {
                shelf.next += 1;
                shelf.waiting.push((shelf.next, waiting));
                Some(shelf.next)
            }
            Err(error) => {
                tracing::info!(%error, "sandboxes of this sort cannot wait: each job makes its own");
                shelf.is_hopeless = true;
                None
            }
        }
    }

    /// Lets one go that nobody has wanted.
    fn expire(&self, shape: &M::Shape, number: u64) {
        let mut shelves = self.shelves();
        if let Some(shelf) = shelves.iter_mut().find(|shelf| shelf.shape == *shape) {
            shelf.waiting.retain(|(other, _)| *other != number);
        }
    }
}

impl<M: Maker> Shelf<M> {
    fn new(shape: M::Shape) -> Self {
        Self { shape, waiting: Vec::new(), coming: 0, next: 0, is_hopeless: false }
    }
}

async fn make<M: Maker>(pool: Weak<Pool<M>>, shape: M::Shape) {
    let Some(now) = pool.upgrade() else { return };
    let made = Arc::clone(&now.maker).make(shape.clone()).await;
    let Some(number) = now.put(&shape, made) else { return };
    drop(now);
    tokio::time::sleep(WARM_IDLE).await;
    if let Some(pool) = pool.upgrade() {
        pool.expire(&shape, number);
    }
}
