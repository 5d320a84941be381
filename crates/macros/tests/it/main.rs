//! Wrong uses of `#[tool]` do not compile, and the compiler says what to do instead.
//!
//! What a right use does at run time is tested in `provost-tool`, against the real guard: this crate stays free of it, so that
//! compiling these cases costs next to nothing.

#[test]
fn wrong_uses_are_explained() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
