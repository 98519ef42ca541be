//! Whole operations on several hosts: who runs which, and when.
//!
//! List scheduling in program order, the way a runtime would do it that knows the program: each operation goes to the
//! host on which it ends first (the lowest number among equals). It starts when the host is free and its operands are
//! there. A result is at the host that made it; another host that needs it fetches it once and keeps it. A fetch holds
//! the sender's way out and the receiver's way in, one at a time. Inputs, which no operation makes, are at every host
//! from the start.

use crate::Error;
use crate::error::{every, is_amount, length, not_negative, rule};

/// Operations in program order. The operands of operation `i` are `operand[operand_start[i]..]`.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// Seconds on a host once the operands are there.
    pub duration_s: &'a [f64],
    pub operand_start: &'a [i64],
    /// Objects, numbered from 0.
    pub operand: &'a [i64],
    /// The object that each operation makes, or -1.
    pub output: &'a [i64],
    /// Bytes to move of each object.
    pub object_bytes: &'a [f64],
}

/// The hosts and the network between them.
#[derive(Debug, Clone, Copy)]
pub struct Hosts {
    pub hosts: usize,
    pub bytes_per_s: f64,
    pub latency_s: f64,
}

/// The outcome of a dispatch.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatched {
    /// The end of the last operation.
    pub total_s: f64,
    /// `(n,)` the host of each operation.
    pub host: Vec<i64>,
    /// `(n,)` when each operation starts.
    pub start_s: Vec<f64>,
    /// `(hosts,)` seconds in which each host receives.
    pub receiving_s: Vec<f64>,
    pub sent_bytes: f64,
}

/// A fetch that an operation needs before it starts.
struct Fetch {
    object: usize,
    home: usize,
    end: f64,
}

struct State {
    free: Vec<f64>,
    out_free: Vec<f64>,
    in_free: Vec<f64>,
    /// The host that made each object, `None` for inputs.
    home: Vec<Option<usize>>,
    /// When each object is at each host; infinite where it is not.
    there: Vec<f64>,
}

/// Puts each operation on a host and in time.
///
/// # Errors
/// An array has the wrong length; a value is not finite or negative; an object does not exist.
pub fn dispatch(program: &Program<'_>, hosts: &Hosts) -> Result<Dispatched, Error> {
    check(program, hosts)?;
    let (n, h, objects) = (program.duration_s.len(), hosts.hosts, program.object_bytes.len());
    let mut state = State {
        free: vec![0.0; h],
        out_free: vec![0.0; h],
        in_free: vec![0.0; h],
        home: vec![None; objects],
        there: vec![0.0; objects * h],
    };
    let mut result = Dispatched {
        total_s: 0.0,
        host: Vec::with_capacity(n),
        start_s: Vec::with_capacity(n),
        receiving_s: vec![0.0; h],
        sent_bytes: 0.0,
    };
    let (mut fetches, mut best) = (Vec::new(), Vec::new());
    for i in 0..n {
        let operands = &program.operand[program.operand_start[i] as usize..program.operand_start[i + 1] as usize];
        let (mut at, mut start) = (0, f64::INFINITY);
        for host in 0..h {
            fetches.clear();
            let ready = plan(&state, program, hosts, operands, host, &mut fetches);
            if ready < start {
                (at, start) = (host, ready);
                std::mem::swap(&mut fetches, &mut best);
            }
        }
        for fetch in &best {
            let seconds = transfer_s(program, hosts, fetch.object);
            state.out_free[fetch.home] = fetch.end;
            state.in_free[at] = fetch.end;
            state.there[fetch.object * h + at] = fetch.end;
            result.receiving_s[at] += seconds;
            result.sent_bytes += program.object_bytes[fetch.object];
        }
        let end = start + program.duration_s[i];
        state.free[at] = end;
        if let Ok(object) = usize::try_from(program.output[i]) {
            state.home[object] = Some(at);
            let row = &mut state.there[object * h..(object + 1) * h];
            row.fill(f64::INFINITY);
            row[at] = end;
        }
        result.total_s = result.total_s.max(end);
        result.host.push(at as i64);
        result.start_s.push(start);
    }
    Ok(result)
}

fn transfer_s(program: &Program<'_>, hosts: &Hosts, object: usize) -> f64 {
    hosts.latency_s + program.object_bytes[object] / hosts.bytes_per_s
}

