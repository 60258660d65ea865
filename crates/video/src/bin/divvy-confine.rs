//! The launcher of confined programs as a program of its own, for those who use the library without the command line.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Err(error) = divvy_video::tools::sandbox::enter(std::env::args_os().skip(1));
    // Nobody reads it any more: nothing to do about that.
    let _ = writeln!(std::io::stderr(), "{error}");
    ExitCode::FAILURE
}
