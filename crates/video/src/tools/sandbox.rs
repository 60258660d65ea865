//! What a program may see and use.