/// When an operation with these operands can start on `host`, and what has to be fetched for it.
fn plan(
    state: &State,
    program: &Program<'_>,
    hosts: &Hosts,
    operands: &[i64],
    host: usize,
    fetches: &mut Vec<Fetch>,
) -> f64 {
    let mut start = state.free[host];
    let mut in_free = state.in_free[host];
    for &operand in operands {
        let object = operand as usize;
        let there = state.there[object * hosts.hosts + host];
        if there.is_finite() {
            start = start.max(there);
            continue;
        }
        if let Some(fetch) = fetches.iter().find(|fetch| fetch.object == object) {
            start = start.max(fetch.end);
            continue;
        }
        let Some(home) = state.home[object] else { continue };
        let made = state.there[object * hosts.hosts + home];
        let out_free =
            fetches.iter().rev().find(|fetch| fetch.home == home).map_or(state.out_free[home], |fetch| fetch.end);
        let end = made.max(out_free).max(in_free) + transfer_s(program, hosts, object);
        in_free = end;
        start = start.max(end);
        fetches.push(Fetch { object, home, end });
    }
    start
}

fn check(program: &Program<'_>, hosts: &Hosts) -> Result<(), Error> {
    let n = program.duration_s.len();
    length("operand_start", program.operand_start.len(), n + 1, "one row of operands for each operation")?;
    length("output", program.output.len(), n, "one element for each operation")?;
    rule(hosts.hosts > 0, "hosts", 0, "there is at least one host")?;
    rule(hosts.bytes_per_s > 0.0, "bytes_per_s", hosts.bytes_per_s, "a rate is a positive number")?;
    rule(is_amount(hosts.latency_s), "latency_s", hosts.latency_s, "a latency is finite and not negative")?;
    not_negative("duration_s", program.duration_s)?;
    not_negative("object_bytes", program.object_bytes)?;
    let offsets = program.operand_start;
    let end = offsets.last().map(|&last| usize::try_from(last));
    if offsets.first() != Some(&0) || end != Some(Ok(program.operand.len())) || offsets.windows(2).any(|w| w[0] > w[1])
    {
        return Err(Error::value("operand_start", format!("{end:?}"), "offsets rise from 0 to the number of operands"));
    }
    let objects = program.object_bytes.len() as i64;
    let below = "an object's number is below the objects";
    every("operand", program.operand, below, |object| (0..objects).contains(&object))?;
    every("output", program.output, below, |object| (-1..objects).contains(&object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(hosts: usize) -> Hosts {
        Hosts { hosts, bytes_per_s: 2.0, latency_s: 0.5 }
    }

    /// Two independent operations of 4 s, and one of 1 s that needs both results (of 3 bytes each: 2 s to fetch).
    fn diamond() -> Program<'static> {
        Program {
            duration_s: &[4.0, 4.0, 1.0],
            operand_start: &[0, 1, 2, 4],
            operand: &[0, 0, 1, 2],
            output: &[1, 2, 3],
            object_bytes: &[8.0, 3.0, 3.0, 3.0],
        }
    }

    #[test]
    fn one_host_runs_all_in_turn() {
        let got = dispatch(&diamond(), &hosts(1)).unwrap();
        assert_eq!((got.total_s, got.sent_bytes, got.host), (9.0, 0.0, vec![0, 0, 0]));
        assert_eq!(got.start_s, [0.0, 4.0, 8.0]);
    }

    #[test]
    fn two_hosts_run_side_by_side_and_fetch_one_result() {
        let got = dispatch(&diamond(), &hosts(2)).unwrap();
        assert_eq!(got.host, [0, 1, 0]);
        assert_eq!((got.total_s, got.sent_bytes), (7.0, 3.0));
        assert_eq!(got.receiving_s, [2.0, 0.0]);
    }

    #[test]
    fn what_was_fetched_is_kept() {
        // 0 makes object 0 on host 0; two long operations keep host 0 busy, so host 1 fetches, and uses it twice.
        let program = Program {
            duration_s: &[1.0, 100.0, 1.0, 1.0],
            operand_start: &[0, 0, 1, 2, 3],
            operand: &[0, 0, 0],
            output: &[0, 1, 2, 3],
            object_bytes: &[4.0; 4],
        };
        let got = dispatch(&program, &hosts(2)).unwrap();
        assert_eq!(got.host, [0, 0, 1, 1]);
        assert_eq!((got.sent_bytes, got.start_s), (4.0, vec![0.0, 1.0, 3.5, 4.5]));
    }

    #[test]
    fn bad_input_is_named() {
        let message = |program: Program<'_>| dispatch(&program, &hosts(2)).unwrap_err().to_string();
        assert!(message(Program { operand: &[0, 0, 1, 9], ..diamond() }).contains("operand[3] is 9"));
        assert!(message(Program { output: &[1, 2, -2], ..diamond() }).contains("output[2] is -2"));
        assert!(message(Program { duration_s: &[1.0, f64::NAN, 1.0], ..diamond() }).contains("duration_s[1]"));
        assert!(message(Program { operand_start: &[0, 1, 2, 5], ..diamond() }).contains("operand_start"));
        assert!(dispatch(&diamond(), &hosts(0)).is_err());
        assert!(dispatch(&diamond(), &Hosts { bytes_per_s: 0.0, ..hosts(2) }).is_err());
    }
}
