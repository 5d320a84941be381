//! The answer that arrives, where both the driver and whoever awaits the run reach it.
//!
//! An answer comes in many small pieces, and each of them wakes the run. To go down through the whole driver for each would cost
//! more than the piece: whoever awaits a run that nobody watches reads on by itself, and asks the driver to go on once the answer
//! is there or anything else has happened.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::StreamExt;
use futures::task::AtomicWaker;
use provost_model::{Fold, ModelError, ModelStream};

/// Where the answer of a run arrives.
#[derive(Default)]
pub(crate) struct Arrival {
    reading: Mutex<Option<Reading>>,
    /// Something has happened that is no piece of an answer.
    is_called: AtomicBool,
    driver: AtomicWaker,
}

struct Reading {
    /// Gone, if the driver gave it up.
    answer: Option<ModelStream>,
    fold: Fold,
    end: Option<End>,
    /// Who reads.
    waker: Option<Waker>,
}

enum End {
    Whole,
    Failed(Box<ModelError>),
    Panicked(Box<dyn Any + Send>),
}

/// An answer that the driver waits for. If it does no more, the call ends; what had come by then is kept.
pub(crate) struct Awaited<'a>(&'a Arrival);

impl Arrival {
    /// Begins to read an answer.
    pub(crate) fn begin(&self, answer: ModelStream) -> Awaited<'_> {
        let (answer, fold) = (Some(answer), Fold::default());
        *self.lock() = Some(Reading { answer, fold, end: None, waker: None });
        Awaited(self)
    }

    /// What had come of an answer that was given up.
    pub(crate) fn take_partial(&self) -> Option<Fold> {
        self.lock().take().map(|reading| reading.fold)
    }

    /// Reads on; ready as soon as the driver has something to do.
    pub(crate) fn poll_pieces(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_called.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut slot = self.lock();
        let Some(reading) = &mut *slot else { return Poll::Ready(()) };
        // The driver is the first to learn who is to be woken from now on.
        let is_known = reading.is_known(cx.waker());
        // Woken for a piece, and there is more to come: the next one wakes again.
        if is_known && reading.poll(cx) { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Somebody else than the answer has a word for the driver.
    pub(crate) fn call(&self) {
        self.is_called.store(true, Ordering::Release);
        self.driver.wake();
    }

    /// True if somebody had since it was last asked.
    pub(crate) fn was_called(&self) -> bool {
        self.is_called.load(Ordering::Acquire) && self.is_called.swap(false, Ordering::AcqRel)
    }

    /// Sets who is woken by a call.
    pub(crate) fn expect(&self, driver: &Waker) {
        self.driver.register(driver);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reading>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Awaited<'_> {
    /// The whole answer.
    pub(crate) async fn whole(self) -> Result<Fold, ModelError> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Fold, ModelError>> {
        let mut slot = self.0.lock();
        let Some(reading) = &mut *slot else { return Poll::Ready(Ok(Fold::default())) };
        if !reading.is_known(cx.waker()) {
            reading.waker = Some(cx.waker().clone());
        }
        reading.poll(cx);
        let Some(end) = reading.end.take() else { return Poll::Pending };
        let fold = slot.take().map(|reading| reading.fold).unwrap_or_default();
        drop(slot);
        Poll::Ready(match end {
            End::Whole => Ok(fold),
            End::Failed(error) => Err(*error),
            // Where the driver expects it.
            End::Panicked(panic) => resume_unwind(panic),
        })
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let answer = self.0.lock().as_mut().and_then(|reading| reading.answer.take());
        drop(answer);
    }
}

impl Reading {
    fn is_known(&self, reader: &Waker) -> bool {
        self.waker.as_ref().is_some_and(|waker| waker.will_wake(reader))
    }

    /// Takes in what has come; true if that was something and more is waited for.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let mut came = false;
        while self.end.is_none() {
            match catch_unwind(AssertUnwindSafe(|| self.poll_next(cx))) {
                Ok(Poll::Ready(end)) => self.end = end,
                Ok(Poll::Pending) => return came,
                Err(panic) => self.end = Some(End::Panicked(panic)),
            }
            came = true;
        }
        false
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<End>> {
        let Some(answer) = &mut self.answer else { return Poll::Ready(Some(End::Whole)) };
        answer.poll_next_unpin(cx).map(|event| match event {
            None => Some(End::Whole),
            Some(Err(error)) => Some(End::Failed(Box::new(error))),
            Some(Ok(event)) => {
                self.fold.push(&event).err().map(|error| End::Failed(Box::new(error)))
            }
        })
    }
}
