//! Programs and runs on small ciphertexts of random words.

use std::sync::{Arc, Mutex};

use penstock_ckks as ckks;
use penstock_ckks::kernels::CpuPath;

use crate::{Error, Form, Options, Program, Supply, Task, Vector, Work, run};

const RING: usize = 1 << 6;

fn task(work: Work, operands: &[u32], first_result: u32, vectors: &[Vector]) -> Task {
    let results = u32::from(!matches!(work, Work::Output(_)));
    Task { work, operands: operands.into(), first_result, results, key: None, vectors: vectors.into() }
}

fn refused(tasks: Vec<Task>, bytes: usize) -> String {
    Program::new(tasks, vec![8; bytes]).unwrap_err().to_string()
}

#[test]
fn a_program_that_breaks_a_rule_is_refused_with_the_task() {
    let input = || task(Work::Input(0), &[], 0, &[]);
    assert!(refused(vec![input(), task(Work::Add, &[0, 1], 1, &[])], 2).contains("task 1 (add): value 1 of 1"));
    assert!(refused(vec![input(), task(Work::Add, &[0], 1, &[])], 2).contains("1 operands, 0 vectors"));
    assert!(refused(vec![input(), task(Work::Negate, &[0], 2, &[])], 3).contains("numbered in order"));
    assert!(refused(vec![input()], 0).contains("each with its bytes"));
    let keyless = task(Work::Square, &[0], 1, &[]);
    assert!(refused(vec![input(), keyless], 2).contains("key switches have one"));
}

#[test]
fn the_peak_of_values_counts_operands_and_results_together() {
    let tasks = vec![
        task(Work::Input(0), &[], 0, &[]),
        task(Work::Negate, &[0], 1, &[]),
        task(Work::Add, &[0, 1], 2, &[]),
        task(Work::Output(0), &[2], 3, &[]),
    ];
    let program = Program::new(tasks, vec![100, 10, 1]).unwrap();
    assert_eq!(program.peak_value_bytes(), 111);
}

fn context() -> ckks::Context {
    let parameters = ckks::Parameters {
        ring_dim: RING,
        moduli_q: vec![576_460_752_303_421_441, 1_099_511_623_297],
        moduli_p: vec![576_460_752_303_419_393],
        dnum: 2,
        scaling: ckks::Scaling::FixedManual,
        scale_bits: 40,
    };
    let machine = ckks::Machine { path: CpuPath::choose().unwrap(), threads: 2, keep_bytes: 1 << 20 };
    ckks::Context::new(parameters, machine).unwrap()
}

struct Samples<'a> {
    context: &'a ckks::Context,
    results: Mutex<Vec<Option<Vec<u64>>>>,
    fails: bool,
}

#[derive(Debug)]
struct Failed(String);

impl From<ckks::Error> for Failed {
    fn from(error: ckks::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl Supply for Samples<'_> {
    type Error = Failed;

    fn key(&self, _: u32, _: usize) -> Result<Arc<dyn ckks::KeyView>, Failed> {
        unreachable!("these programs have no keys")
    }

    fn vector(&self, number: u32) -> Result<Vec<ckks::Complex>, Failed> {
        if self.fails {
            return Err(Failed(format!("no vector {number}")));
        }
        Ok((0..RING / 2).map(|slot| [f64::from(number) + slot as f64 / 64.0, 0.0]).collect())
    }

    fn input(&self, number: u32) -> Result<ckks::Ciphertext, Failed> {
        let moduli = &self.context.parameters().moduli_q;
        let header = ckks::CiphertextHeader { limbs: 2, polynomials: 2, degree: 1, scale: 2f64.powi(40), slots: 32 };
        let mut seed = u64::from(number) + 1;
        let mut word = |limb: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 1) % moduli[limb]
        };
        let words: Vec<u64> = (0..4 * RING).map(|at| word(at / RING % 2)).collect();
        Ok(self.context.ciphertext_from_rows(&header, &words)?)
    }

    fn output(&self, number: u32, result: &ckks::Ciphertext) -> Result<(), Failed> {
        let words = (0..result.polynomials()).flat_map(|each| result.words(each).to_vec()).collect();
        self.results.lock().unwrap()[number as usize] = Some(words);
        Ok(())
    }
}

