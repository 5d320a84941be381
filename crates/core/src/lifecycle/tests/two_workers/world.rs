//! A model of two workers, one run, its session and the clock, small enough that every history can be tried.
//!
//! The rules are the real ones: [`RunState::next`], [`on_lease_expired`], [`EffectClass`].
//! The model adds only who may do what when, and a truth of its own to check them against.

use std::time::Duration;

use super::action::Action;
use super::lease::{Lease, StepTransition, step_after};
use crate::Timestamp;
use crate::lifecycle::*;
use crate::recovery::*;
use crate::scheduling::*;

/// Steps a run needs to end well.
pub(super) const STEPS: usize = 2;
const TTL: Duration = Duration::from_millis(1);

/// How the store refuses stale writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    /// As it is: the epoch must be current and the lease held.
    Real,
    /// A mistake: only the epoch is compared, so a run that went back to the queue can still be written.
    EpochOnly,
    /// The fault of the reference: nothing is compared.
    Missing,
}

/// What stays the same in one exploration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) fence: Fence,
    pub(super) class: EffectClass,
    pub(super) on_unknown: UnknownEffectPolicy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Session {
    Free,
    Ours,
    AnotherRuns,
}

/// What one worker believes. A frozen one is one to which nothing happens for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Worker {
    /// The epoch it believes to own.
    pub(super) held: Option<Epoch>,
    /// The step whose effect it is about to cause.
    about_to: Option<usize>,
    /// The step whose effect it has caused and not recorded.
    caused: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) run: RunState,
    pub(super) lease: Lease,
    pub(super) session: Session,
    pub(super) workers: [Worker; 2],
    /// The truth that the fence is checked against: who claimed last and was not released since.
    claimer: Option<usize>,
    expired: bool,
    step: Option<StepState>,
    committed: usize,
    /// How often the effect of each step happened.
    pub(super) effects: [u8; STEPS],
    pub(super) crashes: u32,
    progressed: bool,
    pub(super) cancel: bool,
}

/// What went wrong, in words.
pub(super) type Violation = String;

impl World {
    pub(super) const START: World = World {
        run: RunState::ACCEPTED,
        lease: Lease { epoch: Epoch::new(0), held: None },
        session: Session::Free,
        workers: [Worker { held: None, about_to: None, caused: None }; 2],
        claimer: None,
        expired: false,
        step: None,
        committed: 0,
        effects: [0; STEPS],
        crashes: 0,
        progressed: false,
        cancel: false,
    };

    /// The world after an action: `None` if it cannot happen here, an error if it breaks a promise.
    pub(super) fn after(&self, action: Action, rules: Rules) -> Result<Option<World>, Violation> {
        let mut world = *self;
        let happened = match action {
            Action::Claim(worker) => world.claim(worker)?,
            Action::Begin(worker) => world.write(worker, rules, |world| world.begin(worker))?,
            Action::Cause(worker) => world.cause(worker),
            Action::Commit(worker) => world.write(worker, rules, |world| world.commit(worker))?,
            Action::Recover(worker) => {
                world.write(worker, rules, |world| world.recover(worker, rules))?
            }
            Action::Park(worker, why) => world.write(worker, rules, |world| {
                world.step.is_none() && world.move_run(RunTransition::Parked(why))
            })?,
            Action::GiveBack(worker) => world.write(worker, rules, |world| {
                world.step.is_none() && world.move_run(RunTransition::Requeued)
            })?,
            Action::Finish(worker) => world.write(worker, rules, |world| {
                world.committed == STEPS && world.move_run(RunTransition::Succeeded)
            })?,
            Action::HeedCancel(worker) => world.write(worker, rules, |world| {
                world.cancel && world.move_run(RunTransition::Cancelled)
            })?,
            Action::Renew(worker) => world.renew(worker),
            Action::Die(worker) => {
                world.workers[worker] = Worker::default();
                self.workers[worker].held.is_some()
            }
            Action::Expire => {
                world.expired = true;
                self.lease.held.is_some() && !self.expired
            }
            Action::Sweep => world.expired && world.sweep(rules, false),
            Action::SweepDead => {
                let dead = world.claimer.is_some_and(|owner| world.workers[owner].held.is_none());
                dead && world.sweep(rules, true)
            }
            Action::Wake => world.wake(),
            Action::Interrupt => world.lose_step() && world.move_run(RunTransition::Interrupted),
            Action::AnotherTakesSession => {
                world.session = Session::AnotherRuns;
                self.session == Session::Free
            }
            Action::AnotherLeavesSession => {
                world.session = Session::Free;
                self.session == Session::AnotherRuns
            }
            Action::RequestCancel => world.request_cancel(),
            Action::Timeout => world.lose_step() && world.move_run(RunTransition::TimedOut),
        };
        if !happened {
            return Ok(None);
        }
        world.check(self, rules)?;
        Ok(Some(world.normalized()))
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(i64::from(self.expired))
    }

