//! Metric families from values that other components count.

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use provost_engine::{LATENCY_BOUNDS, LatencyHistogram};

/// A value with its labels.
pub(super) struct Sample {
    labels: Vec<LabelPair>,
    value: f64,
}

/// Creates a value with its labels.
pub(super) fn sample(labels: &[(&str, &str)], value: f64) -> Sample {
    let pair = |(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    };
    Sample { labels: labels.iter().map(pair).collect(), value }
}

/// Creates a gauge family.
pub(super) fn gauge(name: &str, help: &str, samples: Vec<Sample>) -> MetricFamily {
    let metric = |sample: Sample| {
        let mut gauge = Gauge::default();
        gauge.set_value(sample.value);
        let mut metric = Metric::from_label(sample.labels);
        metric.set_gauge(gauge);
        metric
    };
    family(name, help, MetricType::GAUGE, samples.into_iter().map(metric).collect())
}

/// Creates a counter family.
pub(super) fn counter(name: &str, help: &str, samples: Vec<Sample>) -> MetricFamily {
    let metric = |sample: Sample| {
        let mut counter = Counter::default();
        counter.set_value(sample.value);
        let mut metric = Metric::from_label(sample.labels);
        metric.set_counter(counter);
        metric
    };
    family(name, help, MetricType::COUNTER, samples.into_iter().map(metric).collect())
}

/// Creates a histogram family with the bucket bounds of the engine.
pub(super) fn histogram(name: &str, help: &str, latencies: &LatencyHistogram) -> MetricFamily {
    let mut cumulative = 0;
    let bucket = |(bound, count): (&f64, &u64)| {
        cumulative += count;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(cumulative);
        bucket
    };
    let buckets = LATENCY_BOUNDS.iter().zip(&latencies.counts).map(bucket).collect();
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets);
    histogram.set_sample_count(latencies.counts.iter().sum());
    histogram.set_sample_sum(latencies.seconds);
    let mut metric = Metric::from_label(Vec::new());
    metric.set_histogram(histogram);
    family(name, help, MetricType::HISTOGRAM, vec![metric])
}

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}
