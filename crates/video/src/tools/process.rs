//! Runs a program: its process group, its limits, its output, its end.
