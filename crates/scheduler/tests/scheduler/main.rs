//! The scheduler from outside: scenarios on a clock of their own, random lives, and a slow reference to agree with.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

mod agrees_with_a_slow_reference;
mod backlog_larger_than_the_window;
mod bad_workers_are_quarantined;
mod best_worker_is_chosen;
mod cancelled_tasks_stop;
mod capabilities_are_matched;
mod clocks_are_set;
mod connections_break;
mod dependents_wait_for_parents;
mod failed_attempts_are_retried;
mod fair_shares;
mod groups_are_waited_for;
mod late_tasks_are_told;
mod least_slack_goes_first;
mod limits_hold;
mod load_is_told;
mod long_tasks_are_not_hoarded;
mod nothing_waits_in_vain;
mod poison_tasks_die;
mod random_lives_keep_the_promises;
mod random_workflows_end_once;
mod reference;
mod retries_follow_the_error;
mod retries_go_elsewhere;
mod server_restarts;
mod support;
mod tasks_run_in_order;
mod tiers_have_slots_of_their_own;
mod timeline;
mod traffic_is_counted;
mod work_is_stolen;
mod worker_dies_while_holding_lease;
mod workflows_are_resumed;
mod workflows_call_back;
