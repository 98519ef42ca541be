//! Nodes on the ports of units, event by event.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::input::{Kernels, Operations, Units, check_kernels, check_operations, check_units, span};
use super::shapes::{NO_UNIT, Node, Shape, critical, shape_at, shapes_of};
use crate::clock::{self, Attoseconds, seconds};
use crate::error::conserve;
use crate::{Error, WATCH_MASK, Watch};

/// The outcome of a schedule.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScheduledKernels {
    pub total_s: f64,
    /// `(n,)` the start of the first node of each operation.
    pub start_s: Vec<f64>,
    /// `(n,)` when each operation leaves.
    pub end_s: Vec<f64>,
    /// `(units,)` busy time of all ports of each unit together.
    pub busy_s: Vec<f64>,
    /// Busy time of the scratchpad.
    pub memory_s: f64,
    /// The same of the register file.
    pub registers_s: f64,
    pub critical_s: f64,
    /// The nodes that were asked for, in the order in which they start.
    pub placed: Vec<Placed>,
}

/// One node in time; at the end its port is free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed {
    pub operation: i64,
    pub kernel: i64,
    pub limb: i64,
    pub start_s: f64,
    pub end_s: f64,
}

/// Puts the kernels of operations on units. The module says by which rules.
///
/// `listed`: the nodes of so many first operations are in the outcome.
///
/// # Errors
/// Lengths differ; an index, a time or a number of ports breaks a rule; [`Error::ClockOverflow`];
/// [`Error::Interrupted`].
pub fn schedule_kernels(
    kernels: &Kernels<'_>,
    operations: &Operations<'_>,
    units: &Units<'_>,
    listed: usize,
    watch: &mut Watch<'_>,
) -> Result<ScheduledKernels, Error> {
    check_units(units)?;
    check_kernels(kernels, units.ports.len())?;
    check_operations(operations, kernels.held_bytes.len())?;
    let (shapes, limbs) = shapes_of(kernels, units)?;
    let mut play = Play::new(&shapes, operations, units, listed, limbs);
    play.run(watch)?;
    conserve("operations that have left", play.oldest as i128, operations.shape.len() as i128)?;
    let critical = critical(&shapes, operations, limbs);
    let all = |times: &[Attoseconds]| times.iter().map(|&time| seconds(time)).collect();
    Ok(ScheduledKernels {
        total_s: seconds(play.end.iter().copied().max().unwrap_or(0)),
        start_s: all(&play.start),
        end_s: all(&play.end),
        busy_s: all(&play.busy),
        memory_s: seconds(play.memories[0]),
        registers_s: seconds(play.memories[1]),
        critical_s: seconds(critical),
        placed: play.placed,
    })
}

/// An operation that is looked at.
#[derive(Debug, Default)]
struct Inside {
    /// Whether it is inside.
    entered: bool,
    /// Nodes that could start, were it inside.
    parked: Vec<u32>,
    /// Sources that have not entered.
    outside: u32,
    /// Later operations that wait for it to enter.
    dependents: Vec<u32>,
    /// Results that each node still waits for.
    pending: Vec<u32>,
    /// Last nodes that are not done; without nodes: sources that have not left.
    left: u32,
    /// Result nodes of each limb that are not done.
    makers: Vec<u32>,
    /// Per limb: nodes of later operations that wait for it.
    waiting: Vec<Vec<(u32, u32)>>,
    /// Later operations without nodes, which wait for the end.
    followers: Vec<u32>,
}

/// (time, operation, node or group); the smallest time first.
type Event = Reverse<(Attoseconds, u32, u32)>;

/// Bit of an event: a group of nodes may start ahead of a result. Without it: a node is done.
const AHEAD: u32 = 1 << 31;
const NEVER: Attoseconds = -1;

