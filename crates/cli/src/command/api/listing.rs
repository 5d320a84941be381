//! What lists have in common: how much of them, and looking again.

use std::io::{self, Write};
use std::time::Duration;

use provost_api::{ApiError, Page};
use provost_core::ErrorKind;

use crate::interrupt::Interrupt;
use crate::problem::Problem;
use crate::render::show::{Show, Shown};

/// How long until a list is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How much of a list.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ListArgs {
    /// How many at most: 1 to 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=500))]
    pub(crate) limit: Option<u64>,
    /// Where to go on: what the list before said
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    /// Look again and again, until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,
}

impl ListArgs {
    /// Which part of a list, where nothing else can be asked for.
    pub(crate) fn paging(&self) -> provost_api::Paging {
        provost_api::Paging { limit: self.limit, cursor: self.cursor.clone() }
    }

    /// Shows a list, once or again and again.
    pub(crate) async fn run<T: Shown>(
        &self,
        show: &Show,
        fetch: impl AsyncFn() -> Result<Page<T>, ApiError>,
    ) -> Result<u8, Problem> {
        if !self.watch {
            show.list(&fetch().await?)?;
            return Ok(0);
        }
        let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
        let mut last = None;
        loop {
            let page = tokio::select! {
                page = fetch() => page,
                _ = interrupt.next() => return Ok(0),
            };
            let text = match page {
                Ok(page) => show.list_text(&page)?,
                // A server that is being restarted comes back.
                Err(error) if error.kind() == ErrorKind::Unavailable && last.is_some() => {
                    format!("{error}\n")
                }
                Err(error) => return Err(error.into()),
            };
            if last.as_ref() != Some(&text) {
                if show.output.stdout_tty {
                    write!(io::stdout(), "\x1b[2J\x1b[H").ok();
                }
                show.write(&text)?;
                last = Some(text);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                _ = interrupt.next() => return Ok(0),
            }
        }
    }
}
