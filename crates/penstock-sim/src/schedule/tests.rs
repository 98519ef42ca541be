use super::*;
use crate::Error;

/// Kernels of one shape: (unit, seconds of a limb, flags, limbs, each, whole).
type Kernel<'a> = (i64, f64, i64, &'a [i64], &'a [i64], &'a [i64]);

struct Owned {
    kernel_start: Vec<i64>,
    unit: Vec<i64>,
    limb_s: Vec<f64>,
    memory_s: Vec<f64>,
    registers_s: Vec<f64>,
    flags: Vec<i64>,
    starts: [Vec<i64>; 3],
    lists: [Vec<i64>; 3],
    held: Vec<f64>,
}

fn owned(shapes: &[&[Kernel<'_>]], held: f64) -> Owned {
    let mut found = Owned {
        kernel_start: vec![0],
        unit: vec![],
        limb_s: vec![],
        memory_s: vec![],
        registers_s: vec![],
        flags: vec![],
        starts: [vec![0], vec![0], vec![0]],
        lists: [vec![], vec![], vec![]],
        held: vec![held; shapes.len()],
    };
    for shape in shapes {
        for &(unit, limb_s, flags, limbs, each, whole) in *shape {
            found.unit.push(unit);
            found.limb_s.push(limb_s);
            found.memory_s.push(0.0);
            found.registers_s.push(0.0);
            found.flags.push(flags);
            for (i, list) in [limbs, each, whole].into_iter().enumerate() {
                found.lists[i].extend(list);
                found.starts[i].push(found.lists[i].len() as i64);
            }
        }
        found.kernel_start.push(found.unit.len() as i64);
    }
    found
}

impl Owned {
    fn kernels(&self) -> Kernels<'_> {
        Kernels {
            kernel_start: &self.kernel_start,
            unit: &self.unit,
            limb_s: &self.limb_s,
            memory_s: &self.memory_s,
            registers_s: &self.registers_s,
            flags: &self.flags,
            limb_start: &self.starts[0],
            limb: &self.lists[0],
            each_start: &self.starts[1],
            each: &self.lists[1],
            whole_start: &self.starts[2],
            whole: &self.lists[2],
            held_bytes: &self.held,
        }
    }
}

fn units<'a>(ports: &'a [i64], latency_s: &'a [f64], capacity_bytes: f64) -> Units<'a> {
    Units { ports, latency_s, chaining: 0.0, capacity_bytes, window: 8 }
}

fn alone(shape: &[Kernel<'_>], units: &Units<'_>) -> ScheduledKernels {
    let found = owned(&[shape], 1.0);
    let operations = Operations { shape: &[0], source_start: &[0, 0], source: &[] };
    schedule_kernels(&found.kernels(), &operations, units, 1, &mut || false).unwrap()
}

#[test]
fn limbs_flow_from_unit_to_unit() {
    // Three limbs, 2 s each on unit 0, then 1 s each on unit 1, limb by limb.
    let shape: [Kernel<'_>; 2] = [(0, 2.0, 0, &[0, 1, 2], &[], &[]), (1, 1.0, RESULT, &[0, 1, 2], &[0], &[])];
    let got = alone(&shape, &units(&[1, 1], &[0.0, 0.0], f64::INFINITY));
    assert_eq!((got.total_s, got.critical_s), (7.0, 3.0));
    assert_eq!(got.busy_s, [6.0, 3.0]);
    let starts: Vec<_> = got.placed.iter().map(|each| (each.kernel, each.limb, each.start_s)).collect();
    assert_eq!(starts, [(0, 0, 0.0), (0, 1, 2.0), (1, 0, 2.0), (0, 2, 4.0), (1, 1, 4.0), (1, 2, 6.0)]);
}

#[test]
fn a_whole_kernel_is_waited_for_and_latency_keeps_no_port() {
    let shape: [Kernel<'_>; 2] = [(0, 2.0, 0, &[0, 1], &[], &[]), (0, 1.0, RESULT, &[0, 1], &[], &[0])];
    let got = alone(&shape, &units(&[1], &[10.0], f64::INFINITY));
    // Both limbs end at 4, the second is there at 14; two more limbs, the last there at 26.
    assert_eq!((got.total_s, got.busy_s[0], got.critical_s), (26.0, 6.0, 23.0));
    let two = alone(&shape, &units(&[2], &[10.0], f64::INFINITY));
    assert_eq!((two.total_s, two.critical_s), (23.0, 23.0));
}

#[test]
fn operations_overlap_as_far_as_the_capacity_goes() {
    let shape: [Kernel<'_>; 2] = [(0, 1.0, 0, &[0], &[], &[]), (1, 1.0, RESULT, &[0], &[0], &[])];
    let found = owned(&[&shape], 10.0);
    let operations = Operations { shape: &[0, 0, 0], source_start: &[0, 0, 0, 0], source: &[] };
    let total = |capacity| {
        let units = units(&[1, 1], &[0.0, 0.0], capacity);
        schedule_kernels(&found.kernels(), &operations, &units, 0, &mut || false).unwrap().total_s
    };
    assert_eq!((total(9.0), total(19.0), total(20.0), total(f64::INFINITY)), (6.0, 6.0, 4.0, 4.0));
}

#[test]
fn a_result_is_passed_on_limb_by_limb() {
    let first: [Kernel<'_>; 1] = [(0, 1.0, RESULT, &[0, 1, 2], &[], &[])];
    let then: [Kernel<'_>; 1] = [(1, 1.0, OPERAND | RESULT, &[0, 1, 2], &[], &[])];
    let found = owned(&[&first, &then], 1.0);
    let run = |operations: &Operations<'_>| {
        let units = units(&[1, 1], &[0.0, 0.0], f64::INFINITY);
        schedule_kernels(&found.kernels(), operations, &units, 0, &mut || false).unwrap()
    };
    let got = run(&Operations { shape: &[0, 1], source_start: &[0, 0, 1], source: &[0] });
    assert_eq!((got.total_s, got.end_s[0], got.start_s[1]), (4.0, 3.0, 1.0));
    // One without kernels in between passes nothing on before the end of its source.
    let got = run(&Operations { shape: &[0, -1, 1], source_start: &[0, 0, 1, 2], source: &[0, 1] });
    assert_eq!((got.total_s, got.end_s[1], got.critical_s), (6.0, 3.0, 2.0));
}

#[test]
fn an_operation_that_waits_for_others_takes_no_room_and_is_overtaken() {
    // The second reads the first one's result; the third needs nothing of them and takes the room.
    let shape: [Kernel<'_>; 2] = [(1, 5.0, OPERAND, &[0], &[], &[]), (0, 1.0, RESULT, &[0], &[0], &[])];
    let found = owned(&[&shape], 10.0);
    let operations = Operations { shape: &[0, 0, 0], source_start: &[0, 0, 1, 1], source: &[0] };
    let run = |window| {
        let units = Units { window, ..units(&[1, 1], &[0.0, 0.0], 20.0) };
        schedule_kernels(&found.kernels(), &operations, &units, 0, &mut || false).unwrap()
    };
    assert_eq!((run(3).start_s, run(3).end_s), (vec![0.0, 10.0, 5.0], vec![6.0, 16.0, 11.0]));
    assert_eq!(run(2).end_s, [6.0, 12.0, 17.0]);
}

#[test]
fn a_kernel_that_needs_nothing_does_not_let_an_operation_in_before_its_sources() {
    // One kernel of each operation needs no operand; without the rule the second would keep its source out.
    let shape: [Kernel<'_>; 2] = [(1, 5.0, 0, &[0], &[], &[]), (0, 1.0, OPERAND | RESULT, &[0], &[0], &[])];
    let found = owned(&[&shape], 10.0);
    let operations = Operations { shape: &[0, 0, 0], source_start: &[0, 0, 1, 2], source: &[0, 1] };
    let units = units(&[1, 1], &[0.0, 0.0], 10.0);
    let got = schedule_kernels(&found.kernels(), &operations, &units, 0, &mut || false).unwrap();
    assert_eq!(got.end_s, [6.0, 12.0, 18.0]);
}

#[test]
fn the_memory_serves_one_node_at_a_time() {
    let shape: [Kernel<'_>; 2] = [(0, 1.0, RESULT, &[0, 1], &[], &[]), (1, 1.0, RESULT, &[0, 1], &[], &[])];
    let mut found = owned(&[&shape], 1.0);
    found.memory_s = vec![0.5, 3.0];
    let operations = Operations { shape: &[0], source_start: &[0, 0], source: &[] };
    let units = units(&[1, 1], &[0.0, 0.0], f64::INFINITY);
    let got = schedule_kernels(&found.kernels(), &operations, &units, 0, &mut || false).unwrap();
    // Unit 1 has the longer way to go; unit 0 waits for the memory until 6.
    assert_eq!((got.total_s, got.memory_s), (8.0, 7.0));
    assert_eq!(got.busy_s, [2.0, 6.0]);
}

#[test]
fn the_register_file_is_a_memory_beside_the_scratchpad() {
    let shape: [Kernel<'_>; 2] = [(0, 1.0, RESULT, &[0, 1], &[], &[]), (1, 1.0, RESULT, &[0, 1], &[], &[])];
    let mut found = owned(&[&shape], 1.0);
    let operations = Operations { shape: &[0], source_start: &[0, 0], source: &[] };
    let units = units(&[1, 1], &[0.0, 0.0], f64::INFINITY);
    let of = |found: &Owned| schedule_kernels(&found.kernels(), &operations, &units, 0, &mut || false).unwrap();
    // Each unit has a memory of its own: they work side by side.
    (found.memory_s, found.registers_s) = (vec![3.0, 0.0], vec![0.0, 2.0]);
    let apart = of(&found);
    assert_eq!((apart.total_s, apart.memory_s, apart.registers_s), (6.0, 6.0, 4.0));
    // Both need the registers: they take turns.
    found.registers_s = vec![2.0, 2.0];
    let shared = of(&found);
    assert_eq!((shared.memory_s, shared.registers_s), (6.0, 8.0));
    assert_eq!(shared.busy_s, [6.0, 4.0]);
    assert!(shared.total_s >= 8.0);
}

#[test]
fn chained_units_start_ahead_and_never_overrun() {
    // 4 s, then 2 s, then 6 s; results are there 1 s after each.
    let shape: [Kernel<'_>; 3] =
        [(0, 4.0, 0, &[0], &[], &[]), (1, 2.0, 0, &[0], &[0], &[]), (2, 6.0, RESULT, &[0], &[], &[1])];
    let three = units(&[1, 1, 1], &[1.0, 1.0, 1.0], 0.0);
    assert_eq!(alone(&shape, &three).total_s, 15.0);
    // The second ends 1 s after the first is there: it starts at 3; the third starts when the second has begun.
    let chained = alone(&shape, &Units { chaining: 1.0, ..three });
    let starts: Vec<_> = chained.placed.iter().map(|each| each.start_s).collect();
    assert_eq!((starts, chained.total_s, chained.critical_s), (vec![0.0, 3.0, 4.0], 11.0, 11.0));
    let half = alone(&shape, &Units { chaining: 0.5, ..three });
    assert_eq!((half.total_s, half.critical_s), (13.0, 13.0));
}

#[test]
fn a_kernel_without_a_unit_takes_no_time() {
    let shape: [Kernel<'_>; 2] = [(-1, 5.0, 0, &[0], &[], &[]), (0, 1.0, RESULT, &[0], &[0], &[])];
    assert_eq!(alone(&shape, &units(&[1], &[0.0], 0.0)).total_s, 1.0);
}

#[test]
fn bad_input_is_named() {
    let shape: [Kernel<'_>; 2] = [(0, 1.0, 0, &[0, 1], &[], &[]), (0, 1.0, RESULT, &[0], &[0], &[])];
    let good = owned(&[&shape], 1.0);
    let one = Operations { shape: &[0], source_start: &[0, 0], source: &[] };
    let fine = units(&[1], &[0.0], 1.0);
    let message = |kernels: Kernels<'_>, operations: &Operations<'_>, units: &Units<'_>| {
        schedule_kernels(&kernels, operations, units, 0, &mut || false).unwrap_err().to_string()
    };
    let kernels = good.kernels();
    assert!(message(Kernels { unit: &[0, 1], ..kernels }, &one, &fine).starts_with("unit[1] is 1"));
    assert!(message(Kernels { each: &[1], ..kernels }, &one, &fine).contains("earlier kernels"));
    assert!(message(Kernels { limb: &[0, 0, 0], ..kernels }, &one, &fine).contains("a limb once"));
    assert!(message(Kernels { limb_s: &[1.0], ..kernels }, &one, &fine).contains("one element for each kernel"));
    assert!(message(Kernels { memory_s: &[1.0, f64::NAN], ..kernels }, &one, &fine).starts_with("memory_s[1]"));
    assert!(message(Kernels { registers_s: &[-1.0, 0.0], ..kernels }, &one, &fine).starts_with("registers_s[0]"));
    assert!(message(Kernels { kernel_start: &[0, 1], ..kernels }, &one, &fine).starts_with("kernel_start is 1"));
    assert!(
        message(Kernels { limb_start: &[0, 3, 3], limb: &[0, 1, 2], kernel_start: &[1, 2], ..kernels }, &one, &fine)
            .starts_with("kernel_start is 1")
    );
    let ahead = Operations { shape: &[0], source_start: &[0, 1], source: &[0] };
    assert!(message(kernels, &ahead, &fine).contains("earlier operations"));
    let unknown = Operations { shape: &[1], source_start: &[0, 0], source: &[] };
    assert!(message(kernels, &unknown, &fine).starts_with("shape[0] is 1"));
    assert!(message(kernels, &one, &units(&[0], &[0.0], 1.0)).starts_with("ports[0] is 0"));
    assert!(message(kernels, &one, &units(&[1], &[0.0], -1.0)).contains("not negative"));
    assert!(message(kernels, &one, &Units { chaining: 1.5, ..fine }).starts_with("chaining is 1.5"));
    assert!(message(kernels, &one, &Units { window: 0, ..fine }).starts_with("window is 0"));
    let slow = owned(&[&[(0, 8e6, 0, &[0, 1][..], &[][..], &[][..])]], 1.0);
    let error = schedule_kernels(&slow.kernels(), &one, &fine, 0, &mut || false).unwrap_err();
    assert!(matches!(error, Error::ClockOverflow { .. }), "{error}");
}
