//! The arrays that are scheduled, and their rules.

use crate::Error;
use crate::error::{every, length, not_negative, rule};

/// Bit of `flags`: the kernel reads the operands of the operation.
pub const OPERAND: i64 = 1;
/// Bit of `flags`: the kernel makes the result of the operation.
pub const RESULT: i64 = 2;

/// The kernels of the distinct shapes of operations. Kernel `k` of shape `s` is `kernel_start[s] + k`.
#[derive(Debug, Clone, Copy)]
pub struct Kernels<'a> {
    /// `(shapes + 1,)`
    pub kernel_start: &'a [i64],
    /// `(kernels,)` the unit of each, or -1.
    pub unit: &'a [i64],
    /// `(kernels,)` seconds of a limb on a port.
    pub limb_s: &'a [f64],
    /// `(kernels,)` seconds in which the data of a limb pass the scratchpad.
    pub memory_s: &'a [f64],
    /// `(kernels,)` the same of the register file.
    pub registers_s: &'a [f64],
    /// `(kernels,)` [`OPERAND`] and [`RESULT`].
    pub flags: &'a [i64],
    /// `(kernels + 1,)`
    pub limb_start: &'a [i64],
    /// The limbs that a kernel makes, numbered from 0.
    pub limb: &'a [i64],
    /// `(kernels + 1,)`
    pub each_start: &'a [i64],
    /// Earlier kernels of the shape, numbered within it.
    pub each: &'a [i64],
    /// `(kernels + 1,)`
    pub whole_start: &'a [i64],
    pub whole: &'a [i64],
    /// `(shapes,)` bytes that an operation holds on chip while it is inside.
    pub held_bytes: &'a [f64],
}

/// Operations in program order.
#[derive(Debug, Clone, Copy)]
pub struct Operations<'a> {
    /// `(n,)` the shape of each, or -1 for one without kernels.
    pub shape: &'a [i64],
    /// `(n + 1,)`
    pub source_start: &'a [i64],
    /// Earlier operations whose results an operation reads.
    pub source: &'a [i64],
}

/// The units of a machine, and how many operations are inside at once.
#[derive(Debug, Clone, Copy)]
pub struct Units<'a> {
    /// `(units,)`
    pub ports: &'a [i64],
    /// `(units,)`
    pub latency_s: &'a [f64],
    /// The share of the shorter of two durations by which a node may start ahead of the result that it reads.
    pub chaining: f64,
    /// Infinite: no limit.
    pub capacity_bytes: f64,
    /// Operations that are looked at, from the oldest that has not left.
    pub window: i64,
}

/// The elements of part `i`.
pub(super) fn span(starts: &[i64], i: usize) -> std::ops::Range<usize> {
    starts[i] as usize..starts[i + 1] as usize
}

pub(super) fn check_units(units: &Units<'_>) -> Result<(), Error> {
    length("latency_s", units.latency_s.len(), units.ports.len(), "one element for each of ports")?;
    every("ports", units.ports, "a unit has one port at least", |ports| ports >= 1)?;
    not_negative("latency_s", units.latency_s)?;
    rule((0.0..=1.0).contains(&units.chaining), "chaining", units.chaining, "a share is between 0 and 1")?;
    rule(units.window >= 1, "window", units.window, "one operation at least is looked at")?;
    rule(units.capacity_bytes >= 0.0, "capacity_bytes", units.capacity_bytes, "a capacity is not negative")
}

pub(super) fn check_kernels(kernels: &Kernels<'_>, units: usize) -> Result<(), Error> {
    const ONE_A_KERNEL: &str = "one element for each kernel";
    let count = kernels.unit.len();
    starts("kernel_start", kernels.kernel_start, kernels.held_bytes.len(), count)?;
    length("limb_s", kernels.limb_s.len(), count, ONE_A_KERNEL)?;
    length("memory_s", kernels.memory_s.len(), count, ONE_A_KERNEL)?;
    length("registers_s", kernels.registers_s.len(), count, ONE_A_KERNEL)?;
    length("flags", kernels.flags.len(), count, ONE_A_KERNEL)?;
    starts("limb_start", kernels.limb_start, count, kernels.limb.len())?;
    starts("each_start", kernels.each_start, count, kernels.each.len())?;
    starts("whole_start", kernels.whole_start, count, kernels.whole.len())?;
    not_negative("limb_s", kernels.limb_s)?;
    not_negative("memory_s", kernels.memory_s)?;
    not_negative("registers_s", kernels.registers_s)?;
    not_negative("held_bytes", kernels.held_bytes)?;
    let on_units = -1..units as i64;
    every("unit", kernels.unit, "a kernel runs on a unit, or on none (-1)", |unit| on_units.contains(&unit))?;
    every("limb", kernels.limb, "limbs are numbered from 0 to 65535", |limb| (0..1 << 16).contains(&limb))?;
    for shape in 0..kernels.held_bytes.len() {
        for (k, kernel) in span(kernels.kernel_start, shape).enumerate() {
            let each = &kernels.each[span(kernels.each_start, kernel)];
            let whole = &kernels.whole[span(kernels.whole_start, kernel)];
            if let Some(&needed) = each.iter().chain(whole).find(|&&needed| needed < 0 || needed >= k as i64) {
                return Err(Error::value("each or whole", needed, "a kernel needs earlier kernels of its shape"));
            }
            let mut limbs = kernels.limb[span(kernels.limb_start, kernel)].to_vec();
            limbs.sort_unstable();
            if let Some(pair) = limbs.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Error::value("limb", pair[0], "a kernel makes a limb once"));
            }
        }
    }
    Ok(())
}

pub(super) fn check_operations(operations: &Operations<'_>, shapes: usize) -> Result<(), Error> {
    let n = operations.shape.len();
    starts("source_start", operations.source_start, n, operations.source.len())?;
    let known = -1..shapes as i64;
    every("shape", operations.shape, "the shape of an operation exists", |shape| known.contains(&shape))?;
    for i in 0..n {
        let sources = &operations.source[span(operations.source_start, i)];
        if let Some(&source) = sources.iter().find(|&&source| source < 0 || source >= i as i64) {
            return Err(Error::value("source", source, "an operation reads results of earlier operations"));
        }
    }
    rule(u32::try_from(n).is_ok(), "shape", n, "at most 2^32 - 1 operations")
}

/// `starts` cuts an array of `total` elements into `parts`.
fn starts(what: &'static str, starts: &[i64], parts: usize, total: usize) -> Result<(), Error> {
    length(what, starts.len(), parts + 1, "one element more than parts")?;
    let rule = "starts begin at 0, do not fall, and end at the number of elements";
    if starts[0] != 0 || starts[parts] != total as i64 {
        return Err(Error::value(what, starts[if starts[0] == 0 { parts } else { 0 }], rule));
    }
    match starts.windows(2).position(|pair| pair[0] > pair[1]) {
        Some(i) => Err(Error::value(format!("{what}[{i}]"), starts[i], rule)),
        None => Ok(()),
    }
}
