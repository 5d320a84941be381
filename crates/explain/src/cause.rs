//! Every cause there is, with its stable code.
//!
//! There is none for "unknown": a state that should not be has a name of its own that says what was seen.

/// Defines the causes with their codes.
macro_rules! causes {
    ($( $(#[$doc:meta])* $variant:ident = $code:literal ),+ $(,)?) => {
        /// Why something waits, or why it ended.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Cause {
            $( $(#[$doc])* $variant ),+
        }

        impl Cause {
            /// Every cause, in the order of this page.
            pub const ALL: &'static [Self] = &[$( Self::$variant ),+];

            /// The stable code.
            pub const fn code(self) -> &'static str {
                match self {
                    $( Self::$variant => $code ),+
                }
            }
        }
    };
}

causes! {
    // A run that no worker has.
    /// Its time is over, and nobody has looked yet.
    DeadlinePassed = "deadline_passed",
    /// The time in which it had to start is over, and nobody has looked yet.
    QueueDeadlinePassed = "queue_deadline_passed",
    /// Messages that come shortly after each other become one turn.
    MoreMessages = "waiting_more_messages",
    /// It was asked for a later time.
    StartTime = "waiting_start_time",
    /// As many runs that the same call has started as may are at work.
    CallFull = "waiting_call_full",
    /// The provider wants to be left alone until then.
    RateLimit = "waiting_rate_limit",
    /// Its worker was lost and gets some time in case it comes back.
    LostWorker = "waiting_lost_worker",
    /// The database did not take what the last attempt wrote.
    Database = "waiting_database",
    /// The last attempt failed and the next one has to wait.
    Retry = "waiting_retry",
    /// Another run of the session is at work.
    SessionBusy = "waiting_session_busy",
    /// Another run has the session and itself waits.
    SessionHeld = "waiting_session_held",
    /// Other runs of the session come first.
    SessionTurn = "waiting_session_turn",
    /// It is due, and nobody has marked it.
    DueUnmarked = "due_not_marked",
    /// Somebody paused its class.
    ClassPaused = "waiting_class_paused",
    /// Nobody works.
    NoWorker = "waiting_no_worker",
    /// Everybody who works is too old for it.
    NewerWorker = "waiting_newer_worker",
    /// Everybody who works takes runs of other pools.
    OtherPool = "waiting_pool_worker",
    /// Everybody who works serves other sessions.
    OtherSessions = "waiting_session_worker",
    /// The service crashed too often and begins nothing for a while.
    BootGuard = "waiting_boot_guard",
    /// Runs of its class could not be started again and again.
    Breaker = "waiting_breaker",
    /// As many runs of its class as may are at work.
    ClassFull = "waiting_class_full",
    /// As many runs of its namespace as may are at work.
    NamespaceCeiling = "waiting_namespace_ceiling",
    /// As many runs of its pool as may are at work.
    PoolCeiling = "waiting_pool_ceiling",
    /// Everybody who works is about to stop.
    WorkersDraining = "waiting_workers_draining",
    /// Everybody who works has enough to do.
    WorkersFull = "waiting_workers_full",
    /// It is ready and ends soon if nobody takes it.
    QueueDeadlineNear = "queue_deadline_near",
    /// It has been ready for long and nobody takes it.
    ReadyNotClaimed = "ready_not_claimed",
    /// It is ready for the next worker.
    Ready = "ready",

    // A run that a worker has.
    /// Somebody asked for its end.
    Stopping = "stopping",
    /// Its worker is dead.
    WorkerGone = "worker_gone",
    /// Its worker has said nothing for too long.
    LeaseExpired = "lease_expired",
    /// A newer message takes its place.
    Interrupting = "interrupting",
    /// Its worker stops and gives it back.
    WorkerDraining = "worker_draining",
    /// A tool runs.
    ToolRunning = "tool_running",
    /// Its conversation is being made shorter.
    Compacting = "compacting",
    /// A model answers.
    ModelRunning = "model_running",
    /// It was just taken.
    Starting = "starting",
    /// It is at work between two steps.
    BetweenSteps = "between_steps",

    // A run that waits for something that is not a worker.
    /// Somebody must approve its start.
    ParkedStart = "parked_start_approval",
    /// Somebody must approve a call.
    ParkedTool = "parked_tool_approval",
    /// Somebody must say what came of a call.
    ParkedEffect = "parked_effect_unclear",
    /// Somebody must approve a plan.
    ParkedPlan = "parked_plan_approval",
    /// It asked a person.
    ParkedQuestion = "parked_question",
    /// Its money is spent.
    ParkedBudget = "parked_budget",
    /// Its children have not ended.
    ParkedChildren = "parked_children",
    /// Its tries are used up and an operator wants to look.
    ParkedRetriesUsedUp = "parked_retries_used_up",
    /// It crashed again and again and an operator wants to look.
    ParkedCrashLoop = "parked_crash_loop",
    /// The time of its question is over, and nobody has looked yet.
    ParkedOverdue = "parked_answer_overdue",
    /// It waits, and nothing of what it waits for is there.
    ParkedForNothing = "parked_for_nothing",

    // A run that has ended.
    /// It answered.
    EndedOk = "ended_ok",
    /// It answered when a limit was reached.
    EndedOkAtLimit = "ended_ok_at_limit",
    /// The provider was overloaded or out of reach.
    EndedProviderOverloaded = "ended_provider_overloaded",
    /// The provider wanted fewer requests.
    EndedProviderRateLimited = "ended_provider_rate_limited",
    /// The provider did not take the credential.
    EndedProviderAuth = "ended_provider_auth",
    /// The provider refused the request.
    EndedProviderBadRequest = "ended_provider_bad_request",
    /// The answer never became what was wanted.
    EndedInvalidOutput = "ended_invalid_output",
    /// The conversation did not fit the model.
    EndedContextOverflow = "ended_context_overflow",
    /// A tool ended the run.
    EndedToolError = "ended_tool_error",
    /// A tool took too long.
    EndedToolTimeout = "ended_tool_timeout",
    /// Nobody knows what came of a call, and then the run fails.
    EndedEffectUnclear = "ended_effect_unclear",
    /// Its agent or the place to run in could not be made.
    EndedSandboxStart = "ended_sandbox_start",
    /// One attempt took too long.
    EndedAttemptClock = "ended_attempt_clock",
    /// There was no sign of life for too long.
    EndedSilence = "ended_silence",
    /// Nobody began it in time.
    EndedQueueDeadline = "ended_queue_deadline",
    /// The time that the caller set was over.
    EndedDeadline = "ended_deadline",
    /// It took longer than it may.
    EndedTimeout = "ended_timeout",
    /// It reached the limit of time of its agent.
    EndedWallLimit = "ended_wall_limit",
    /// A person cancelled it.
    EndedByUser = "ended_cancelled_by_user",
    /// Its message was taken back.
    EndedWithdrawn = "ended_message_withdrawn",
    /// The run above it ended.
    EndedByParent = "ended_cancelled_by_parent",
    /// A newer message took its place.
    EndedByInterrupt = "ended_cancelled_by_interrupt",
    /// Its message gave way to a newer one.
    EndedGaveWay = "ended_message_gave_way",
    /// Its money was spent.
    EndedBudget = "ended_budget",
    /// The policy forbade it.
    EndedPolicyDenied = "ended_policy_denied",
    /// It reached a limit of its agent.
    EndedLimit = "ended_limit",
    /// A person said no.
    EndedApprovalDenied = "ended_approval_denied",
    /// Nobody answered in time.
    EndedApprovalExpired = "ended_approval_expired",
    /// It crashed again and again.
    EndedCrashLoop = "ended_crash_loop",
    /// A defect of Provost.
    EndedInternal = "ended_internal",
    /// It ended with a code that ends attempts and no runs.
    EndedAttemptCode = "ended_attempt_code",
    /// It ended without a code that would say why.
    EndedWithoutCode = "ended_without_code",
    /// Its row is in no state that a run can have.
    NoState = "run_in_no_state",

    // A task.
    /// It was put away.
    TaskArchived = "task_archived",
    /// It was dropped.
    TaskDropped = "task_dropped",
    /// It is done.
    TaskDone = "task_done",
    /// It begins later.
    TaskSleeping = "task_sleeping",
    /// It has no run.
    TaskWithoutRun = "task_without_run",

    // A question.
    /// Nobody has answered it.
    ApprovalOpen = "approval_open",
    /// Its time is over, and nobody has looked yet.
    ApprovalOverdue = "approval_overdue",
    /// Somebody said yes.
    ApprovalApproved = "approval_approved",
    /// An earlier yes reached as far as this.
    ApprovalGranted = "approval_granted",
    /// Somebody said no.
    ApprovalDenied = "approval_denied",
    /// Somebody answered in words.
    ApprovalAnswered = "approval_answered",
    /// Nobody answered in time.
    ApprovalExpired = "approval_expired",
    /// Nobody needs an answer any more.
    ApprovalVoid = "approval_void",

    // A session.
    /// Nothing waits and nothing works.
    SessionIdle = "session_idle",
    /// A run is at work.
    SessionWorking = "session_working",
    /// A run is at work and has not read everything.
    SessionUnread = "session_unread_messages",
    /// The run that has it waits for something.
    SessionHolderWaits = "session_holder_waits",
    /// Nobody has it, and the next run waits for something.
    SessionNextWaits = "session_next_waits",
    /// It is free, and a run of it waits elsewhere.
    SessionWaitsAside = "session_waits_aside",

    // An answer on its way out.
    /// It is sent at the next moment.
    DeliveryDue = "delivery_due",
    /// It did not arrive and is tried again.
    DeliveryRetry = "delivery_retry_wait",
    /// Nobody here knows its channel.
    DeliveryNoChannel = "delivery_no_channel",
    /// Nobody works who could send it.
    DeliveryNoWorker = "delivery_no_worker",
    /// It was to be given up, and nobody has looked yet.
    DeliveryOverdue = "delivery_overdue",
    /// It is being sent.
    DeliverySending = "delivery_sending",
    /// Who sent it is gone.
    DeliverySenderLost = "delivery_sender_lost",
    /// It arrived.
    DeliveryDelivered = "delivery_delivered",
    /// Its channel does not take it.
    DeliveryRefused = "delivery_refused",
    /// It may have arrived.
    DeliveryUncertain = "delivery_uncertain",
    /// It was tried for too long.
    DeliveryGivenUp = "delivery_given_up",
    /// Somebody put it away.
    DeliveryDismissed = "delivery_dismissed",
}