struct Play<'a> {
    shapes: &'a [Shape],
    operations: &'a Operations<'a>,
    capacity: f64,
    window: usize,
    listed: usize,
    limbs: usize,
    inside: Vec<Option<Box<Inside>>>,
    /// Left by earlier operations, for later ones.
    #[allow(clippy::vec_box)] // They go back into boxes as they are.
    spare: Vec<Box<Inside>>,
    /// The operations inside, in program order.
    order: Vec<u32>,
    /// Operations that could start, were they inside.
    candidates: BTreeSet<u32>,
    /// The oldest operation that has not left.
    oldest: usize,
    /// The first operation that is not looked at yet.
    next: usize,
    now: Attoseconds,
    /// Per unit: when each port is free.
    ports: Vec<Vec<Attoseconds>>,
    /// Per unit: when the first port is free.
    earliest: Vec<Attoseconds>,
    /// When the scratchpad and the register file are free.
    memories_free: [Attoseconds; 2],
    /// Per unit: (operation, place in its order).
    ready: Vec<BinaryHeap<Reverse<(u32, u32)>>>,
    events: BinaryHeap<Event>,
    /// Nodes whose results are there, and nobody has been told.
    finished: Vec<(u32, u32)>,
    start: Vec<Attoseconds>,
    end: Vec<Attoseconds>,
    busy: Vec<Attoseconds>,
    memories: [Attoseconds; 2],
    placed: Vec<Placed>,
}

impl<'a> Play<'a> {
    fn new(
        shapes: &'a [Shape],
        operations: &'a Operations<'a>,
        units: &Units<'_>,
        listed: usize,
        limbs: usize,
    ) -> Self {
        let n = operations.shape.len();
        Self {
            shapes,
            operations,
            capacity: units.capacity_bytes,
            window: usize::try_from(units.window).unwrap_or(1),
            listed,
            limbs,
            inside: (0..n).map(|_| None).collect(),
            spare: Vec::new(),
            order: Vec::new(),
            candidates: BTreeSet::new(),
            oldest: 0,
            next: 0,
            now: 0,
            ports: units.ports.iter().map(|&ports| vec![0; usize::try_from(ports).unwrap_or(1)]).collect(),
            earliest: vec![0; units.ports.len()],
            memories_free: [0; 2],
            ready: units.ports.iter().map(|_| BinaryHeap::new()).collect(),
            events: BinaryHeap::new(),
            finished: Vec::new(),
            start: vec![NEVER; n],
            end: vec![NEVER; n],
            busy: vec![0; units.ports.len()],
            memories: [0; 2],
            placed: Vec::new(),
        }
    }

    fn run(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        let mut steps = 0_usize;
        self.settle();
        loop {
            self.dispatch();
            let Some(time) = self.next_time() else { return Ok(()) };
            clock::check(time, || format!("before operation {}", self.next))?;
            self.now = time;
            while let Some(&Reverse((at, operation, what))) = self.events.peek() {
                if at > time {
                    break;
                }
                self.events.pop();
                if what & AHEAD == 0 {
                    self.finished.push((operation, what));
                } else {
                    self.go_ahead(operation, what & !AHEAD);
                }
                steps += 1;
                if steps & WATCH_MASK == WATCH_MASK && watch() {
                    return Err(Error::Interrupted);
                }
            }
            self.settle();
        }
    }

    /// When something happens next: a result is there, or a node that is ready can start.
    fn next_time(&self) -> Option<Attoseconds> {
        let result = self.events.peek().map(|&Reverse((time, ..))| time);
        let starts = self.ready.iter().enumerate().filter_map(|(unit, ready)| {
            ready.peek().map(|&Reverse((operation, order))| self.start_on(unit, operation, order))
        });
        starts.chain(result).min()
    }

    /// When a node could start on its unit, for all that is under way.
    fn start_on(&self, unit: usize, operation: u32, order: u32) -> Attoseconds {
        let wanted = self.node_at(operation, order).1.memories;
        let taken = wanted.iter().zip(self.memories_free).filter(|&(&time, _)| time > 0).map(|(_, free)| free);
        taken.fold(self.earliest[unit], Attoseconds::max)
    }

