//! Tests of cron expressions and clock changes.

use super::*;

fn fires(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let (cron, zone) = (cron.parse::<Cron>().unwrap(), TimeZone::get(zone).unwrap());
    let mut moment: Timestamp = from.parse().unwrap();
    let mut times = Vec::new();
    for _ in 0..count {
        moment = cron.next_after(moment, &zone).unwrap();
        times.push(moment.to_string());
    }
    times
}

#[test]
fn expressions_name_times() {
    for (cron, from, expected) in [
        ("*/15 * * * *", "2024-05-01T10:07:00Z", ["2024-05-01T10:15:00Z", "2024-05-01T10:30:00Z"]),
        (
            "30 9 * * mon-fri",
            "2024-05-03T09:30:00Z",
            ["2024-05-06T09:30:00Z", "2024-05-07T09:30:00Z"],
        ),
        ("0 0 31 * *", "2024-04-01T00:00:00Z", ["2024-05-31T00:00:00Z", "2024-07-31T00:00:00Z"]),
        ("0 0 29 2 *", "2024-03-01T00:00:00Z", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        (
            "5,10 8-9 1 Jan *",
            "2024-01-01T08:05:00Z",
            ["2024-01-01T08:10:00Z", "2024-01-01T09:05:00Z"],
        ),
        ("0 12 13 * fri", "2024-09-07T00:00:00Z", ["2024-09-13T12:00:00Z", "2024-09-20T12:00:00Z"]),
        ("0 6 * * 7", "2024-05-01T00:00:00Z", ["2024-05-05T06:00:00Z", "2024-05-12T06:00:00Z"]),
        ("@daily", "2024-05-01T00:00:00Z", ["2024-05-02T00:00:00Z", "2024-05-03T00:00:00Z"]),
        ("10/20 * * * *", "2024-05-01T00:00:30Z", ["2024-05-01T00:10:00Z", "2024-05-01T00:30:00Z"]),
    ] {
        assert_eq!(fires(cron, "UTC", from, 2), expected, "{cron}");
    }
}

#[test]
fn what_is_no_expression_is_refused() {
    for cron in [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "a * * * *",
        "1- * * * *",
        "-1 * * * *",
        "0 0 31 2 *",
        "@often",
        "1,,2 * * * *",
        "+5 * * * *",
    ] {
        let error = cron.parse::<Cron>().unwrap_err();
        assert_eq!(error.code(), "invalid", "{cron}");
        assert!(error.to_string().contains("five fields"), "{error}");
    }
}

#[test]
fn g54_a_time_that_exists_twice_fires_once() {
    // Clocks in Berlin went back from 3 to 2 on 2024-10-27 at 01:00 UTC.
    let daily = fires("30 2 * * *", "Europe/Berlin", "2024-10-26T12:00:00Z", 2);
    assert_eq!(daily, ["2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"]);
    let often = fires("*/30 * * * *", "Europe/Berlin", "2024-10-26T23:45:00Z", 4);
    let expected = [
        "2024-10-27T00:00:00Z",
        "2024-10-27T00:30:00Z",
        // The second hour from 2 to 3 is skipped.
        "2024-10-27T02:00:00Z",
        "2024-10-27T02:30:00Z",
    ];
    assert_eq!(often, expected);
}

#[test]
fn g54_a_time_that_does_not_exist_fires_once_after_the_gap() {
    // Clocks in New York went forward from 2 to 3 on 2024-03-10 at 07:00 UTC.
    let daily = fires("30 2 * * *", "America/New_York", "2024-03-09T12:00:00Z", 2);
    assert_eq!(daily, ["2024-03-10T07:00:00Z", "2024-03-11T06:30:00Z"]);
    let often = fires("*/30 * * * *", "America/New_York", "2024-03-10T06:00:00Z", 4);
    let expected = [
        "2024-03-10T06:30:00Z",
        "2024-03-10T07:00:00Z",
        "2024-03-10T07:30:00Z",
        "2024-03-10T08:00:00Z",
    ];
    assert_eq!(
        often, expected,
        "what the gap swallowed comes together with the first time after it"
    );
}

#[test]
fn g54_no_time_comes_twice_or_goes_back_over_years() {
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]
    {
        for cron in ["*/20 * * * *", "30 2 * * *", "0 0 * * *", "15 1,2,3 * * sun"] {
            let (cron, zone) = (cron.parse::<Cron>().unwrap(), TimeZone::get(zone).unwrap());
            let mut last: Timestamp = "2011-06-01T00:00:00Z".parse().unwrap();
            for _ in 0..4000 {
                let next = cron.next_after(last, &zone).unwrap();
                assert!(next > last);
                last = next;
            }
        }
    }
}
