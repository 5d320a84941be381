//! What governs a run besides its calls: which models it may ask, how many tokens it may use, and whether that still counts.

use std::borrow::Cow;
use std::sync::Arc;

use provost_core::policy::ModelDenied;

use super::Guard;
use crate::guard::policy::{Governing, Seat};

impl Guard {
    /// May the run ask this model? Where governance could not be read, it may ask none.
    pub fn check_model(&self, provider: &str, model: &str) -> Result<(), ModelDenied> {
        match self.governing() {
            Governing::Nobody => Ok(()),
            Governing::Unread => Err(ModelDenied { policy: None, model: model.trim().to_owned() }),
            Governing::By(governance) => governance.check_model(provider, model),
        }
    }

    /// The fewest tokens that any policy gives the run, with everything below it.
    pub fn tokens_max(&self) -> Option<u64> {
        match self.governing() {
            Governing::By(governance) => governance.tokens_max(),
            Governing::Nobody | Governing::Unread => None,
        }
    }

    /// The same guard with what governs the run now: a person may take long to answer, and the policy does not wait.
    pub async fn read_again(&self) -> Self {
        let governor = self.oversight.as_ref().and_then(|oversight| oversight.governor.as_deref());
        let (Some(governor), Some(seat)) = (governor, &self.seat) else { return self.clone() };
        let seat = Seat::read(governor, seat.origin.clone()).await;
        Self { seat: Some(Arc::new(seat)), ..self.clone() }
    }

    /// This guard, or the same with what governs the run now if that may have changed since it was read.
    pub async fn up_to_date(&self) -> Cow<'_, Self> {
        let governor = self.oversight.as_ref().and_then(|oversight| oversight.governor.as_deref());
        match (governor, &self.seat) {
            (Some(governor), Some(seat)) if governor.edition() != seat.edition => {
                Cow::Owned(self.read_again().await)
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// What governs; nothing can be said before a governor was asked.
    fn governing(&self) -> &Governing {
        let governor =
            self.oversight.as_ref().is_some_and(|oversight| oversight.governor.is_some());
        match &self.seat {
            Some(seat) => &seat.governing,
            None if governor => &Governing::Unread,
            None => &Governing::Nobody,
        }
    }
}
