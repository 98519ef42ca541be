//! The inside of operations: kernels over limbs on the units of a machine, by list scheduling.
//!
//! An operation is a graph of kernels. A **node** is one limb of one kernel. It needs the limb of the same number of
//! some kernels of its operation (`each`), all limbs of others (`whole`), and, where it reads an operand, the limb of
//! the same number of every earlier operation whose result the operation reads (`source`).
//!
//! - A unit has ports. A node holds one port of its unit for the time that a limb takes, or for the time that its data
//!   pass the scratchpad or the register file if that is longer; its result is there one latency of the unit later. A node without a
//!   unit takes no time.
//! - Units may be **chained**: a node begins to read an incomplete limb of the same operation. It starts so
//!   early that it never overruns the node before it: ahead of that node's result by `chaining` times the shorter of
//!   both durations. `chaining` is 0 where a node waits for complete limbs.
//! - The scratchpad serves one node at a time, from the start of the node on. So does the register file.
//! - Operations are looked at in program order, `window` of them from the oldest that has not left. An operation may
//!   enter once its sources have entered and one of its nodes has all that it needs. It enters if nothing is inside, or
//!   if the capacity has room for its bytes next to those of the others inside. The oldest that could start goes first, and none overtakes it for want of room.
//!   An operation leaves when all its nodes are done; one without nodes leaves when its sources have left.
//! - A limb of a result is there when all result nodes of that number are done; one that no node makes is there when
//!   the operation has left.
//! - Whenever a port is free, its unit starts the ready node of the oldest operation; within an operation that with the
//!   longest way to the end, then the first. A unit whose first node finds a memory busy
//!   waits for it. Of several units the one with the older node starts first.
//!
//! The **critical path** is the end of the program if nodes waited for results only. It, the busy time of each unit
//! over its ports, and the busy time of each memory are never above the total.

mod input;
mod play;
mod shapes;

pub use input::{Kernels, OPERAND, Operations, RESULT, Units};
pub use play::{Placed, ScheduledKernels, schedule_kernels};

#[cfg(test)]
mod tests;
