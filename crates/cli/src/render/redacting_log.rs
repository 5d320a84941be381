//! The log on standard error, without the secrets that this process knows.

use std::io::{self, Write};

use provost_redact::Redactor;
use tracing_subscriber::fmt::MakeWriter;

/// Log writer that redacts known secrets. Each log line has its own buffer.
pub(crate) struct RedactingStderr(pub(crate) Redactor);

/// Buffer of one log line. The line is redacted as a whole, so that a secret in two writes is found.
pub(crate) struct LineBuffer {
    redactor: Redactor,
    bytes: Vec<u8>,
}

impl<'a> MakeWriter<'a> for RedactingStderr {
    type Writer = LineBuffer;

    fn make_writer(&'a self) -> LineBuffer {
        LineBuffer { redactor: self.0.clone(), bytes: Vec::new() }
    }
}

impl Write for LineBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LineBuffer {
    fn drop(&mut self) {
        // An error of the log itself cannot be reported.
        io::stderr().write_all(&self.redactor.redact_bytes(&self.bytes)).ok();
    }
}

#[cfg(test)]
mod tests {
    use provost_core::Secret;

    use super::*;

    #[test]
    fn a_line_is_searched_as_a_whole() {
        let redactor = Redactor::new();
        redactor.register(&Secret::from("swordfish")).unwrap();
        let mut line = RedactingStderr(redactor).make_writer();
        line.write_all(b"it is sword").unwrap();
        line.write_all(b"fish\n").unwrap();
        assert_eq!(line.redactor.redact_bytes(&line.bytes), &b"it is [REDACTED]\n"[..]);
        line.bytes.clear();
    }
}
