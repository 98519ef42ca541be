//! Programs and runs on small ciphertexts of random words.

use std::sync::{Arc, Mutex};

use penstock_ckks as ckks;
use penstock_ckks::kernels::CpuPath;
use penstock_operations::Operation as Op;

use crate::{Buffer, Cpu, Device, Error, Form, Options, Program, Recording, Supply, Task, Vector, run};

const RING: usize = 1 << 6;

fn task(operation: Op, operands: &[u32], first_result: u32, vectors: &[Vector]) -> Task {
    let (results, numbers) = (u32::from(operation != Op::Output), Box::default());
    Task {
        operation,
        argument: 0,
        numbers,
        operands: operands.into(),
        first_result,
        results,
        key: None,
        vectors: vectors.into(),
    }
}

/// An input or an output of a number.
fn port(operation: Op, number: u64, operands: &[u32], first_result: u32) -> Task {
    Task { argument: number, ..task(operation, operands, first_result, &[]) }
}

fn refused(tasks: Vec<Task>, bytes: usize) -> String {
    Program::new(tasks, vec![8; bytes]).unwrap_err().to_string()
}

#[test]
fn a_program_that_breaks_a_rule_is_refused_with_the_task() {
    let input = || port(Op::Input, 0, &[], 0);
    assert!(refused(vec![input(), task(Op::Add, &[0, 1], 1, &[])], 2).contains("task 1 (add): value 1 of 1"));
    assert!(refused(vec![input(), task(Op::Add, &[0], 1, &[])], 2).contains("1 operands, 0 vectors"));
    assert!(refused(vec![input(), task(Op::Negate, &[0], 2, &[])], 3).contains("numbered in order"));
    assert!(refused(vec![input()], 0).contains("each with its bytes"));
    let keyless = task(Op::Square, &[0], 1, &[]);
    assert!(refused(vec![input(), keyless], 2).contains("key switches have one"));
}

#[test]
fn the_peak_of_values_counts_operands_and_results_together() {
    let tasks = vec![
        port(Op::Input, 0, &[], 0),
        task(Op::Negate, &[0], 1, &[]),
        task(Op::Add, &[0, 1], 2, &[]),
        port(Op::Output, 0, &[2], 3),
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

    fn output(&self, number: u32, result: ckks::Ciphertext) -> Result<(), Failed> {
        let words = (0..result.polynomials()).flat_map(|each| result.words(each).to_vec()).collect();
        self.results.lock().unwrap()[number as usize] = Some(words);
        Ok(())
    }
}

/// Has no vectors: whoever asks for one panics.
struct Broken<'a>(Samples<'a>);

impl Supply for Broken<'_> {
    type Error = Failed;

    fn key(&self, key: u32, limbs: usize) -> Result<Arc<dyn ckks::KeyView>, Failed> {
        self.0.key(key, limbs)
    }

    fn vector(&self, number: u32) -> Result<Vec<ckks::Complex>, Failed> {
        panic!("vector {number}")
    }

    fn input(&self, number: u32) -> Result<ckks::Ciphertext, Failed> {
        self.0.input(number)
    }

    fn output(&self, number: u32, result: ckks::Ciphertext) -> Result<(), Failed> {
        self.0.output(number, result)
    }
}

/// Eight branches of a product with a vector and a sum, added up; two outputs.
fn branches() -> Program {
    let mut tasks = vec![port(Op::Input, 0, &[], 0), port(Op::Input, 1, &[], 1)];
    let mut made = 2;
    let mut ends = Vec::new();
    for branch in 0..8 {
        let vector = Vector { number: branch % 3, limbs: 2, degree: 1, form: Form::Plaintext };
        tasks.push(task(Op::MultPlain, &[branch % 2], made, &[vector]));
        tasks.push(task(Op::Negate, &[made], made + 1, &[]));
        ends.push(made + 1);
        made += 2;
    }
    let mut total = ends[0];
    for end in &ends[1..] {
        tasks.push(task(Op::Sub, &[total, *end], made, &[]));
        total = made;
        made += 1;
    }
    tasks.push(port(Op::Output, 0, &[total], made));
    tasks.push(port(Op::Output, 1, &[ends[3]], made));
    Program::new(tasks, vec![8 * 4 * RING as u64; made as usize]).unwrap()
}

