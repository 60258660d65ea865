//! How much time is left, handed on from call to call.
