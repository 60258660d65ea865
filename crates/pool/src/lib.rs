//! Threads: a work-stealing pool with priorities, inboxes and tiers.
