//! The filter decides as one chain of comparisons does, which somebody else's library makes of the same list.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::program::{
    ALLOW, AND, ARGUMENTS, ERROR, IF_ANY_BIT, IF_AT_LEAST, IF_EQUAL, JUMP, KILL, LOAD, NUMBER,
    PROCESSOR, RETURN, processor,
};
use super::{ArgCondition, SharedWithHost, SocketPolicy, SyscallRule, filter, rules};

/// Higher than any number of a call.
const NUMBERS: u32 = 1024;
#[cfg(target_arch = "x86_64")]
const FORMS: [u32; 4] = [0, 0x4000_0000, 0x8000_0000, 0xc000_0000];
#[cfg(not(target_arch = "x86_64"))]
const FORMS: [u32; 1] = [0];

/// What the kernel knows of a call.
#[derive(Debug, Clone, Copy)]
struct Asked {
    number: u32,
    processor: u32,
    arguments: [u64; 6],
}

/// Answers as the kernel's machine does, and says how many steps that took.
fn answer(program: &BpfProgram, asked: &Asked) -> (u32, usize) {
    const IF_ABOVE: u16 = 0x25;
    let load = |at: u32| match at {
        NUMBER => asked.number,
        PROCESSOR => asked.processor,
        at => {
            let half = (at - ARGUMENTS) / 4;
            let whole = asked.arguments[half as usize / 2];
            u32::try_from(if half.is_multiple_of(2) { whole & 0xffff_ffff } else { whole >> 32 })
                .unwrap()
        }
    };
    let (mut at, mut value, mut steps) = (0_usize, 0_u32, 0);
    loop {
        let step = &program[at];
        (at, steps) = (at + 1, steps + 1);
        let is_so = match step.code {
            LOAD => {
                value = load(step.k);
                continue;
            }
            AND => {
                value &= step.k;
                continue;
            }
            JUMP => {
                at += step.k as usize;
                continue;
            }
            RETURN => return (step.k, steps),
            IF_EQUAL => value == step.k,
            IF_AT_LEAST => value >= step.k,
            IF_ABOVE => value > step.k,
            IF_ANY_BIT => value & step.k != 0,
            code => panic!("the machine knows no {code:#x}"),
        };
        at += usize::from(if is_so { step.jt } else { step.jf });
    }
}

/// The same list as one chain for each error.
fn chains(list: &[SyscallRule]) -> Vec<BpfProgram> {
    let errors: std::collections::BTreeSet<u32> = list.iter().map(|call| call.error).collect();
    let chain = |error: u32| {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        for call in list.iter().filter(|call| call.error == error) {
            for form in FORMS.iter().take(2) {
                rules.insert(i64::from(call.number | form), rules_of(&call.condition));
            }
        }
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let action = SeccompAction::Errno(error);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).unwrap();
        BpfProgram::try_from(filter).unwrap()
    };
    errors.into_iter().map(chain).collect()
}

fn rules_of(condition: &ArgCondition) -> Vec<SeccompRule> {
    let rule = |conditions: Vec<(u32, SeccompCmpOp, u64)>| {
        let made = conditions.into_iter().map(|(argument, operation, value)| {
            let argument = u8::try_from(argument).unwrap();
            SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operation, value).unwrap()
        });
        SeccompRule::new(made.collect()).unwrap()
    };
    match condition {
        ArgCondition::Always => Vec::new(),
        ArgCondition::AnyBit { argument, bits } => {
            let bits = (0..32).map(|bit| 1_u64 << bit).filter(|bit| u64::from(*bits) & bit != 0);
            bits.map(|bit| rule(vec![(*argument, SeccompCmpOp::MaskedEq(bit), bit)])).collect()
        }
        ArgCondition::LowIs { argument, values } => {
            let low = SeccompCmpOp::MaskedEq(u64::from(u32::MAX));
            let one = |value: &u32| rule(vec![(*argument, low.clone(), u64::from(*value))]);
            values.iter().map(one).collect()
        }
        ArgCondition::NoneOf { argument, values } => {
            let one = |value: &u32| (*argument, SeccompCmpOp::Ne, u64::from(*value));
            vec![rule(values.iter().map(one).collect())]
        }
    }
}

