//! The rules of reading ahead, played in simulated time: one program, one disk, and the cache's own decisions.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Policy;
use super::future::{Future, Use};
use super::job::next_job;
use super::load::Claim;
use super::pace::Moving;
use super::prefetch::claim;
use super::state::{Need, State};
use crate::synthetic::{Random, shape};
use crate::{KeyId, KeyName, Shape, Tenant};

const LIMBS: usize = 6;
const PLAN: u64 = 0;
/// The disk reads a whole key in 10 ms.
const KEY_S: f64 = 0.010;

fn key_shape() -> Arc<Shape> {
    Arc::new(shape(64, LIMBS, 2, 3))
}

/// The time at which missing rows are read.
#[derive(Clone, Copy, PartialEq)]
enum Reading {
    /// When it is asked for.
    Never,
    /// As early as something used later can leave for it.
    Eager,
    /// As the cache does.
    Ours,
}

#[derive(Clone, Copy, Debug)]
struct Played {
    read_bytes: u64,
    wait_s: f64,
    total_s: f64,
}

impl Played {
    /// Bytes as whole keys.
    fn keys_read(&self) -> f64 {
        self.read_bytes as f64 / key_shape().bytes_needed(LIMBS) as f64
    }
}

struct Player {
    state: State,
    shape: Arc<Shape>,
    reading: Reading,
    epoch: Instant,
    now_s: f64,
    ahead: Option<(Claim, f64)>,
    read_bytes: u64,
}

impl Player {
    fn now(&self) -> Instant {
        self.epoch + Duration::from_secs_f64(self.now_s)
    }

    fn end(&mut self, claim: &Claim) {
        let resident = self.state.residents.get_mut(&claim.name).expect("what is being read is resident");
        (resident.limbs, resident.loading) = (claim.limbs, false);
        self.read_bytes += claim.bytes;
        self.state.byte_s = Some(Moving::and(self.state.byte_s, self.seconds(claim) / claim.bytes as f64));
    }

    fn seconds(&self, claim: &Claim) -> f64 {
        KEY_S * claim.bytes as f64 / self.shape.bytes_needed(LIMBS) as f64
    }

    /// The action of the reading thread when it wakes.
    fn read_ahead(&mut self) {
        if self.reading == Reading::Never || self.ahead.is_some() {
            return;
        }
        let Some(mut job) = next_job(&self.state, 64, &HashSet::new()) else { return };
        job.is_urgent |= self.reading == Reading::Eager;
        if let Some(claim) = claim(&mut self.state, &job, &self.shape) {
            self.ahead = Some((claim.clone(), self.now_s + self.seconds(&claim)));
        }
    }

    /// Lets time pass.
    fn until(&mut self, time_s: f64) {
        while let Some((claim, end_s)) = self.ahead.take_if(|(_, end_s)| *end_s <= time_s) {
            self.now_s = end_s.max(self.now_s);
            self.end(&claim);
            self.read_ahead();
        }
        self.now_s = time_s;
    }

    fn get(&mut self, each: &Use) {
        let begun_s = self.now_s;
        self.state.want(&each.name, each.limbs);
        let now = self.now();
        let future = self.state.futures.get_mut(&PLAN).expect("the plan");
        future.pace.begins(now);
        assert!(future.advance(&each.name, each.limbs));
        self.read_ahead();
        loop {
            let have = self.state.residents.get(&each.name).map_or(0, |resident| resident.limbs);
            if have >= each.limbs {
                break;
            }
            if let Some((_, end_s)) = self.ahead {
                self.until(end_s); // one disk
                continue;
            }
            let needed = self.shape.bytes_needed(each.limbs) - self.shape.bytes_needed(have);
            assert!(self.state.make_room(&each.name, needed, Need::Now), "the budget holds a key and what is read");
            let own = Claim::take(&mut self.state, &each.name, &self.shape, each.limbs, false);
            self.now_s += self.seconds(&own);
            self.end(&own);
        }
        let tick = self.state.tick();
        let resident = self.state.residents.get_mut(&each.name).expect("it has been read");
        resident.last_use = tick;
        resident.pins.insert(each.limbs, 1);
        self.state.unwant(&each.name, each.limbs);
        let now = self.now();
        let future = self.state.futures.get_mut(&PLAN).expect("the plan");
        future.pace.ends(now);
        assert!(self.now_s >= begun_s);
        self.read_ahead();
    }

    fn release(&mut self, each: &Use) {
        let id = self.state.residents[&each.name].id;
        self.state.unpin(&each.name, id, each.limbs);
        self.read_ahead();
    }
}