    fn shape(&self, operation: u32) -> &'a Shape {
        &self.shapes[shape_at(self.operations, operation as usize, self.shapes)]
    }

    fn node_at(&self, operation: u32, order: u32) -> (u32, &'a Node) {
        let shape = self.shape(operation);
        let node = shape.by_order[order as usize];
        (node, &shape.nodes[node as usize])
    }

    /// All that takes no time: results are told, operations leave and enter.
    fn settle(&mut self) {
        loop {
            while let Some((operation, node)) = self.finished.pop() {
                self.tell(operation, node);
            }
            while self.next < self.operations.shape.len().min(self.oldest.saturating_add(self.window)) {
                self.next += 1;
                self.look_at((self.next - 1) as u32);
            }
            if !self.admit() {
                return;
            }
        }
    }

    /// So much of a result is there that a group of nodes may read it.
    fn go_ahead(&mut self, operation: u32, group: u32) {
        let Some(mut inside) = self.inside[operation as usize].take() else { return };
        let shape = self.shape(operation);
        self.tell_group(operation, &mut inside, shape.nodes_of(shape.group(group)));
        self.inside[operation as usize] = Some(inside);
    }

    fn tell_group(&mut self, operation: u32, inside: &mut Inside, nodes: &[u32]) {
        for &next in nodes {
            inside.pending[next as usize] -= 1;
            if inside.pending[next as usize] == 0 {
                self.make_ready(operation, next);
            }
        }
    }

    /// The result of a node is there.
    fn tell(&mut self, operation: u32, node: u32) {
        let Some(mut inside) = self.inside[operation as usize].take() else { return };
        let shape = self.shape(operation);
        for group in shape.groups_of(node as usize).iter().filter(|group| group.lead == 0) {
            self.tell_group(operation, &mut inside, shape.nodes_of(group));
        }
        let done = &shape.nodes[node as usize];
        if done.result {
            let limb = done.limb as usize;
            inside.makers[limb] -= 1;
            if inside.makers[limb] == 0 {
                self.release(&mut inside.waiting[limb]);
            }
        }
        inside.left -= u32::from(done.last);
        if inside.left == 0 {
            self.leave(operation, inside);
        } else {
            self.inside[operation as usize] = Some(inside);
        }
    }

    /// A limb is there, for which nodes of later operations wait.
    fn release(&mut self, waiting: &mut Vec<(u32, u32)>) {
        for (operation, node) in waiting.drain(..) {
            let Some(inside) = &mut self.inside[operation as usize] else { continue };
            inside.pending[node as usize] -= 1;
            if inside.pending[node as usize] > 0 {
                continue;
            }
            if inside.entered {
                self.make_ready(operation, node);
            } else {
                inside.parked.push(node);
                if inside.outside == 0 {
                    self.candidates.insert(operation);
                }
            }
        }
    }

    /// A node of an operation inside has all that it needs.
    fn make_ready(&mut self, operation: u32, node: u32) {
        let found = &self.shape(operation).nodes[node as usize];
        if found.unit == NO_UNIT {
            self.note_start(operation);
            self.finished.push((operation, node));
        } else {
            self.ready[found.unit as usize].push(Reverse((operation, found.order)));
        }
    }

    fn note_start(&mut self, operation: u32) {
        let start = &mut self.start[operation as usize];
        if *start == NEVER {
            *start = self.now;
        }
    }

    /// An operation is done, and with it later ones without nodes.
    fn leave(&mut self, operation: u32, inside: Box<Inside>) {
        let mut leaving = vec![(operation, inside)];
        while let Some((operation, mut inside)) = leaving.pop() {
            self.note_start(operation);
            self.end[operation as usize] = self.now;
            self.order.retain(|&each| each != operation);
            while self.end.get(self.oldest).is_some_and(|&end| end != NEVER) {
                self.oldest += 1;
            }
            for limb in 0..inside.waiting.len() {
                let mut waiting = std::mem::take(&mut inside.waiting[limb]);
                self.release(&mut waiting);
                inside.waiting[limb] = waiting;
            }
            self.has_entered(&mut inside.dependents);
            for later in inside.followers.drain(..) {
                let Some(mut found) = self.inside[later as usize].take() else { continue };
                found.left -= 1;
                if found.left == 0 {
                    leaving.push((later, found));
                } else {
                    self.inside[later as usize] = Some(found);
                }
            }
            self.spare.push(inside);
        }
    }

    /// Lets the oldest operation in that could start; gives whether it has room.
    fn admit(&mut self) -> bool {
        let Some(&entering) = self.candidates.first() else { return false };
        if !self.order.is_empty() {
            // Summed anew in program order, as sums of floats depend on their order.
            let held: f64 = self.order.iter().map(|&each| self.shape(each).held).sum();
            if held + self.shape(entering).held > self.capacity {
                return false;
            }
        }
        self.candidates.remove(&entering);
        let Some(inside) = &mut self.inside[entering as usize] else { return true };
        inside.entered = true;
        let mut dependents = std::mem::take(&mut inside.dependents);
        for node in std::mem::take(&mut inside.parked) {
            self.make_ready(entering, node);
        }
        self.has_entered(&mut dependents);
        let place = self.order.partition_point(|&each| each < entering);
        self.order.insert(place, entering);
        true
    }

    /// An operation has entered, or left without entering.
    fn has_entered(&mut self, dependents: &mut Vec<u32>) {
        for later in dependents.drain(..) {
            let Some(inside) = &mut self.inside[later as usize] else { continue };
            inside.outside -= 1;
            if inside.outside == 0 && !inside.parked.is_empty() {
                self.candidates.insert(later);
            }
        }
    }

    /// Notes the results that an operation waits for.
    fn look_at(&mut self, operation: u32) {
        let (shape, shapes) = (self.shape(operation), self.shapes);
        let sources = &self.operations.source[span(self.operations.source_start, operation as usize)];
        let mut inside = self.spare.pop().unwrap_or_default();
        inside.entered = false;
        inside.outside = 0;
        inside.pending.clone_from(&shape.needs);
        inside.makers.clone_from(&shape.makers);
        inside.waiting.resize_with(self.limbs, Vec::new);
        inside.left = shape.last;
        for &source in sources {
            let made = &shapes[shape_at(self.operations, source as usize, shapes)].makers;
            let Some(found) = &mut self.inside[source as usize] else { continue };
            if shape.nodes.is_empty() {
                found.followers.push(operation);
                inside.left += 1;
            }
            if !found.entered {
                found.dependents.push(operation);
                inside.outside += 1;
            }
            for (i, node) in shape.nodes.iter().enumerate().filter(|(_, node)| node.operand) {
                let limb = node.limb as usize;
                // A limb that no node makes is there at the end.
                if found.makers[limb] > 0 || made[limb] == 0 {
                    found.waiting[limb].push((operation, i as u32));
                    inside.pending[i] += 1;
                }
            }
        }
        if inside.left == 0 {
            self.leave(operation, inside);
            return;
        }
        inside.parked.extend((0..inside.pending.len() as u32).filter(|&i| inside.pending[i as usize] == 0));
        if inside.outside == 0 && !inside.parked.is_empty() {
            self.candidates.insert(operation);
        }
        self.inside[operation as usize] = Some(inside);
    }

    /// Starts every node that can start now.
    fn dispatch(&mut self) {
        loop {
            let mut first: Option<(u32, u32, usize)> = None;
            for (unit, ready) in self.ready.iter().enumerate() {
                let Some(&Reverse((operation, order))) = ready.peek() else { continue };
                let older = first.is_some_and(|found| found < (operation, order, unit));
                if !older && self.start_on(unit, operation, order) <= self.now {
                    first = Some((operation, order, unit));
                }
            }
            let Some((operation, order, unit)) = first else { return };
            self.ready[unit].pop();
            self.begin(operation, order, unit);
        }
    }

    /// A node starts on its unit.
    fn begin(&mut self, operation: u32, order: u32, unit: usize) {
        let (i, node) = self.node_at(operation, order);
        self.note_start(operation);
        let freed = self.now + node.busy;
        self.take_port(unit, freed);
        self.busy[unit] += node.busy;
        for (i, time) in node.memories.into_iter().enumerate().filter(|&(_, time)| time > 0) {
            self.memories_free[i] = self.now + time;
            self.memories[i] += time;
        }
        let done = freed + node.latency;
        let shape = self.shape(operation);
        let first = shape.first_group(i as usize);
        for (number, group) in shape.groups_of(i as usize).iter().enumerate() {
            if group.lead > 0 {
                self.events.push(Reverse((done - group.lead, operation, AHEAD | (first + number) as u32)));
            }
        }
        if node.told {
            self.events.push(Reverse((done, operation, i)));
        }
        if (operation as usize) < self.listed {
            self.placed.push(Placed {
                operation: i64::from(operation),
                kernel: i64::from(node.kernel),
                limb: i64::from(node.limb),
                start_s: seconds(self.now),
                end_s: seconds(freed),
            });
        }
    }

    /// The port that is free first is taken until `freed`.
    fn take_port(&mut self, unit: usize, freed: Attoseconds) {
        let ports = &mut self.ports[unit];
        if let Some(port) = ports.iter_mut().min() {
            *port = freed;
        }
        self.earliest[unit] = ports.iter().copied().min().unwrap_or(freed);
    }
}
