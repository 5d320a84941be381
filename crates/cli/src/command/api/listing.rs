//! Arguments of every list command: page size, cursor and watching.

use std::io::{self, Write};
use std::time::Duration;

use provost_api::{ApiError, Page};
use provost_core::ErrorKind;

use crate::error::CliError;
use crate::render::printer::{Printer, TableRow};
use crate::signal::Signals;

/// Time between two requests of a watched list.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

/// Arguments of a list command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ListArgs {
    /// Maximum number of items: 1 to 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=500))]
    pub(crate) limit: Option<u64>,
    /// Cursor of the next page, printed after the previous page
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    /// Refresh the list until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,
}

impl ListArgs {
    /// Returns the paging parameters of a list without filters.
    pub(crate) fn paging(&self) -> provost_api::PageQuery {
        provost_api::PageQuery { limit: self.limit, cursor: self.cursor.clone() }
    }

    /// Prints the list once, or until Ctrl-C with `--watch`.
    pub(crate) async fn run<T: TableRow>(
        &self,
        printer: &Printer,
        fetch: impl AsyncFn() -> Result<Page<T>, ApiError>,
    ) -> Result<u8, CliError> {
        if !self.watch {
            printer.print_list(&fetch().await?)?;
            return Ok(0);
        }
        let mut signals = Signals::listen().map_err(|error| CliError::io("signals", &error))?;
        let mut last = None;
        loop {
            let page = tokio::select! {
                page = fetch() => page,
                _ = signals.next() => return Ok(0),
            };
            let text = match page {
                Ok(page) => printer.list_text(&page)?,
                // The server may be restarting, so the next refresh can succeed.
                Err(error) if error.kind() == ErrorKind::Unavailable && last.is_some() => {
                    format!("{error}\n")
                }
                Err(error) => return Err(error.into()),
            };
            if last.as_ref() != Some(&text) {
                if printer.output.stdout_tty {
                    write!(io::stdout(), "\x1b[2J\x1b[H").ok();
                }
                printer.write(&text)?;
                last = Some(text);
            }
            tokio::select! {
                () = tokio::time::sleep(REFRESH_INTERVAL) => {}
                _ = signals.next() => return Ok(0),
            }
        }
    }
}
