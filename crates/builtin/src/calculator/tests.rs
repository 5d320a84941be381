//! Tables of expressions.

use super::evaluate;

#[test]
fn decimals_and_fractions_are_exact() {
    for (expression, value) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("2 ^ 3 ^ 2", "512"),
        ("2 ** 10", "1024"),
        ("-2 ^ 2", "-4"),
        ("2 ^ -1", "0.5"),
        ("10 - 4 - 3", "3"),
        ("8 / 4 / 2", "1"),
        ("--3", "3"),
        ("6×7÷2", "21"),
        ("0.1 + 0.2", "0.3"),
        ("0.1 + 0.2 - 0.3", "0"),
        (".5*4", "2"),
        ("0 * -1", "0"),
        ("2^100", "1267650600228229401496703205376"),
        ("1e3 + 1E-3", "1000.001"),
        ("1_000_000 / 8", "125000"),
        ("7 % 3", "1"),
        ("-7 % 3", "-1"),
        ("5.5 % 2", "1.5"),
        ("round(19.99 * 1.19, 2)", "23.79"),
        ("round(2.5) + round(-2.5)", "0"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("min(3, 1, 2) + max(3; 1; 2)", "4"),
        ("abs(-3.25)", "3.25"),
        ("sqrt(2.25)", "1.5"),
        ("9 ^ 0.5", "3"),
        ("4 ^ 1.5", "8"),
        ("(1/3) * 3", "1"),
        ("1 / 2^20", "0.00000095367431640625"),
        ("(0-1)^1000000000001", "-1"),
        ("1.1^2", "1.21"),
        ("12345678901234567890 * 98765432109876543210", "1219326311370217952237463801111263526900"),
    ] {
        assert_eq!(evaluate(expression).as_deref(), Ok(value), "{expression}");
    }
}

#[test]
fn what_is_rounded_says_so() {
    for (expression, value) in [
        ("1 / 3", "≈ 0.333333333333333333333333333333 (exactly 1/3)"),
        ("200 / 3", "≈ 66.6666666666666666666666666667 (exactly 200/3)"),
        ("-2 / 3", "≈ -0.666666666666666666666666666667 (exactly -2/3)"),
        ("sqrt(2)", "≈ 1.4142135623731"),
        ("pi", "≈ 3.14159265358979"),
        ("2 * π", "≈ 6.28318530717959"),
        ("exp(1) - e", "≈ 0"),
        ("sin(0)", "≈ 0"),
        ("log(1000)", "≈ 3"),
        ("1.0000001 ^ 10000000", "≈ 2.71828169254497"),
        ("10^300 * pi", "≈ 3.14159265358979e300"),
        ("1 / 3 / 10^20", "≈ 3.33333333333333333333333333333e-21"),
    ] {
        assert_eq!(evaluate(expression).as_deref(), Ok(value), "{expression}");
    }
}

#[test]
fn wrong_expressions_are_refused_with_a_reason() {
    for (expression, reason) in [
        ("", "ends where a number"),
        ("1 +", "ends where a number"),
        ("1 / 0", "division by zero"),
        ("1 / (2 - 2)", "division by zero"),
        ("5 % 0", "division by zero"),
        ("0 ^ -1", "division by zero"),
        ("(1", "closing parenthesis"),
        ("1)", "unexpected `)`"),
        ("1.2.3", "not a number"),
        (".", "not a number"),
        ("2 x", "unexpected `x`"),
        ("rm -rf", "`rm` is neither"),
        ("foo(1)", "no function `foo`"),
        ("sqrt(1, 2)", "does not take 2"),
        ("round(1, -1)", "places"),
        ("round(1, 99999)", "places"),
        ("9^9^9^9", "too large"),
        ("(0-8)^0.5", "not a number"),
        ("sqrt(-1)", "negative"),
        ("ln(0)", "positive"),
        ("1e99999999999999999999", "too many digits"),
        ("1e5000", "too many digits"),
        ("exp(1000)", "too large"),
        ("1 $ 2", "unexpected `$`"),
        ("é", "number is expected"),
    ] {
        let error = evaluate(expression).unwrap_err();
        assert!(error.contains(reason), "{expression}: {error}");
    }
}

#[test]
fn depth_length_and_size_are_bounded() {
    let deep = format!("{}1{}", "(".repeat(400), ")".repeat(400));
    assert!(evaluate(&deep).unwrap_err().contains("nested"));
    assert!(evaluate(&"-".repeat(900)).unwrap_err().contains("nested"));
    assert!(evaluate(&format!("1{}", "^1".repeat(400))).unwrap_err().contains("nested"));
    assert!(evaluate(&"abs(".repeat(200)).unwrap_err().contains("nested"));
    assert!(evaluate(&"1+".repeat(600)).unwrap_err().contains("longer"));
    assert_eq!(evaluate("2^9999").unwrap().len(), 3010);
    assert!(evaluate("2^10000 * 2^10000").unwrap_err().contains("too large"));
    // Many fractions with large denominators stay bounded, too.
    let sum = (0..120).map(|n| format!("1/{}", 10_007 + n * 2)).collect::<Vec<_>>().join("+");
    assert!(evaluate(&sum).unwrap().starts_with("≈ 0.0"), "{:?}", evaluate(&sum));
}

proptest::proptest! {
    #[test]
    fn no_expression_panics(expression in "[-+*/%^(). 0-9episqrtmaxound,]{0,60}") {
        if let Ok(text) = evaluate(&expression) {
            proptest::prop_assert!(text.len() < 4_100, "{text}");
        }
    }

    #[test]
    fn sums_of_decimals_are_those_of_whole_numbers(a in -1_000_000i64..1_000_000, b in -1_000_000i64..1_000_000) {
        let decimal = |n: i64| format!("({}{}.{:03})", if n < 0 { "-" } else { "" }, n.abs() / 1000, n.abs() % 1000);
        let sum = evaluate(&format!("({} + {}) * 1000", decimal(a), decimal(b)));
        proptest::prop_assert_eq!(sum, Ok((a + b).to_string()));
    }
}
