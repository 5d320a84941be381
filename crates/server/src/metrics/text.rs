//! The text format of Prometheus.

use std::fmt::Write;

/// What sort of numbers a family holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The text as it grows: families one after the other, each with its samples.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
    family: &'static str,
}

impl Exposition {
    /// Begins a family. Samples that follow belong to it.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.family = name;
        self.line(format_args!("# HELP {name} {}", escaped(help, false)));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// One number with its labels.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.write("", labels, value);
    }

    /// A family of one number without labels.
    pub(super) fn one(&mut self, name: &'static str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    /// A histogram of `counts`, one for each bound and one for what is beyond.
    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        let mut below = 0;
        let ends = bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (end, count) in ends.zip(counts) {
            below += count;
            self.write("_bucket", &[labels, &[("le", &end)]].concat(), below as f64);
        }
        self.write("_sum", labels, sum);
        self.write("_count", labels, below as f64);
    }

    /// The whole text.
    pub(super) fn finish(self) -> String {
        self.text
    }

    fn write(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)))
            .collect();
        let name = self.family;
        if labels.is_empty() {
            self.line(format_args!("{name}{suffix} {value}"));
        } else {
            self.line(format_args!("{name}{suffix}{{{}}} {value}", labels.join(",")));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        writeln!(self.text, "{line}").unwrap_or_default();
    }
}

fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_help_type_and_labels() {
        let mut out = Exposition::default();
        out.one("a_total", Kind::Counter, "All \\ of\nit.", 3.0);
        out.family("b", Kind::Gauge, "B.");
        out.sample(&[("x", "q\"\\\n"), ("y", "1")], 0.5);
        out.family("c_seconds", Kind::Histogram, "C.");
        out.histogram(&[("op", "o")], &[0.1, 1.0], &[2, 0, 1], 7.25);
        let wanted = "# HELP a_total All \\\\ of\\nit.\n# TYPE a_total counter\na_total 3\n\
            # HELP b B.\n# TYPE b gauge\nb{x=\"q\\\"\\\\\\n\",y=\"1\"} 0.5\n\
            # HELP c_seconds C.\n# TYPE c_seconds histogram\n\
            c_seconds_bucket{op=\"o\",le=\"0.1\"} 2\nc_seconds_bucket{op=\"o\",le=\"1\"} 2\n\
            c_seconds_bucket{op=\"o\",le=\"+Inf\"} 3\nc_seconds_sum{op=\"o\"} 7.25\nc_seconds_count{op=\"o\"} 3\n";
        assert_eq!(out.finish(), wanted);
    }
}
