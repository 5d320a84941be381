//! All causes with their stable codes.
//!
//! No cause means "unknown": each invalid state has its own cause, which describes the stored values.

/// Defines the causes with their codes.
macro_rules! causes {
    ($( $(#[$doc:meta])* $variant:ident = $code:literal ),+ $(,)?) => {
        /// The reason that a subject waits, or the reason that it ended.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Cause {
            $( $(#[$doc])* $variant ),+
        }

        impl Cause {
            /// All causes in the order of their declaration.
            pub const ALL: &'static [Self] = &[$( Self::$variant ),+];

            /// Returns the stable code.
            pub const fn code(self) -> &'static str {
                match self {
                    $( Self::$variant => $code ),+
                }
            }
        }
    };
}

causes! {
    // Queued runs.
    /// The deadline of the run has passed, but no worker has ended it yet.
    DeadlinePassed = "deadline_passed",
    /// The queue deadline of the run has passed, but no worker has ended it yet.
    QueueDeadlinePassed = "queue_deadline_passed",
    /// The run collects messages that arrive shortly after each other into one turn.
    MoreMessages = "waiting_more_messages",
    /// The run is scheduled for a later time.
    StartTime = "waiting_start_time",
    /// The call that started the run has reached its concurrency limit.
    CallFull = "waiting_call_full",
    /// The model provider limits the request rate.
    RateLimit = "waiting_rate_limit",
    /// The worker of the run was lost and has a grace period in which to come back.
    LostWorker = "waiting_lost_worker",
    /// The last attempt could not write to the database.
    Database = "waiting_database",
    /// The last attempt failed and the delay before the next one has not passed.
    Retry = "waiting_retry",
    /// Another run of the session is active.
    SessionBusy = "waiting_session_busy",
    /// Another run holds the session and is itself waiting.
    SessionHeld = "waiting_session_held",
    /// Other runs of the session are ahead.
    SessionTurn = "waiting_session_turn",
    /// The run is due but its row is not marked as ready.
    DueNotMarked = "due_not_marked",
    /// The execution class has a concurrency limit of zero.
    ClassPaused = "waiting_class_paused",
    /// No worker is alive.
    NoWorker = "waiting_no_worker",
    /// The build of every live worker is older than the run requires.
    NewerWorker = "waiting_newer_worker",
    /// Every live worker serves a different pool.
    OtherPool = "waiting_pool_worker",
    /// Every live worker serves other sessions.
    OtherSessions = "waiting_session_worker",
    /// The service crashed repeatedly and starts no runs for a while.
    BootGuard = "waiting_boot_guard",
    /// The circuit breaker of the execution class is open because its runs failed to start.
    ClassBreaker = "waiting_breaker",
    /// All slots of the execution class are in use.
    ClassFull = "waiting_class_full",
    /// The namespace has reached its concurrency limit.
    NamespaceCeiling = "waiting_namespace_ceiling",
    /// The pool has reached its concurrency limit.
    PoolCeiling = "waiting_pool_ceiling",
    /// Every live worker that could run it is draining.
    WorkersDraining = "waiting_workers_draining",
    /// Every live worker that could run it has reached its capacity.
    WorkersFull = "waiting_workers_full",
    /// The run is ready and its queue deadline is near.
    QueueDeadlineNear = "queue_deadline_near",
    /// The run has been ready for a long time and no worker has claimed it.
    ReadyNotClaimed = "ready_not_claimed",
    /// The run is ready to be claimed.
    Ready = "ready",

    // Leased runs.
    /// The run is being cancelled.
    Cancelling = "stopping",
    /// The worker of the run is dead.
    WorkerGone = "worker_gone",
    /// The worker has not renewed the lease in time.
    LeaseExpired = "lease_expired",
    /// A newer message interrupts the run.
    Interrupting = "interrupting",
    /// The worker is draining and will requeue the run.
    WorkerDraining = "worker_draining",
    /// A tool call is running.
    ToolRunning = "tool_running",
    /// The context is being compacted.
    Compacting = "compacting",
    /// A model call is running.
    ModelRunning = "model_running",
    /// The run was just claimed and its agent is being built.
    Starting = "starting",
    /// The run is between two steps.
    BetweenSteps = "between_steps",

    // Parked runs.
    /// The start of the run needs approval.
    ParkedStart = "parked_start_approval",
    /// A tool call needs approval.
    ParkedTool = "parked_tool_approval",
    /// A user must decide about a call whose outcome is not known.
    ParkedEffect = "parked_effect_unclear",
    /// A plan needs approval.
    ParkedPlan = "parked_plan_approval",
    /// The agent has a question for the user.
    ParkedQuestion = "parked_question",
    /// The budget of the run is spent.
    ParkedBudget = "parked_budget",
    /// The children of the run have not ended.
    ParkedChildren = "parked_children",
    /// All tries failed and the policy hands the run to an operator.
    ParkedRetriesUsedUp = "parked_retries_used_up",
    /// The run crashed repeatedly and the policy hands it to an operator.
    ParkedCrashLoop = "parked_crash_loop",
    /// An approval has expired, but no worker has processed the expiry yet.
    ParkedOverdue = "parked_answer_overdue",
    /// The run is parked, but nothing that could resume it exists.
    ParkedForNothing = "parked_for_nothing",

    // Finished runs.
    /// The run succeeded.
    EndedOk = "ended_ok",
    /// The run ended with the result so far when it reached a limit.
    EndedOkAtLimit = "ended_ok_at_limit",
    /// The model provider was overloaded or unreachable.
    EndedProviderOverloaded = "ended_provider_overloaded",
    /// The model provider limited the request rate.
    EndedProviderRateLimited = "ended_provider_rate_limited",
    /// The model provider rejected the credential.
    EndedProviderAuth = "ended_provider_auth",
    /// The model provider rejected the request.
    EndedProviderBadRequest = "ended_provider_bad_request",
    /// The model never returned a response of the required type.
    EndedInvalidOutput = "ended_invalid_output",
    /// The context did not fit the model.
    EndedContextOverflow = "ended_context_overflow",
    /// A tool error ended the run.
    EndedToolError = "ended_tool_error",
    /// A tool timed out.
    EndedToolTimeout = "ended_tool_timeout",
    /// The outcome of a call is not known, and the policy is to fail.
    EndedEffectUnclear = "ended_effect_unclear",
    /// The agent or the execution environment could not be created.
    EndedSandboxStart = "ended_sandbox_start",
    /// An attempt exceeded its timeout.
    EndedAttemptTimeout = "ended_attempt_clock",
    /// An attempt made no progress for longer than the idle timeout.
    EndedIdleTimeout = "ended_silence",
    /// No worker started the run before its queue deadline.
    EndedQueueDeadline = "ended_queue_deadline",
    /// The run missed the deadline that its caller set.
    EndedDeadline = "ended_deadline",
    /// The run exceeded its timeout.
    EndedTimeout = "ended_timeout",
    /// The run reached the time limit of its agent.
    EndedWallLimit = "ended_wall_limit",
    /// A user cancelled the run.
    EndedByUser = "ended_cancelled_by_user",
    /// The message of the run was withdrawn.
    EndedMessageWithdrawn = "ended_message_withdrawn",
    /// The parent run ended.
    EndedByParent = "ended_cancelled_by_parent",
    /// A newer message interrupted the run.
    EndedByInterrupt = "ended_cancelled_by_interrupt",
    /// A newer message replaced the message of the run.
    EndedMessageReplaced = "ended_message_gave_way",
    /// The budget of the run was spent.
    EndedBudget = "ended_budget",
    /// A policy denied the run.
    EndedPolicyDenied = "ended_policy_denied",
    /// The run reached a limit of its agent.
    EndedLimit = "ended_limit",
    /// A user denied the start or the plan of the run.
    EndedApprovalDenied = "ended_approval_denied",
    /// The approval of the start or the plan expired.
    EndedApprovalExpired = "ended_approval_expired",
    /// The run crashed repeatedly.
    EndedCrashLoop = "ended_crash_loop",
    /// A defect of Provost or of the agent ended the run.
    EndedInternal = "ended_internal",
    /// The run ended with a code that only attempts can end with.
    EndedAttemptCode = "ended_attempt_code",
    /// The run ended without a code that this version recognizes.
    EndedWithoutCode = "ended_without_code",
    /// The stored status, phase and wait reason of the run are not a valid combination.
    NoState = "run_in_no_state",

    // Tasks.
    /// The task was archived.
    TaskArchived = "task_archived",
    /// The task was dropped.
    TaskDropped = "task_dropped",
    /// The task is done.
    TaskDone = "task_done",
    /// The task is scheduled for a later time.
    TaskSleeping = "task_sleeping",
    /// The task has no stored run.
    TaskWithoutRun = "task_without_run",

    // Approvals.
    /// The approval is pending.
    ApprovalOpen = "approval_open",
    /// The approval has expired, but no worker has processed the expiry yet.
    ApprovalOverdue = "approval_overdue",
    /// A user approved the request.
    ApprovalApproved = "approval_approved",
    /// A standing approval covered the call.
    ApprovalGranted = "approval_granted",
    /// A user denied the request.
    ApprovalDenied = "approval_denied",
    /// A user answered with a text.
    ApprovalAnswered = "approval_answered",
    /// The approval expired without an answer.
    ApprovalExpired = "approval_expired",
    /// The approval is no longer needed.
    ApprovalVoid = "approval_void",

    // Sessions.
    /// The session has no active or waiting run.
    SessionIdle = "session_idle",
    /// A run is active.
    SessionWorking = "session_working",
    /// A run is active and has unread messages.
    SessionUnread = "session_unread_messages",
    /// The run that holds the session is waiting.
    SessionHolderBlocked = "session_holder_waits",
    /// No run holds the session and its next run is waiting.
    SessionNextBlocked = "session_next_waits",
    /// The session is free while a parked run of it waits.
    SessionParkedAside = "session_waits_aside",

    // Deliveries.
    /// The delivery is due.
    DeliveryDue = "delivery_due",
    /// The last try failed and the delay before the next one has not passed.
    DeliveryRetry = "delivery_retry_wait",
    /// This process does not have the channel.
    DeliveryNoChannel = "delivery_no_channel",
    /// No worker is alive to send it.
    DeliveryNoWorker = "delivery_no_worker",
    /// The retry deadline has passed, but no worker has given up the delivery yet.
    DeliveryOverdue = "delivery_overdue",
    /// The delivery is being sent.
    DeliverySending = "delivery_sending",
    /// The worker that sent the delivery was lost.
    DeliverySenderLost = "delivery_sender_lost",
    /// The delivery arrived.
    DeliveryDelivered = "delivery_delivered",
    /// The channel rejected the delivery.
    DeliveryRejected = "delivery_refused",
    /// The delivery may have arrived.
    DeliveryUncertain = "delivery_uncertain",
    /// The delivery became a dead letter after its last try.
    DeliveryDeadLettered = "delivery_given_up",
    /// A user dismissed the delivery.
    DeliveryDismissed = "delivery_dismissed",
}
