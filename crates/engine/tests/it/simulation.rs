//! The whole engine in one thread and in virtual time, with everything that can go wrong decided by a seed.
//!
//! One seed is one history: the same commands, crashes, partitions and disk errors every time. A seed that fails is printed;
//! `scripts/stress simulate SEED` plays it again.

mod check;
mod node;
mod world;

use std::time::{Duration, Instant};

use self::world::World;

/// Seeds of a quick test run; `scripts/test` plays a thousand.
const SEEDS: u64 = 50;

/// Plays one history and returns what it broke.
fn play(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let broken = runtime.block_on(async {
        let mut world = World::new(seed).await;
        world.live().await;
        world.settle().await
    });
    runtime.shutdown_timeout(Duration::from_millis(10));
    broken
}

/// The number in an environment variable.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a whole number"))
}

#[test]
fn seeded_histories_break_nothing() {
    let (first, count) = match (number("PROVOST_SIM_SEED"), number("PROVOST_SIM_SEEDS")) {
        (Some(seed), count) => (seed, count.unwrap_or(1)),
        (None, count) => (1, count.unwrap_or(SEEDS)),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let started = Instant::now();
    let failed: Vec<(u64, Vec<String>)> = std::thread::scope(|scope| {
        let play_share = |share: u64| {
            let seeds = (first..first + count).filter(move |seed| seed % threads as u64 == share);
            seeds.map(|seed| (seed, play(seed))).filter(|(_, broken)| !broken.is_empty()).collect()
        };
        let shares: Vec<_> = (0..threads as u64)
            .map(|share| scope.spawn(move || -> Vec<_> { play_share(share) }))
            .collect();
        shares.into_iter().flat_map(|share| share.join().expect("a share of the seeds")).collect()
    });
    println!("{count} seeds from {first} in {:.1} s", started.elapsed().as_secs_f64());
    for (seed, broken) in &failed {
        eprintln!("seed {seed}: play it again with `scripts/stress simulate {seed}`");
        broken.iter().for_each(|line| eprintln!("  {line}"));
    }
    assert!(failed.is_empty(), "{} of {count} seeds failed", failed.len());
}

#[test]
fn a_seed_is_one_history() {
    let history = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut world = World::new(seed).await;
            world.live().await;
            world.settle().await;
            world.told().await
        })
    };
    for seed in [3, 8] {
        assert_eq!(history(seed), history(seed), "seed {seed}");
    }
}