    /// A worker without anything in hand takes the run if it is queued and its session is free or already its own.
    fn claim(&mut self, worker: usize) -> Result<bool, Violation> {
        let session_free = match self.session {
            Session::Free => true,
            Session::Ours => self.run.holds_session(),
            Session::AnotherRuns => false,
        };
        if self.workers[worker].held.is_some() || !session_free {
            return Ok(false);
        }
        let Ok(run) = self.run.apply(RunTransition::Claimed) else { return Ok(false) };
        let lease = self
            .lease
            .acquire(self.now(), TTL)
            .ok_or_else(|| "a queued run has a live lease".to_owned())?;
        if lease.epoch != self.lease.epoch.next() {
            return Err("a claim without a new epoch".to_owned());
        }
        (self.run, self.lease, self.expired) = (run, lease, false);
        self.session = Session::Ours;
        self.claimer = Some(worker);
        self.workers[worker] = Worker { held: Some(lease.epoch), ..Worker::default() };
        Ok(true)
    }

    /// A write of a worker: refused if it is stale, and then the worker stops.
    fn write(
        &mut self,
        worker: usize,
        rules: Rules,
        job: impl FnOnce(&mut World) -> bool,
    ) -> Result<bool, Violation> {
        let Some(epoch) = self.workers[worker].held else { return Ok(false) };
        let accepted = match rules.fence {
            Fence::Real => self.lease.admits(epoch),
            Fence::EpochOnly => self.lease.epoch == epoch,
            Fence::Missing => true,
        };
        if !accepted {
            self.workers[worker] = Worker::default();
            return Ok(true);
        }
        let had_right = self.claimer == Some(worker);
        if !job(self) {
            return Ok(false);
        }
        if !had_right {
            return Err("a worker wrote that had no right to".to_owned());
        }
        if self.run.phase() != RunPhase::Leased {
            self.workers[worker] = Worker::default();
        }
        Ok(true)
    }

    fn begin(&mut self, worker: usize) -> bool {
        let begins = self.step.is_none() && self.committed < STEPS && !self.cancel;
        if begins {
            self.step = Some(StepState::Started);
            self.workers[worker].about_to = Some(self.committed);
        }
        begins
    }

    /// The effect happens out in the world; no fence can stop it.
    fn cause(&mut self, worker: usize) -> bool {
        let Some(step) = self.workers[worker].about_to.take() else { return false };
        self.effects[step] = (self.effects[step] + 1).min(2);
        self.workers[worker].caused = Some(step);
        true
    }

    fn commit(&mut self, worker: usize) -> bool {
        self.workers[worker].caused.take().is_some() && self.settle_step(StepTransition::Committed)
    }

    fn settle_step(&mut self, event: StepTransition) -> bool {
        let Some(settled) = self.step.and_then(|step| step_after(step, event)) else {
            return false;
        };
        self.step = (settled != StepState::Committed).then_some(settled);
        self.committed += usize::from(settled == StepState::Committed);
        self.progressed |= settled == StepState::Committed;
        true
    }

    fn recover(&mut self, worker: usize, rules: Rules) -> bool {
        if self.step != Some(StepState::Unknown) {
            return false;
        }
        let happened = self.effects[self.committed] > 0;
        let recovery = match rules.class.on_unknown(rules.on_unknown) {
            EffectRecovery::Probe if happened => None,
            EffectRecovery::Probe => Some(EffectRecovery::Retry),
            recovery => Some(recovery),
        };
        match recovery {
            None | Some(EffectRecovery::ReportToModel) => {
                self.settle_step(StepTransition::Committed)
            }
            Some(EffectRecovery::Retry) => {
                self.workers[worker].about_to = Some(self.committed);
                self.settle_step(StepTransition::RunAgain)
            }
            Some(EffectRecovery::AskPerson) => {
                self.move_run(RunTransition::Parked(WaitReason::Approval))
            }
            Some(EffectRecovery::FailRun) => self.move_run(RunTransition::Failed),
            Some(EffectRecovery::Probe) => false,
        }
    }

    fn renew(&mut self, worker: usize) -> bool {
        let Some(epoch) = self.workers[worker].held else { return false };
        match self.lease.renew(epoch, self.now(), TTL) {
            Some(lease) => {
                self.expired &= lease == self.lease;
                self.lease = lease;
            }
            None => self.workers[worker] = Worker::default(),
        }
        true
    }

