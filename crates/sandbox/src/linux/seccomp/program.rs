//! Assembles a filter program.
//!
//! When a filter is installed, the kernel runs it once for every system call to find those that it always allows. The
//! program therefore finds a system call number by binary search, with about eight steps per call. A linear chain of
//! comparisons takes hundreds of steps, and installing it took longer than starting a program.

use seccompiler::{BpfProgram, sock_filter};

use super::{ArgCondition, SyscallRule};

// Opcodes of the BPF machine.
pub(super) const LOAD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
pub(super) const JUMP: u16 = 0x05;
pub(super) const IF_EQUAL: u16 = 0x15;
pub(super) const IF_AT_LEAST: u16 = 0x35;
pub(super) const IF_ANY_BIT: u16 = 0x45;
pub(super) const RETURN: u16 = 0x06;

// Results of a filter. The lower half of ERROR contains the error number.
pub(super) const ALLOW: u32 = 0x7fff_0000;
pub(super) const ERROR: u32 = 0x0005_0000;
pub(super) const KILL: u32 = 0x8000_0000;

// Offsets in the input of a filter: call number, architecture, and arguments with the lower half first.
pub(super) const NUMBER: u32 = 0;
pub(super) const PROCESSOR: u32 = 4;
pub(super) const ARGUMENTS: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;
const HALF_BYTES: u32 = 4;

/// Bit of the x32 calls, which are the same calls with other numbers.
#[cfg(target_arch = "x86_64")]
const X32_BIT: Option<u32> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const X32_BIT: Option<u32> = None;

/// Returns the audit number of this architecture. `None` if it is not supported.
pub(super) fn processor() -> Option<u32> {
    match std::env::consts::ARCH {
        "x86_64" => Some(0xc000_003e),
        "aarch64" => Some(0xc000_00b7),
        "riscv64" => Some(0xc000_00f3),
        _ => None,
    }
}

/// Assembles the program. `calls` must be sorted by number without duplicates. All other calls are allowed.
pub(super) fn assemble(processor: u32, calls: &[SyscallRule]) -> BpfProgram {
    let mut parts: Vec<(u32, BpfProgram)> = vec![(0, result(ALLOW))];
    for call in calls {
        let rule = rule(&call.condition, ERROR | call.error);
        // The range after the previous call either begins at this number or has the same result.
        match parts.last() {
            Some((start, _)) if *start == call.number => drop(parts.pop()),
            _ => {}
        }
        if parts.last().is_none_or(|(_, before)| *before != rule) {
            parts.push((call.number, rule));
        }
        parts.push((call.number + 1, result(ALLOW)));
    }
    let mut program = vec![step(LOAD, PROCESSOR), branch(IF_EQUAL, processor, 1, 0)];
    program.extend(result(KILL));
    program.push(step(LOAD, NUMBER));
    program.extend(X32_BIT.map(|bit| step(AND, !bit)));
    program.extend(search(&parts));
    program
}

/// Emits a binary search for the last range that does not begin after the number.
fn search(parts: &[(u32, BpfProgram)]) -> BpfProgram {
    if let [(_, range)] = parts {
        return range.clone();
    }
    let (left, right) = parts.split_at(parts.len() / 2);
    let Some((start, _)) = right.first() else { return BpfProgram::new() };
    let (left, right) = (search(left), search(right));
    let mut program = match u8::try_from(left.len()) {
        Ok(offset) => vec![branch(IF_AT_LEAST, *start, offset, 0)],
        // The offset of a conditional branch is limited to one byte.
        Err(_) => {
            let offset = u32::try_from(left.len()).unwrap_or(u32::MAX);
            vec![branch(IF_AT_LEAST, *start, 0, 1), step(JUMP, offset)]
        }
    };
    program.extend(left);
    program.extend(right);
    program
}

/// Emits the instructions for one call.
fn rule(condition: &ArgCondition, refused: u32) -> BpfProgram {
    let low = |argument: u32| step(LOAD, ARGUMENTS + argument * ARGUMENT_BYTES);
    let high = |argument: u32| step(LOAD, ARGUMENTS + argument * ARGUMENT_BYTES + HALF_BYTES);
    match condition {
        ArgCondition::Always => result(refused),
        ArgCondition::AnyBit { argument, bits } => {
            let test = vec![low(*argument), branch(IF_ANY_BIT, *bits, 1, 0)];
            [test, result(ALLOW), result(refused)].concat()
        }
        ArgCondition::LowIs { argument, values } => {
            let tests = jump_to_second(values);
            [vec![low(*argument)], tests, result(ALLOW), result(refused)].concat()
        }
        ArgCondition::NoneOf { argument, values } => {
            let tests = jump_to_second(values);
            let offset = u8::try_from(tests.len() + 1).unwrap_or(u8::MAX);
            let head = vec![high(*argument), branch(IF_EQUAL, 0, 0, offset), low(*argument)];
            [head, tests, result(refused), result(ALLOW)].concat()
        }
    }
}

/// Emits comparisons with few values. A match jumps to the second of the two results that follow.
fn jump_to_second(values: &[u32]) -> BpfProgram {
    let last = values.len();
    let offset = |at: usize| u8::try_from(last - at).unwrap_or(u8::MAX);
    values.iter().enumerate().map(|(at, value)| branch(IF_EQUAL, *value, offset(at), 0)).collect()
}

/// Emits the return of a value.
fn result(value: u32) -> BpfProgram {
    vec![step(RETURN, value)]
}

/// Returns an instruction without jumps.
fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Returns an instruction that jumps forward by `jt` or `jf` instructions.
fn branch(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}