/// Plays a program: `compute_s` seconds with each use.
fn play(uses: &[Use], compute_s: &[f64], budget: u64, reading: Reading) -> Played {
    let mut state = State::new(budget, Policy::Future, 0);
    state.futures.insert(PLAN, Future::new(uses.to_vec()));
    let shape = key_shape();
    state.shapes.insert((shape.digest(), false), shape.clone());
    let mut player = Player { state, shape, reading, epoch: Instant::now(), now_s: 0.0, ahead: None, read_bytes: 0 };
    let mut wait_s = 0.0;
    for (each, seconds) in uses.iter().zip(compute_s) {
        let begun_s = player.now_s;
        player.get(each);
        wait_s += player.now_s - begun_s;
        assert!(player.state.used_bytes <= budget);
        player.until(player.now_s + seconds);
        player.release(each);
    }
    Played { read_bytes: player.read_bytes, wait_s, total_s: player.now_s }
}

/// `length` uses of `keys` keys at 1 to 6 limbs, and the computation with each: 0 to 2 `mean_s` seconds.
fn program(length: usize, keys: u64, mean_s: f64, seed: u64) -> (Vec<Use>, Vec<f64>) {
    let (tenant, digest) = (Tenant::new("t").expect("a name"), key_shape().digest());
    let mut random = Random::new(seed);
    let mut uses = vec![];
    for _ in 0..length {
        // The lesser of two: some keys are used more often than others.
        let number = random.below(keys).min(random.below(keys));
        let name = KeyName::new(tenant.clone(), digest, KeyId::Rot(2 * number + 3));
        uses.push(Use { name, limbs: 1 + random.below(LIMBS as u64) as usize });
    }
    let compute_s = (0..length).map(|_| 2.0 * mean_s * random.below(1000) as f64 / 1000.0).collect();
    (uses, compute_s)
}

/// Keys that a program reads under a budget of so many keys: with no more in memory than that, and each way of reading.
struct Compared {
    least: f64,
    least_beside_a_read: f64,
    eager: Played,
    ours: Played,
}

impl Compared {
    fn of((uses, compute_s): &(Vec<Use>, Vec<f64>), budget_keys: f64) -> Self {
        let key_bytes = key_shape().bytes_needed(LIMBS);
        let budget = (budget_keys * key_bytes as f64) as u64;
        let played = |budget, reading| play(uses, compute_s, budget, reading);
        let least = |budget| played(budget, Reading::Never).keys_read();
        Self {
            least: least(budget),
            least_beside_a_read: least(budget - key_bytes),
            eager: played(budget, Reading::Eager),
            ours: played(budget, Reading::Ours),
        }
    }

    /// Seconds of waiting that our reading adds to the eager one's, of the whole program.
    fn added_wait(&self) -> f64 {
        (self.ours.wait_s - self.eager.wait_s) / self.eager.total_s
    }
}

/// One pace, and one that varies between nothing and twice that; from one key in 20 ms to a disk that is the limit.
fn programs(seed: u64) -> Vec<(Vec<Use>, Vec<f64>)> {
    let mut found = vec![];
    for mean_s in [0.020, 0.008, 0.003] {
        let (uses, varied) = program(200, 20, mean_s, seed);
        let steady = vec![mean_s; uses.len()];
        found.extend([(uses.clone(), varied), (uses, steady)]);
    }
    found
}

/// Rows read ahead need room in addition to kept rows. So the measure is the fewest reads possible (those of Belady's
/// rule, on request) with room for one key less.
#[test]
fn reading_ahead_reads_little_more_than_must_be_read_and_waits_no_longer() {
    for (seed, budget_keys) in [(0, 10.0), (1, 5.0), (2, 3.0)] {
        for program in programs(seed) {
            let found = Compared::of(&program, budget_keys);
            let keys = found.ours.keys_read();
            let what = format!("seed {seed}, budget {budget_keys}, {:?} beside {:?}", found.ours, found.eager);
            assert!(keys >= 0.98 * found.least, "{what}");
            assert!(keys <= 1.08 * found.least_beside_a_read, "{what}: {}", found.least_beside_a_read);
            assert!(found.added_wait() < 0.02, "{what}");
        }
    }
}

#[test]
fn where_there_is_time_little_more_is_read_than_the_least() {
    for seed in 0..2 {
        let found = Compared::of(&program(200, 20, 0.020, seed), 10.0);
        let (ours, eager) = (found.ours.keys_read(), found.eager.keys_read());
        assert!(ours < 1.08 * found.least, "{ours} keys of {}", found.least);
        assert!(eager - ours > 0.5 * eager - 0.5 * found.least, "{ours} keys beside {eager}");
        assert!(found.ours.wait_s < 0.1 * found.least * KEY_S, "{:?}", found.ours);
    }
}
