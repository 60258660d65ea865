//! How long a task will take: what its size is, and a model that learns from what tasks took.