/// Eight branches of a product with a vector and a sum, added up; two outputs.
fn branches() -> Program {
    let mut tasks = vec![task(Work::Input(0), &[], 0, &[]), task(Work::Input(1), &[], 1, &[])];
    let mut made = 2;
    let mut ends = Vec::new();
    for branch in 0..8 {
        let vector = Vector { number: branch % 3, limbs: 2, degree: 1, form: Form::Plaintext };
        tasks.push(task(Work::MultPlain, &[branch % 2], made, &[vector]));
        tasks.push(task(Work::Negate, &[made], made + 1, &[]));
        ends.push(made + 1);
        made += 2;
    }
    let mut total = ends[0];
    for end in &ends[1..] {
        tasks.push(task(Work::Sub, &[total, *end], made, &[]));
        total = made;
        made += 1;
    }
    tasks.push(task(Work::Output(0), &[total], made, &[]));
    tasks.push(task(Work::Output(1), &[ends[3]], made, &[]));
    Program::new(tasks, vec![1024; made as usize]).unwrap()
}

fn results(options: Options) -> (Vec<Option<Vec<u64>>>, crate::Counts) {
    let context = context();
    let samples = Samples { context: &context, results: Mutex::new(vec![None, None]), fails: false };
    let outcome = run(&context, &branches(), &samples, options, |_| Ok(())).unwrap();
    (samples.results.into_inner().unwrap(), outcome.counts)
}

#[test]
fn lanes_vectors_ahead_and_kept_ones_change_no_word() {
    let (expected, plain) = results(Options::in_order());
    assert!(expected.iter().all(Option::is_some));
    assert_eq!((plain.beside, plain.vectors_ahead, plain.vectors_encoded), (0, 0, 8));
    for lanes in 1..4 {
        for (keep_bytes, ahead_bytes) in [(0, 0), (1 << 20, 0), (0, 1 << 20), (1500, 600)] {
            for _ in 0..5 {
                let (value_bytes, window) = (1 << 20, 64);
                let options = Options { lanes, keys_in_order: false, value_bytes, keep_bytes, ahead_bytes, window };
                let (found, counts) = results(options);
                assert_eq!(found, expected);
                assert!(keep_bytes < 1 << 20 || counts.vectors_encoded <= 6);
                assert!(counts.peak_vector_bytes <= keep_bytes + ahead_bytes + 2048);
            }
        }
    }
}

#[test]
fn values_at_their_limit_keep_the_order_of_the_program() {
    let options = Options { lanes: 3, window: 64, ..Options::in_order() };
    let (_, counts) = results(options);
    assert!(counts.peak_value_bytes <= branches().peak_value_bytes());
}

#[test]
fn a_failure_ends_the_run_with_its_error() {
    let context = context();
    let samples = Samples { context: &context, results: Mutex::new(vec![None, None]), fails: true };
    let options = Options { lanes: 2, window: 64, value_bytes: 1 << 20, ahead_bytes: 1 << 20, ..Options::in_order() };
    let failed = run(&context, &branches(), &samples, options, |_| Ok(())).unwrap_err();
    assert!(failed.0.starts_with("no vector"), "{}", failed.0);
}

#[test]
fn the_watcher_can_end_a_run() {
    let context = context();
    let samples = Samples { context: &context, results: Mutex::new(vec![None, None]), fails: false };
    let stopped = run(&context, &branches(), &samples, Options::in_order(), |_| Err(Failed("enough".to_owned())));
    assert_eq!(stopped.unwrap_err().0, "enough");
}
