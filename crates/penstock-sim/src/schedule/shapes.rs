//! Operations as nodes that wait for each other.

use std::cmp::Reverse;

use super::input::{Kernels, OPERAND, Operations, RESULT, Units, span};
use crate::Error;
use crate::clock::{Attoseconds, attoseconds};

/// The unit of a node that takes no time.
pub(super) const NO_UNIT: u32 = u32::MAX;

/// One limb of one kernel.
#[derive(Debug)]
pub(super) struct Node {
    pub kernel: u32,
    pub unit: u32,
    pub limb: u32,
    /// Of the port, latency apart.
    pub busy: Attoseconds,
    /// In which it has the scratchpad, and the register file.
    pub memories: [Attoseconds; 2],
    pub latency: Attoseconds,
    pub operand: bool,
    pub result: bool,
    /// Whether no node of the operation waits for it. Such nodes end an operation: none ends before those it reads.
    pub last: bool,
    /// Whether anything waits for its whole result, or for its end.
    pub told: bool,
    /// Place in the order in which the nodes of an operation are preferred.
    pub order: u32,
}

/// Nodes that may start ahead of a result by the same time.
#[derive(Debug)]
pub(super) struct Group {
    pub lead: Attoseconds,
    start: u32,
    end: u32,
}

/// One shape with its nodes.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub nodes: Vec<Node>,
    /// Node at each place of the order.
    pub by_order: Vec<u32>,
    /// How many nodes of the operation each waits for.
    pub needs: Vec<u32>,
    groups_start: Vec<u32>,
    groups: Vec<Group>,
    next: Vec<u32>,
    /// Result nodes of each limb.
    pub makers: Vec<u32>,
    /// Nodes for which no node waits.
    pub last: u32,
    pub held: f64,
}

/// The shapes, and behind them one without nodes.
pub(super) fn shapes_of(kernels: &Kernels<'_>, units: &Units<'_>) -> Result<(Vec<Shape>, usize), Error> {
    let latencies = units.latency_s.iter().map(|&each| duration(each)).collect::<Result<Vec<_>, _>>()?;
    let limbs = kernels.limb.iter().max().map_or(0, |&most| most as usize + 1);
    let mut found = Vec::with_capacity(kernels.held_bytes.len() + 1);
    for shape in 0..kernels.held_bytes.len() {
        found.push(Shape::new(kernels, shape, limbs, &latencies, units.chaining)?);
    }
    found.push(Shape { makers: vec![0; limbs], groups_start: vec![0], ..Shape::default() });
    Ok((found, limbs))
}

fn duration(value: f64) -> Result<Attoseconds, Error> {
    attoseconds(value).ok_or_else(|| Error::ClockOverflow { at: "within one limb".to_owned() })
}

impl Shape {
    fn new(
        kernels: &Kernels<'_>,
        shape: usize,
        limbs: usize,
        latencies: &[Attoseconds],
        chaining: f64,
    ) -> Result<Self, Error> {
        let mut nodes = Vec::new();
        // First node of each kernel, and the node of each limb of each kernel.
        let (mut first, mut at) = (Vec::new(), Vec::new());
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for (k, kernel) in span(kernels.kernel_start, shape).enumerate() {
            first.push(nodes.len() as u32);
            at.push(vec![None; limbs]);
            let unit = u32::try_from(kernels.unit[kernel]).unwrap_or(NO_UNIT);
            let memories = [duration(kernels.memory_s[kernel])?, duration(kernels.registers_s[kernel])?];
            let (busy, memories, latency) = match unit {
                NO_UNIT => (0, [0, 0], 0),
                _ => {
                    let limb = duration(kernels.limb_s[kernel])?;
                    (limb.max(memories[0]).max(memories[1]), memories, latencies[unit as usize])
                }
            };
            let flags = kernels.flags[kernel];
            let (operand, result) = (flags & OPERAND != 0, flags & RESULT != 0);
            for &limb in &kernels.limb[span(kernels.limb_start, kernel)] {
                let node = nodes.len() as u32;
                at[k][limb as usize] = Some(node);
                let (kernel_number, limb_number) = (k as u32, limb as u32);
                for &earlier in &kernels.each[span(kernels.each_start, kernel)] {
                    edges.extend(at[earlier as usize][limb as usize].map(|source| (source, node)));
                }
                for &earlier in &kernels.whole[span(kernels.whole_start, kernel)] {
                    // A kernel needs earlier ones, so the next kernel has begun.
                    let earlier = earlier as usize;
                    edges.extend((first[earlier]..first[earlier + 1]).map(|source| (source, node)));
                }
                nodes.push(Node {
                    kernel: kernel_number,
                    unit,
                    limb: limb_number,
                    busy,
                    memories,
                    latency,
                    operand,
                    result,
                    last: false,
                    told: false,
                    order: 0,
                });
            }
        }
        let mut found = Shape { held: kernels.held_bytes[shape], makers: vec![0; limbs], ..Shape::default() };
        for node in nodes.iter().filter(|node| node.result) {
            found.makers[node.limb as usize] += 1;
        }
        found.connect(edges, &nodes, chaining);
        found.prefer(&mut nodes);
        for (i, node) in nodes.iter_mut().enumerate() {
            let groups = found.groups_of(i);
            node.last = groups.is_empty();
            node.told = node.last || node.result || groups.iter().any(|group| group.lead == 0);
            found.last += u32::from(node.last);
        }
        found.nodes = nodes;
        Ok(found)
    }

