//! Computations, written twice: for a module and in Rust. A module traps if its result differs.

/// Numbers of the sieve, and bytes of the hash.
const SIZE: usize = 1 << 20;
const PRIME_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// One computation.
pub(super) struct Workload {
    pub(super) name: &'static str,
    /// Repetitions in one call.
    pub(super) rounds: u32,
    pub(super) native: fn(u32) -> u64,
    /// Returns the body of a module that repeats the computation and checks its result.
    pub(super) module: fn(u32, u64) -> String,
}

/// A loop of four instructions, and a loop of about forty.
pub(super) const WORKLOADS: [Workload; 2] = [
    Workload { name: "sieve", rounds: 20, native: sieve, module: sieve_module },
    Workload { name: "hash", rounds: 400, native: hash, module: hash_module },
];

/// Stores over a megabyte, and a chain of dependent multiplications.
fn sieve(rounds: u32) -> u64 {
    let mut marks = vec![0u8; SIZE];
    let mut sum: u64 = 0;
    for _ in 0..rounds {
        marks.fill(0);
        let mut number = 2;
        while number < SIZE {
            if marks[number] == 0 {
                sum = (sum ^ number as u64).wrapping_mul(FNV_PRIME);
                let mut multiple = number * 2;
                while multiple < SIZE {
                    marks[multiple] = 1;
                    multiple += number;
                }
            }
            number += 1;
        }
    }
    sum
}

/// The loops test at their end, as compilers generate them. `clang -O2` generates the same inner loop.
fn sieve_module(rounds: u32, sum: u64) -> String {
    format!(
        r"(local $round i32) (local $n i32) (local $m i32) (local $sum i64)
          (drop (memory.grow (i32.const 17)))
          (loop $rounds
            (memory.fill (i32.const 65536) (i32.const 0) (i32.const {SIZE}))
            (local.set $n (i32.const 2))
            (loop $numbers
              (if (i32.eqz (i32.load8_u offset=65536 (local.get $n))) (then
                (local.set $sum (i64.mul (i64.xor (local.get $sum) (i64.extend_i32_u (local.get $n))) (i64.const {FNV_PRIME})))
                (if (i32.lt_u (local.tee $m (i32.shl (local.get $n) (i32.const 1))) (i32.const {SIZE})) (then
                  (loop $multiples
                    (i32.store8 offset=65536 (local.get $m) (i32.const 1))
                    (br_if $multiples (i32.lt_u (local.tee $m (i32.add (local.get $m) (local.get $n))) (i32.const {SIZE}))))))))
              (br_if $numbers (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const {SIZE}))))
            (br_if $rounds (i32.lt_u (local.tee $round (i32.add (local.get $round) (i32.const 1))) (i32.const {rounds}))))
          (if (i64.ne (local.get $sum) (i64.const {sum})) (then unreachable))"
    )
}

/// Four lanes over a megabyte, as in xxHash: each reads eight bytes, multiplies, adds, rotates and multiplies.
fn hash(rounds: u32) -> u64 {
    let bytes: Vec<u8> =
        (0..SIZE / 8).flat_map(|at| (at as u64).wrapping_mul(FNV_PRIME).to_le_bytes()).collect();
    let mut lanes: [u64; 4] = [1, 2, 3, 4];
    for _ in 0..rounds {
        for stripe in bytes.chunks_exact(32) {
            for (lane, word) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
                let word = word.try_into().map_or(0, u64::from_le_bytes);
                *lane = lane
                    .wrapping_add(word.wrapping_mul(PRIME_2))
                    .rotate_left(31)
                    .wrapping_mul(PRIME_1);
            }
        }
    }
    lanes.into_iter().fold(0, |sum, lane| (sum ^ lane).wrapping_mul(FNV_PRIME))
}

fn hash_module(rounds: u32, sum: u64) -> String {
    let lanes: [(&str, u32); 4] = [("$a", 0), ("$b", 8), ("$c", 16), ("$d", 24)];
    let [locals, starts, mixes, sums] = [
        |(lane, _): (&str, u32)| format!("(local {lane} i64) "),
        |(lane, offset): (&str, u32)| format!("(local.set {lane} (i64.const {})) ", offset / 8 + 1),
        |(lane, offset): (&str, u32)| format!(
            "(local.set {lane} (i64.mul (i64.rotl (i64.add (local.get {lane}) (i64.mul (i64.load offset={} (local.get $at)) (i64.const {PRIME_2}))) (i64.const 31)) (i64.const {PRIME_1}))) ",
            65536 + offset
        ),
        |(lane, _): (&str, u32)| format!("(local.set $sum (i64.mul (i64.xor (local.get $sum) (local.get {lane})) (i64.const {FNV_PRIME}))) "),
    ]
    .map(|part| lanes.map(part).concat());
    format!(
        r"(local $round i32) (local $at i32) (local $sum i64) {locals}
          (drop (memory.grow (i32.const 17)))
          (loop $fill
            (i64.store offset=65536 (local.get $at)
              (i64.mul (i64.extend_i32_u (i32.shr_u (local.get $at) (i32.const 3))) (i64.const {FNV_PRIME})))
            (br_if $fill (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const {SIZE}))))
          {starts}
          (loop $rounds
            (local.set $at (i32.const 0))
            (loop $stripes
              {mixes}
              (br_if $stripes (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 32))) (i32.const {SIZE}))))
            (br_if $rounds (i32.lt_u (local.tee $round (i32.add (local.get $round) (i32.const 1))) (i32.const {rounds}))))
          {sums}
          (if (i64.ne (local.get $sum) (i64.const {sum})) (then unreachable))"
    )
}
