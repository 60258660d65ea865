//! What targets carry and can bear: statistics, health, capacity, bottlenecks, plans.
