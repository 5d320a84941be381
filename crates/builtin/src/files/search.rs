//! `search`: lines that match a regular expression.

mod sink;

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use provost_redact::Redact;
use provost_tool::{EffectClass, FnTool, SpecError, tool_fn};
use provost_workspace::walk::{Flow, LeftOut, Pattern, walk};
use provost_workspace::{Error, Result, check_stopped};
use provost_workspace::{InnerPath, Workspace, open_in, shortened};
use rustix::fs::{FileType, OFlags, fstat};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use self::sink::Matches;
use crate::blocking;
use crate::files::list::here;
use crate::limits::{
    PATTERN_BYTES_MAX, PATTERN_COMPILED_BYTES_MAX, SEARCH_BYTES_MAX, SEARCH_CONTEXT_MAX,
    SEARCH_HEAP_BYTES_MAX, SEARCH_MATCHES_DEFAULT, SEARCH_MATCHES_MAX,
};

const DESCRIPTION: &str = "Searches the text files of the workspace for lines that match a regular expression. \
     Answers path:line: text. Leaves out binary files and what .gitignore names.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The regular expression, for one line at a time.
    pattern: String,
    /// File or directory to search in, relative to the workspace.
    #[serde(default = "here")]
    path: String,
    /// Only files that fit, such as `*.rs` or `src/**/*.ts`.
    #[serde(default)]
    glob: String,
    /// True if capital and small letters are the same.
    #[serde(default)]
    ignore_case: bool,
    /// Lines to show around each match.
    #[serde(default)]
    #[schemars(range(max = SEARCH_CONTEXT_MAX))]
    context: u64,
    /// Matches to show at most.
    #[serde(default = "matches_default")]
    #[schemars(range(min = 1, max = SEARCH_MATCHES_MAX))]
    limit: u64,
}

fn matches_default() -> u64 {
    SEARCH_MATCHES_DEFAULT
}

/// The tool `search`.
pub fn search(workspace: &Workspace) -> std::result::Result<FnTool, SpecError> {
    let workspace = workspace.clone();
    let tool = tool_fn("search", DESCRIPTION, move |cx, arguments: Arguments| {
        let workspace = workspace.clone();
        async move {
            let redact = cx.redactor().cloned();
            let found = blocking::run(move |stop| find(&workspace, &arguments, redact, stop));
            found.await
        }
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// What a search has at hand.
struct Search<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    matches: Matches,
    bytes_left: u64,
    stop: &'a CancellationToken,
}

fn find(
    workspace: &Workspace,
    arguments: &Arguments,
    redact: Option<Arc<dyn Redact>>,
    stop: &CancellationToken,
) -> Result<String> {
    let path = InnerPath::parse(&arguments.path)?;
    let mut search = Search::new(arguments, redact, stop)?;
    let glob = match arguments.glob.as_str() {
        "" => None,
        glob => Some(Pattern::parse(glob)?),
    };
    if !workspace.is_directory(&path)? {
        let opened = workspace.open_file(&path)?;
        let mut left_out = LeftOut::default();
        search.file(opened.file, &path, &mut left_out)?;
        return Ok(search.finish(&left_out));
    }
    let left_out = walk(workspace, &path, stop, |found, left_out| {
        if glob.as_ref().is_some_and(|glob| !glob.fits(found.below)) {
            return Ok(Flow::On);
        }
        let opened = open_in(found.directory, found.name, OFlags::RDONLY | OFlags::NONBLOCK);
        let is_file =
            |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        match opened {
            Ok(opened) if fstat(&opened).is_ok_and(is_file) => {
                search.file(File::from(opened), found.path, left_out)
            }
            _ => {
                left_out.add_unreadable();
                Ok(Flow::On)
            }
        }
    })?;
    Ok(search.finish(&left_out))
}

impl<'a> Search<'a> {
    fn new(
        arguments: &Arguments,
        redact: Option<Arc<dyn Redact>>,
        stop: &'a CancellationToken,
    ) -> Result<Self> {
        let pattern = &arguments.pattern;
        if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
            return Err(Error::Argument(format!(
                "the pattern must have 1 to {PATTERN_BYTES_MAX} bytes"
            )));
        }
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(arguments.ignore_case)
            .line_terminator(Some(b'\n'))
            .size_limit(PATTERN_COMPILED_BYTES_MAX)
            .dfa_size_limit(PATTERN_COMPILED_BYTES_MAX)
            .build(pattern)
            .map_err(|error| {
                let problem = shortened(&error.to_string());
                Error::Argument(format!("`{}` is no pattern: {problem}", shortened(pattern)))
            })?;
        let context = usize::try_from(arguments.context.min(SEARCH_CONTEXT_MAX)).unwrap_or(0);
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(SEARCH_HEAP_BYTES_MAX))
            .build();
        let matches = Matches::new(arguments.limit.clamp(1, SEARCH_MATCHES_MAX), redact);
        Ok(Self { matcher, searcher, matches, bytes_left: SEARCH_BYTES_MAX, stop })
    }

    /// Searches one file.
    fn file(&mut self, file: File, path: &InnerPath, left_out: &mut LeftOut) -> Result<Flow> {
        self.matches.begin(path);
        let mut reader = Metered { file, left: &mut self.bytes_left, stop: self.stop };
        let searched =
            self.searcher.search_reader(&self.matcher, &mut reader, self.matches.in_file());
        check_stopped(self.stop)?;
        if searched.is_err() {
            // A line that is longer than memory allows, or a disk that fails: the other files still count.
            left_out.add_unreadable();
        }
        let is_enough = self.matches.is_full() || self.bytes_left == 0;
        Ok(if is_enough { Flow::Enough } else { Flow::On })
    }

    fn finish(self, left_out: &LeftOut) -> String {
        let mut notes = left_out.notes();
        if self.bytes_left == 0 {
            notes.push(format!("[stopped after {SEARCH_BYTES_MAX} bytes: search in less]"));
        }
        self.matches.finish(&notes)
    }
}

/// A file of which only so much is read, and nothing once nobody waits.
struct Metered<'a> {
    file: File,
    left: &'a mut u64,
    stop: &'a CancellationToken,
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("stopped"));
        }
        let length =
            usize::try_from(*self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = self.file.read(&mut buffer[..length])?;
        *self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