    /// The lease ran out, or its owner is proven dead: by its open step the run goes on, waits or ends.
    fn sweep(&mut self, rules: Rules, proven_dead: bool) -> bool {
        if self.run.phase() != RunPhase::Leased {
            return false;
        }
        let loss = LostWorkerContext {
            cancel_requested: self.cancel,
            crashes: self.crashes,
            progressed: self.progressed,
            confirmed_dead: proven_dead,
            on_unknown: rules.on_unknown,
        };
        let step = self.step.map(|state| InFlightStep {
            kind: StepKind::ToolCall,
            state,
            class: rules.class,
        });
        let event = match on_lease_expired(step.as_slice(), loss, TTL) {
            LeaseExpiryAction::Requeue { .. } => RunTransition::Requeued,
            LeaseExpiryAction::Park => RunTransition::Parked(WaitReason::Approval),
            LeaseExpiryAction::Fail | LeaseExpiryAction::CrashLoop => RunTransition::Failed,
            LeaseExpiryAction::Cancel => RunTransition::Cancelled,
        };
        (self.crashes, self.progressed) = (loss.consecutive_crashes(), false);
        self.lose_step() && self.move_run(event)
    }

    fn lose_step(&mut self) -> bool {
        self.step.is_none() || self.settle_step(StepTransition::EpochLost)
    }

    /// What it waited for is there; if that was a person's word about an effect, the effect is settled by it.
    fn wake(&mut self) -> bool {
        self.move_run(RunTransition::Woken)
            && (self.step.is_none() || self.settle_step(StepTransition::Committed))
    }

    fn request_cancel(&mut self) -> bool {
        if self.cancel || self.run.is_terminal() {
            return false;
        }
        self.cancel = true;
        self.lease = self.lease.cancel_requested();
        self.run.phase() == RunPhase::Leased || self.move_run(RunTransition::Cancelled)
    }

    /// Moves the run and, in the same transaction, the lease and the session.
    fn move_run(&mut self, event: RunTransition) -> bool {
        let Ok(run) = self.run.apply(event) else { return false };
        self.run = run;
        if run.phase() != RunPhase::Leased {
            self.lease = self.lease.release();
            (self.claimer, self.expired) = (None, false);
        }
        if self.session == Session::Ours && !run.holds_session() {
            self.session = Session::Free;
        }
        true
    }

    /// What must hold at every step of every history.
    fn check(&self, before: &World, rules: Rules) -> Result<(), Violation> {
        let writers =
            self.workers.iter().filter(|worker| worker.held == Some(self.lease.epoch)).count();
        let leased = self.run.phase() == RunPhase::Leased;
        let promises = [
            (!before.run.is_terminal() || self.run == before.run, "an ended run was changed"),
            (self.lease.epoch >= before.lease.epoch, "an epoch went back"),
            (self.lease.held.is_some() == leased, "the lease and the phase disagree"),
            (
                (self.session == Session::Ours) == self.run.holds_session(),
                "the session and the run disagree about who holds it",
            ),
            (!leased || self.session == Session::Ours, "a run is at work without its session"),
            (!leased || writers <= 1, "two workers may write"),
            (
                rules.class != EffectClass::Opaque || self.effects.iter().all(|count| *count <= 1),
                "an opaque effect happened twice",
            ),
            (
                self.step != Some(StepState::Started) || leased || self.run.is_terminal(),
                "a step is at work and nobody has the run",
            ),
        ];
        match promises.iter().find(|(kept, _)| !kept) {
            Some((_, broken)) => Err((*broken).to_owned()),
            None => Ok(()),
        }
    }

    /// The one of all equal worlds that stands for them. Of an epoch only whether it is current matters, of two workers not
    /// which is which, of crashes before a step was committed not how many there were.
    fn normalized(mut self) -> World {
        let (current, stale) = (Epoch::new(2), Epoch::new(1));
        for worker in &mut self.workers {
            let newer = |held| if held == self.lease.epoch { current } else { stale };
            worker.held = worker.held.map(newer);
            if worker.held == Some(stale) {
                worker.caused = None;
            }
        }
        self.lease.epoch = current;
        if self.progressed {
            self.crashes = 0;
        }
        let rank = |worker: &Worker| (worker.held, worker.about_to, worker.caused);
        if self.claimer == Some(1)
            || (self.claimer.is_none() && rank(&self.workers[1]) > rank(&self.workers[0]))
        {
            self.workers.swap(0, 1);
            self.claimer = self.claimer.map(|_| 0);
        }
        if let Some(held) = &mut self.lease.held {
            held.until = Timestamp::from_millis(1);
        }
        self
    }
}
