//! Everything that can happen in the model.

use crate::lifecycle::WaitReason;

/// One thing that happens; a number says which worker does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Claim(usize),
    Begin(usize),
    Cause(usize),
    Commit(usize),
    Recover(usize),
    Park(usize, WaitReason),
    GiveBack(usize),
    Finish(usize),
    HeedCancel(usize),
    Renew(usize),
    Die(usize),
    Expire,
    Sweep,
    SweepDead,
    Wake,
    Interrupt,
    AnotherTakesSession,
    AnotherLeavesSession,
    RequestCancel,
    Timeout,
}

impl Action {
    pub(super) fn all() -> Vec<Action> {
        let mut actions = vec![
            Self::Expire,
            Self::Sweep,
            Self::SweepDead,
            Self::Wake,
            Self::Interrupt,
            Self::AnotherTakesSession,
            Self::AnotherLeavesSession,
            Self::RequestCancel,
            Self::Timeout,
        ];
        for worker in 0..2 {
            actions.extend([
                Self::Claim(worker),
                Self::Begin(worker),
                Self::Cause(worker),
                Self::Commit(worker),
                Self::Recover(worker),
                Self::Park(worker, WaitReason::Approval),
                Self::Park(worker, WaitReason::Question),
                Self::GiveBack(worker),
                Self::Finish(worker),
                Self::HeedCancel(worker),
                Self::Renew(worker),
                Self::Die(worker),
            ]);
        }
        actions
    }
}
