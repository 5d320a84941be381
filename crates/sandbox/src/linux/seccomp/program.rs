//! A filter as a program for the kernel.
//!
//! When a filter is set, the kernel walks it once for every call there is, to know which of them it need never ask about again.
//! So the number of a call is searched for by halves: some eight steps for each, where a chain of comparisons takes hundreds,
//! and setting it took longer than starting a program.

use seccompiler::{BpfProgram, sock_filter};

use super::{Call, When};

// What the kernel's machine does, by its number.
pub(super) const LOAD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
pub(super) const JUMP: u16 = 0x05;
pub(super) const IF_EQUAL: u16 = 0x15;
pub(super) const IF_AT_LEAST: u16 = 0x35;
pub(super) const IF_ANY_BIT: u16 = 0x45;
pub(super) const RETURN: u16 = 0x06;

// What it answers; an error has its number in the lower half.
pub(super) const ALLOW: u32 = 0x7fff_0000;
pub(super) const ERROR: u32 = 0x0005_0000;
pub(super) const KILL: u32 = 0x8000_0000;

// Where it finds a call: its number, the processor it is for, its arguments with the lower half first.
pub(super) const NUMBER: u32 = 0;
pub(super) const PROCESSOR: u32 = 4;
pub(super) const ARGUMENTS: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;
const HALF_BYTES: u32 = 4;

/// The bit by which a call of the other form of this processor is told; it has the same calls under other numbers.
#[cfg(target_arch = "x86_64")]
const OTHER_FORM: Option<u32> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const OTHER_FORM: Option<u32> = None;

/// The number of this processor, if it is known.
pub(super) fn processor() -> Option<u32> {
    match std::env::consts::ARCH {
        "x86_64" => Some(0xc000_003e),
        "aarch64" => Some(0xc000_00b7),
        "riscv64" => Some(0xc000_00f3),
        _ => None,
    }
}

/// Makes the program. `calls` are in order, each of them once; all others are allowed.
pub(super) fn assemble(processor: u32, calls: &[Call]) -> BpfProgram {
    let mut parts: Vec<(u32, BpfProgram)> = vec![(0, answer(ALLOW))];
    for call in calls {
        let rule = rule(&call.when, ERROR | call.error);
        // What comes behind the call before it begins here, or is the same.
        match parts.last() {
            Some((start, _)) if *start == call.number => drop(parts.pop()),
            _ => {}
        }
        if parts.last().is_none_or(|(_, before)| *before != rule) {
            parts.push((call.number, rule));
        }
        parts.push((call.number + 1, answer(ALLOW)));
    }
    let mut program = vec![step(LOAD, PROCESSOR), branch(IF_EQUAL, processor, 1, 0)];
    program.extend(answer(KILL));
    program.push(step(LOAD, NUMBER));
    program.extend(OTHER_FORM.map(|bit| step(AND, !bit)));
    program.extend(search(&parts));
    program
}

/// Finds the part that a number is in: the last one that does not begin behind it.
fn search(parts: &[(u32, BpfProgram)]) -> BpfProgram {
    if let [(_, only)] = parts {
        return only.clone();
    }
    let (left, right) = parts.split_at(parts.len() / 2);
    let Some((start, _)) = right.first() else { return BpfProgram::new() };
    let (left, right) = (search(left), search(right));
    let mut program = match u8::try_from(left.len()) {
        Ok(over) => vec![branch(IF_AT_LEAST, *start, over, 0)],
        // A branch does not reach as far as a jump.
        Err(_) => {
            let over = u32::try_from(left.len()).unwrap_or(u32::MAX);
            vec![branch(IF_AT_LEAST, *start, 0, 1), step(JUMP, over)]
        }
    };
    program.extend(left);
    program.extend(right);
    program
}

/// What is done about one call.
fn rule(when: &When, refused: u32) -> BpfProgram {
    let low = |argument: u32| step(LOAD, ARGUMENTS + argument * ARGUMENT_BYTES);
    let high = |argument: u32| step(LOAD, ARGUMENTS + argument * ARGUMENT_BYTES + HALF_BYTES);
    match when {
        When::Always => answer(refused),
        When::AnyBit { argument, bits } => {
            let test = vec![low(*argument), branch(IF_ANY_BIT, *bits, 1, 0)];
            [test, answer(ALLOW), answer(refused)].concat()
        }
        When::LowIs { argument, values } => {
            let tests = to_second_answer(values);
            [vec![low(*argument)], tests, answer(ALLOW), answer(refused)].concat()
        }
        When::NoneOf { argument, values } => {
            let tests = to_second_answer(values);
            let over = u8::try_from(tests.len() + 1).unwrap_or(u8::MAX);
            let head = vec![high(*argument), branch(IF_EQUAL, 0, 0, over), low(*argument)];
            [head, tests, answer(refused), answer(ALLOW)].concat()
        }
    }
}

/// Comparisons with few values: who is one of them gets the second of the two answers behind.
fn to_second_answer(values: &[u32]) -> BpfProgram {
    let last = values.len();
    let over = |at: usize| u8::try_from(last - at).unwrap_or(u8::MAX);
    values.iter().enumerate().map(|(at, value)| branch(IF_EQUAL, *value, over(at), 0)).collect()
}

fn answer(what: u32) -> BpfProgram {
    vec![step(RETURN, what)]
}

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

fn branch(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}