/// What is worth asking with: each value and bit of the list, those beside it, and all of them with something in the upper half.
fn values(list: &[SyscallRule]) -> Vec<u64> {
    let named = list.iter().flat_map(|call| match &call.condition {
        ArgCondition::Always => Vec::new(),
        ArgCondition::AnyBit { bits, .. } => {
            (0..32).map(|bit| 1 << bit).chain([*bits, !*bits]).collect()
        }
        ArgCondition::LowIs { values, .. } | ArgCondition::NoneOf { values, .. } => values.clone(),
    });
    let near = named.flat_map(|value| [value, value.wrapping_add(1), value.wrapping_sub(1)]);
    let mut low: Vec<u64> = near.chain([0, 17, u32::MAX]).map(u64::from).collect();
    low.sort_unstable();
    low.dedup();
    let high = low.iter().map(|value| value | 1 << 32).chain([u64::MAX, 1 << 63]);
    low.iter().copied().chain(high).collect()
}

fn every() -> impl Iterator<Item = (SocketPolicy, SharedWithHost)> {
    let sockets = [SocketPolicy::OwnNetwork, SocketPolicy::OwnInternet, SocketPolicy::None];
    let shared = (0..8).map(|bits| SharedWithHost {
        queues: bits & 1 != 0,
        files: bits & 2 != 0,
        root: bits & 4 != 0,
    });
    let shared: Vec<_> = shared.collect();
    sockets
        .into_iter()
        .flat_map(move |sockets| shared.clone().into_iter().map(move |shared| (sockets, shared)))
}

#[test]
fn it_decides_as_a_chain_of_comparisons_does() {
    for (sockets, shared) in every() {
        let list = rules(sockets, shared);
        let (program, chains) = (filter(sockets, shared).unwrap(), chains(&list));
        let values = values(&list);
        let ask = |asked: Asked| {
            let said = chains.iter().map(|chain| answer(chain, &asked).0);
            // The kernel keeps to the strictest: no chain but one refuses the same call.
            let strictest = said.min_by_key(|said| said.cast_signed()).unwrap();
            assert_eq!(answer(&program, &asked).0, strictest, "{sockets:?} {shared:?} {asked:?}");
        };
        for (number, form) in (0..NUMBERS).flat_map(|number| FORMS.map(|form| (number, form))) {
            let number = number | form;
            let listed = list.iter().find(|call| call.number == number & 0x3fff_ffff);
            let own = processor().unwrap();
            for processor in [own, own ^ 0x4000_0000, 0] {
                ask(Asked { number, processor, arguments: [0; 6] });
            }
            if listed.is_some_and(|call| call.condition != ArgCondition::Always) {
                for (at, value) in
                    (0..6).flat_map(|at| values.iter().map(move |value| (at, *value)))
                {
                    let mut arguments = [0; 6];
                    arguments[at] = value;
                    ask(Asked { number, processor: own, arguments });
                    let mut arguments = [u64::MAX; 6];
                    arguments[at] = value;
                    ask(Asked { number, processor: own, arguments });
                }
            }
        }
        for number in [u32::MAX, 0x7fff_ffff, 0x3fff_ffff] {
            ask(Asked { number, processor: processor().unwrap(), arguments: [0; 6] });
        }
    }
}

#[test]
fn it_says_what_the_list_says() {
    let program = filter(SocketPolicy::None, SharedWithHost::default()).unwrap();
    let says = |number: i64, first: u64| {
        let mut arguments = [0; 6];
        arguments[0] = first;
        let number = u32::try_from(number).unwrap();
        answer(&program, &Asked { number, processor: processor().unwrap(), arguments }).0
    };
    assert_eq!(says(libc::SYS_read, 0), ALLOW);
    assert_eq!(says(libc::SYS_mount, 0), ERROR | libc::EPERM.cast_unsigned());
    assert_eq!(says(libc::SYS_clone3, 0), ERROR | libc::ENOSYS.cast_unsigned());
    assert_eq!(says(libc::SYS_clone, 17), ALLOW);
    let flags = u64::from((libc::CLONE_NEWUSER | 17).cast_unsigned());
    assert_eq!(says(libc::SYS_clone, flags), ERROR | libc::EPERM.cast_unsigned());
    assert_eq!(says(libc::SYS_socket, 1), ERROR | libc::EPERM.cast_unsigned());
    let foreign = Asked { number: 0, processor: 0x4000_0003, arguments: [0; 6] };
    assert_eq!(answer(&program, &foreign).0, KILL);
}

#[test]
fn no_number_takes_long_to_be_found() {
    let shared = SharedWithHost { queues: true, files: true, root: true };
    let program = filter(SocketPolicy::OwnNetwork, shared).unwrap();
    let own = processor().unwrap();
    let steps = (0..NUMBERS)
        .map(|number| answer(&program, &Asked { number, processor: own, arguments: [0; 6] }).1);
    let most = steps.max().unwrap();
    assert!(most <= 24, "{most} steps of {}", program.len());
}
