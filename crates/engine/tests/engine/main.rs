//! The engine from outside: real stores, real restarts, and what survives them.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

mod a_backlog_larger_than_the_window_is_worked_off_in_order;
mod a_busy_engine_keeps_its_workers;
mod a_group_of_twenty_thousand_tasks;
mod a_repeated_submit_is_the_same_task;
mod a_report_under_an_old_token_changes_nothing;
mod a_restart_goes_on_where_it_stopped;
mod a_retry_means_now;
mod a_schedule_fires_once_per_tick;
mod a_store_in_trouble;
mod a_watcher_misses_nothing;
mod a_workflow_of_a_hundred_thousand_tasks;
mod bad_batches_leave_nothing_behind;
mod bulk_treats_what_fits_and_nothing_else;
mod late_tasks_are_told_or_refused;
mod lists_leave_no_task_out;
mod only_one_task_with_a_unique_key;
mod readers_come_back_when_callers_leave;
mod requests_meet_a_group_in_flight;
mod support;
mod time_that_does_not_jump;
mod what_was_set_or_saved_survives_a_restart;
mod who_waits_for_work_hears_of_it;
mod workflows_are_resumed_in_one_commit;
mod workflows_call_back_over_restarts;
