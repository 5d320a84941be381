//! The launcher as a program of its own, for programs that embed Provost and have none.

use std::process::ExitCode;

fn main() -> ExitCode {
    provost_sandbox::launcher::run_if_asked().unwrap_or(ExitCode::from(2))
}