fn results(options: Options) -> (Vec<Option<Vec<u64>>>, crate::Counts) {
    let context = context();
    let samples = Samples { context: &context, results: Mutex::new(vec![None, None]), fails: false };
    let outcome = run(&Cpu(&context), &branches(), &samples, options, |_| Ok(())).unwrap();
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

/// Many chains of one task each: any of them may run.
fn wide() -> Program {
    let mut tasks = vec![port(Op::Input, 0, &[], 0)];
    for each in 0..64 {
        tasks.push(task(Op::Negate, &[0], each + 1, &[]));
        tasks.push(port(Op::Output, u64::from(each), &[each + 1], each + 2));
    }
    Program::new(tasks, vec![8 * 4 * RING as u64; 65]).unwrap()
}

#[test]
fn results_of_running_tasks_count_against_the_limit() {
    let (context, program) = (context(), wide());
    let value_bytes = program.peak_value_bytes() * 9 / 8;
    for lanes in [2, 4, 8] {
        let samples = Samples { context: &context, results: Mutex::new(vec![None; 64]), fails: false };
        let options = Options { lanes, window: 64, value_bytes, ..Options::in_order() };
        let cpu = Cpu(&context);
        let device = Recording::new(&cpu, &program, value_bytes + program.peak_value_bytes());
        let counts = run(&device, &program, &samples, options, |_| Ok(())).unwrap().counts;
        let (faults, peak) = device.finish();
        assert_eq!(faults, Vec::<String>::new(), "{lanes} lanes");
        assert!(peak <= counts.peak_value_bytes && counts.peak_value_bytes <= value_bytes, "{lanes} lanes: {counts:?}");
    }
}

#[test]
fn a_failure_ends_the_run_with_its_error() {
    let context = context();
    let samples = Samples { context: &context, results: Mutex::new(vec![None, None]), fails: true };
    let options = Options { lanes: 2, window: 64, value_bytes: 1 << 20, ahead_bytes: 1 << 20, ..Options::in_order() };
    let failed = run(&Cpu(&context), &branches(), &samples, options, |_| Ok(())).unwrap_err();
    assert!(failed.0.starts_with("no vector"), "{}", failed.0);
}

#[test]
fn the_watcher_can_end_a_run() {
    let context = context();
    let samples = Samples { context: &context, results: Mutex::new(vec![None, None]), fails: false };
    let stopped = run(&Cpu(&context), &branches(), &samples, Options::in_order(), |_| Err(Failed("enough".to_owned())));
    assert_eq!(stopped.unwrap_err().0, "enough");
}

/// A program that draws its operands at random, with as many outputs as it has values that nothing uses.
fn drawn(seed: u64) -> (Program, usize) {
    let mut state = seed;
    let mut draw = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    let mut tasks = vec![port(Op::Input, 0, &[], 0), port(Op::Input, 1, &[], 1)];
    let mut uses = vec![0; 2];
    for made in 2..30 {
        let (first, second) = (draw(made) as u32, draw(made) as u32);
        let vector = Vector { number: first % 3, limbs: 2, degree: 1, form: Form::Plaintext };
        let (operation, operands, vectors) = match draw(3) {
            0 => (Op::Sub, vec![first, second], vec![]),
            1 => (Op::Negate, vec![first], vec![]),
            _ => (Op::AddPlain, vec![first], vec![vector]),
        };
        operands.iter().for_each(|value| uses[*value as usize] += 1);
        uses.push(0);
        tasks.push(task(operation, &operands, made as u32, &vectors));
    }
    // Every third value without a use stays one.
    let unused = (0..30).filter(|value| uses[*value as usize] == 0 && value % 3 > 0);
    let outputs: Vec<_> = unused.enumerate().map(|(at, value)| port(Op::Output, at as u64, &[value], 30)).collect();
    let count = outputs.len();
    tasks.extend(outputs);
    (Program::new(tasks, vec![8 * 4 * RING as u64; 30]).unwrap(), count)
}

#[test]
fn every_buffer_of_a_run_lives_from_its_task_to_its_last_use() {
    let context = context();
    for seed in 0..40 {
        let (program, outputs) = drawn(seed);
        let mut expected = None;
        for lanes in 1..4 {
            let samples = Samples { context: &context, results: Mutex::new(vec![None; outputs]), fails: false };
            let (value_bytes, window) = (program.peak_value_bytes() * 9 / 8, 8 * lanes);
            let options =
                Options { lanes, keys_in_order: false, value_bytes, keep_bytes: 4096, ahead_bytes: 4096, window };
            let cpu = Cpu(&context);
            // The first unfinished task may always begin, on top of others that began out of order.
            let most = if lanes == 1 { program.peak_value_bytes() } else { value_bytes + program.peak_value_bytes() };
            let device = Recording::new(&cpu, &program, most);
            run(&device, &program, &samples, options, |_| Ok(())).unwrap();
            let (faults, peak) = device.finish();
            assert_eq!(faults, Vec::<String>::new(), "seed {seed}, {lanes} lanes");
            assert!(peak > 0 && (lanes > 1 || peak == program.peak_value_bytes()), "{peak}");
            let results = samples.results.into_inner().unwrap();
            assert_eq!(*expected.get_or_insert(results.clone()), results);
        }
    }
}

#[test]
fn a_run_that_fails_frees_its_buffers() {
    let (context, program) = (context(), branches());
    let samples = Samples { context: &context, results: Mutex::new(vec![None, None]), fails: true };
    let cpu = Cpu(&context);
    let device = Recording::new(&cpu, &program, u64::MAX);
    run(&device, &program, &samples, Options::in_order(), |_| Ok(())).unwrap_err();
    assert_eq!(device.finish().0, Vec::<String>::new());
}

#[test]
fn a_panic_ends_the_run() {
    let context = context();
    let samples = Samples { context: &context, results: Mutex::new(vec![]), fails: false };
    let options = Options { lanes: 2, window: 64, ..Options::in_order() };
    let (program, cpu) = (branches(), Cpu(&context));
    let device = Recording::new(&cpu, &program, u64::MAX);
    let ran = std::panic::AssertUnwindSafe(|| run(&device, &program, &samples, options, |_| Ok(())));
    assert!(std::panic::catch_unwind(ran).is_err(), "there is no room for the results");
    assert_eq!(device.finish().0, Vec::<String>::new());
}

#[test]
fn a_panic_ahead_of_the_use_ends_the_run() {
    let context = context();
    let samples = Samples { context: &context, results: Mutex::new(vec![None, None]), fails: false };
    let options = Options { lanes: 2, window: 64, ahead_bytes: 1 << 20, ..Options::in_order() };
    let ran = std::panic::AssertUnwindSafe(|| run(&Cpu(&context), &branches(), &Broken(samples), options, |_| Ok(())));
    assert!(std::panic::catch_unwind(ran).is_err(), "no vector can be made");
}

/// The faults of a recording device that is used wrongly.
fn faults(
    most_bytes: u64,
    misuse: impl Fn(&Recording<'_, Cpu<'_>>, &[Task], &dyn Fn() -> ckks::Ciphertext),
) -> Vec<String> {
    let context = context();
    let tasks = vec![
        port(Op::Input, 0, &[], 0),
        task(Op::Negate, &[0], 1, &[]),
        task(Op::Negate, &[1], 2, &[]),
        task(Op::Negate, &[2], 3, &[]),
        port(Op::Output, 0, &[3], 4),
    ];
    let program = Program::new(tasks, vec![8 * 4 * RING as u64, 8 * 4 * RING as u64, 16, 8 * 4 * RING as u64]).unwrap();
    let samples = Samples { context: &context, results: Mutex::default(), fails: false };
    let cpu = Cpu(&context);
    let device = Recording::new(&cpu, &program, most_bytes);
    misuse(&device, program.tasks(), &|| samples.input(0).unwrap());
    device.finish().0
}

#[test]
fn a_recording_device_tells_each_misuse() {
    let most = u64::MAX;
    let negate =
        |device: &Recording<'_, Cpu<'_>>, task: &Task, of: u32| device.perform(task, &[&Buffer(of)], None, &[]);
    let early = faults(most, |device, tasks, _| assert!(negate(device, &tasks[1], 0).is_err()));
    assert_eq!(early, ["value 0: used before it is written"]);
    let late = faults(most, |device, tasks, input| {
        let first = device.import(&tasks[0], input()).unwrap();
        device.free(first);
        assert!(negate(device, &tasks[1], 0).is_err());
        device.free(first);
    });
    assert_eq!(late, ["value 0: used after it was freed", "value 0: freed twice, or never written"]);
    let kept = faults(2 * 8 * 4 * RING as u64, |device, tasks, input| {
        device.import(&tasks[0], input()).unwrap();
        for (at, task) in tasks[1..4].iter().enumerate() {
            negate(device, task, at as u32).unwrap();
        }
        (1..4).for_each(|value| device.free(Buffer(value)));
    });
    assert_eq!(
        kept,
        [
            "value 0: kept too long, at task negate",
            "value 2: 2048 bytes, and the program says 16",
            "6144 bytes at task negate, above 4096",
            "value 1: kept too long, at task negate",
            "8192 bytes at task negate, above 4096",
            "value 0: kept after the run",
        ]
    );
}