    fn connect(&mut self, mut edges: Vec<(u32, u32)>, nodes: &[Node], chaining: f64) {
        edges.sort_unstable();
        edges.dedup();
        let lead = |source: u32, node: u32| {
            let shorter = nodes[source as usize].busy.min(nodes[node as usize].busy);
            (shorter as f64 * chaining) as Attoseconds
        };
        let mut led: Vec<(u32, Reverse<Attoseconds>, u32)> =
            edges.into_iter().map(|(source, node)| (source, Reverse(lead(source, node)), node)).collect();
        led.sort_unstable();
        self.needs = vec![0; nodes.len()];
        self.next = led.iter().map(|&(.., node)| node).collect();
        let mut at = 0;
        for source in 0..nodes.len() as u32 {
            self.groups_start.push(self.groups.len() as u32);
            while at < led.len() && led[at].0 == source {
                let (lead, start) = (led[at].1.0, at as u32);
                while at < led.len() && led[at].0 == source && led[at].1.0 == lead {
                    self.needs[led[at].2 as usize] += 1;
                    at += 1;
                }
                self.groups.push(Group { lead, start, end: at as u32 });
            }
        }
        self.groups_start.push(self.groups.len() as u32);
    }

    /// Puts the nodes in order: the longest way to the end first.
    fn prefer(&mut self, nodes: &mut [Node]) {
        let mut rank: Vec<Attoseconds> = vec![0; nodes.len()];
        for i in (0..nodes.len()).rev() {
            let longest = |group: &Group| self.nodes_of(group).iter().map(|&node| rank[node as usize]).max();
            let behind =
                self.groups_of(i).iter().filter_map(|group| longest(group).map(|rank| rank - group.lead)).max();
            let behind = behind.unwrap_or(0);
            rank[i] = nodes[i].busy + nodes[i].latency + behind;
        }
        self.by_order = (0..nodes.len() as u32).collect();
        self.by_order.sort_by_key(|&node| (Reverse(rank[node as usize]), node));
        for (order, &node) in self.by_order.iter().enumerate() {
            nodes[node as usize].order = order as u32;
        }
    }

    /// The nodes that wait for a node, by how far they may start ahead of its result.
    pub(super) fn groups_of(&self, node: usize) -> &[Group] {
        &self.groups[self.groups_start[node] as usize..self.groups_start[node + 1] as usize]
    }

    pub(super) fn first_group(&self, node: usize) -> usize {
        self.groups_start[node] as usize
    }

    pub(super) fn group(&self, number: u32) -> &Group {
        &self.groups[number as usize]
    }

    pub(super) fn nodes_of(&self, group: &Group) -> &[u32] {
        &self.next[group.start as usize..group.end as usize]
    }
}

/// The number of the shape of an operation in `shapes_of`.
pub(super) fn shape_at(operations: &Operations<'_>, operation: usize, shapes: &[Shape]) -> usize {
    usize::try_from(operations.shape[operation]).unwrap_or(shapes.len() - 1)
}

/// The end of the program if nodes waited for results only.
pub(super) fn critical(shapes: &[Shape], operations: &Operations<'_>, limbs: usize) -> Attoseconds {
    let n = operations.shape.len();
    let mut last_reader = vec![0; n];
    for i in 0..n {
        for &source in &operations.source[span(operations.source_start, i)] {
            last_reader[source as usize] = i;
        }
    }
    // Per operation that is read later: its end, and when each limb of its result is there.
    let mut there: Vec<Option<(Attoseconds, Vec<Attoseconds>)>> = vec![None; n];
    let mut times: Vec<Attoseconds> = Vec::new();
    let mut total = 0;
    for i in 0..n {
        let sources = &operations.source[span(operations.source_start, i)];
        let shape = &shapes[shape_at(operations, i, shapes)];
        times.clear();
        times.resize(shape.nodes.len(), 0);
        let mut end = 0;
        let mut made = vec![0; limbs];
        for (source_end, ready) in sources.iter().filter_map(|&source| there[source as usize].as_ref()) {
            if shape.nodes.is_empty() {
                end = end.max(*source_end);
            }
            for (at, node) in shape.nodes.iter().enumerate().filter(|(_, node)| node.operand) {
                times[at] = times[at].max(ready[node.limb as usize]);
            }
        }
        for (at, node) in shape.nodes.iter().enumerate() {
            let time = times[at] + node.busy + node.latency;
            end = end.max(time);
            for group in shape.groups_of(at) {
                for &next in shape.nodes_of(group) {
                    times[next as usize] = times[next as usize].max(time - group.lead);
                }
            }
            if node.result {
                made[node.limb as usize] = made[node.limb as usize].max(time);
            }
        }
        for (ready, _) in made.iter_mut().zip(&shape.makers).filter(|(_, makers)| **makers == 0) {
            *ready = end;
        }
        total = total.max(end);
        for &source in sources.iter().filter(|&&source| last_reader[source as usize] == i) {
            there[source as usize] = None;
        }
        if last_reader[i] > i {
            there[i] = Some((end, made));
        }
    }
    total
}
