//! The example of the README, compiled with the doc tests so that it stays true.
#![doc = include_str!("../../../README.md")]
