//! Workflows: how many of their tasks are open, whether one failed, and what runs at their end.
