//! The launcher as a separate program, for applications that embed Provost without a launcher in their own `main`.

use std::process::ExitCode;

fn main() -> ExitCode {
    provost_sandbox::launcher::run_if_launcher().unwrap_or(ExitCode::from(2))
}
