//! What the store promises, through its door. The conformance tests hold for every database, the rest for SQLite's
//! file.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, also in what tests share"
)]

mod checked;
mod child;
mod file;
mod fixture;
mod kill;
mod lock;
mod maintain;
mod queries;
mod rows;
mod writing;

/// Runs each test of the list on each database.
macro_rules! conformance {
    ($($module:ident { $($name:ident,)* })*) => {
        mod sqlite {
            $(mod $module {
                use crate::fixture::Fixture;
                $(
                    #[tokio::test]
                    async fn $name() {
                        crate::$module::$name(Fixture::sqlite()).await;
                    }
                )*
            })*
        }
    };
}

conformance! {
    checked {
        an_update_of_a_row_that_is_not_locked_fails,
        a_run_is_made_ready_under_the_lock_of_its_session,
        a_statement_with_a_fence_locks_what_it_changes,
        a_transaction_that_does_something_else_again_fails,
        ids_and_hints_are_those_of_one_attempt,
        a_locked_row_saves_only_what_was_changed,
    }
    queries {
        runs_and_messages_of_a_task_are_found,
        tasks_and_runs_of_a_session_are_found,
        runs_of_a_namespace_are_listed_page_by_page,
        one_run_of_a_session_is_made_ready_and_no_other,
        a_message_that_another_run_gets_is_found_with_that_one,
    }
    rows {
        g21_bodies_of_any_size_come_back_whole,
        a_body_is_stored_once_and_swept_when_nothing_needs_it,
        a_session_is_what_it_was_at_each_revision,
        event_numbers_are_fenced_and_without_a_gap,
        positions_rise_and_what_is_removed_frees_none,
        tasks_are_listed_newest_first_page_by_page,
        the_outbox_is_claimed_once_at_a_time,
        timers_fire_in_order_and_are_moved_not_doubled,
        money_is_reserved_up_to_the_cap_and_then_settled,
        ceilings_give_out_as_many_places_as_they_have,
        what_is_nothing_is_stored_as_nothing_after_something,
        keys_of_inputs_are_unique_within_a_task_unless_there_is_none,
        a_key_answers_until_it_expires,
        an_agent_keeps_its_revisions_after_it_is_deleted,
        a_schedule_moves_on_once_per_time,
    }
    writing {
        jobs_are_applied_in_the_order_of_the_calls,
        what_waits_together_shares_one_commit,
        what_nobody_waits_for_keeps_its_place_and_is_committed_all_the_same,
        a_job_that_fails_or_panics_leaves_nothing_and_the_others_commit,
        what_fails_half_way_is_taken_back_and_no_job_runs_twice,
        a_broken_rule_is_told_and_nothing_of_its_job_stays,
        readers_see_committed_state_only_and_ones_own_awaited_writes,
        a_read_sees_one_state_and_cannot_write,
        hints_come_after_the_commit_once_and_only_from_jobs_that_were_kept,
        a_transaction_that_cannot_start_fails_its_jobs_and_the_writer_goes_on,
        g56_a_commit_that_fails_fails_its_whole_group_and_the_writer_goes_on,
        a_job_that_ends_the_transaction_takes_nobody_along_in_silence,
        an_answer_can_be_lost_while_the_change_is_there,
        urgent_jobs_go_before_what_waits,
        a_full_queue_refuses_work_but_not_renewals,
        closing_finishes_what_was_enqueued_and_refuses_the_rest,
        the_time_is_the_stores_and_stands_still_within_a_transaction,
    }
}
