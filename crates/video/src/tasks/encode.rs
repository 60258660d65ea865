//! One chunk, one decode, all rungs.
