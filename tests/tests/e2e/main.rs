//! The whole of divvy from outside: real processes, real kills, real browsers.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

mod a_clock_that_jumps;
mod a_damaged_store_is_refused;
mod a_data_folder_that_vanishes;
mod a_full_disk_refuses_tasks_but_loses_none;
mod a_video_survives_what_goes_wrong;
mod connections_break_and_nobody_notices;
mod crawls_are_polite_whoever_dies;
mod crawls_become_parquet;
mod dataflow_is_the_same_whoever_dies;
mod nothing_is_lost_when_processes_are_killed;
mod parquet_is_read_where_duckdb_is;
mod people_crawl_from_the_command_line;
mod people_find_their_way;
mod people_follow_streams;
mod people_run_dataflow_from_the_command_line;
mod people_use_the_pages;
mod people_watch_a_crawl;
mod people_watch_the_dashboard;
mod scenarios_of_load;
mod slow_parts_get_a_twin;
mod ten_thousand_idle_workers_and_one_task;
mod what_was_set_survives_a_kill;
mod workers_come_and_go_with_the_work;
