//! A solid-state drive, event by event, at page granularity and in whole picoseconds.
//!
//! # What happens to a page
//!
//! The scan asks for pages in order, or at random, with at most `queue_depth` under way. A request
//! finds its page's place (the table of places may have to be read first), joins its die's queue, and
//! then: a command on the channel's bus; a sense in the die; its data on the bus; error correction, a
//! pipeline in which pages do not wait for each other; and then to the host through DRAM and PCIe, or
//! into the buffer of the accelerator that its channel feeds, or nowhere. A page that fails error
//! correction goes back to the front of its die's queue.
//!
//! One command takes as many neighbours in a die's queue as are in the same row and different planes.
//! Without cache reads, a die begins nothing until its register is sent; with them, it senses behind
//! the register. Reads and writes of a die that both wait take turns.
//!
//! DRAM, eDRAM, each direction of PCIe and the aggregator serve one after another in order of arrival.
//! A page needs room where it goes (the host's buffer, or a consumer's) before it gets the bus; channels
//! without room wait in line.
//!
//! # Who gets a bus
//!
//! - `pipelined`: a read command or an erase first, dies in turn; else data to send or to program, in turn where both
//!   wait. Every die works independently.
//! - `convoy`: data to send first, then commands, then data to program; and only one die of a chip works
//!   at a time. All dies sense together and send one after another, and while they sense the bus idles.
//!
//! A die that has sent a page and has another goes on; else dies take turns.
//!
//! # Order
//!
//! Events are ordered by time, kind and entry (`calendar`). Buses are given when all events of
//! an instant have happened, channel by channel, so the order of events of one instant does not decide
//! who finds which pages in a queue.
//!
//! # Writes
//!
//! A write is done for the host when it is in the write buffer. Its page goes to the plane that its
//! number names, to the next page of that plane's open block. A plane with too few free blocks moves the
//! valid pages of its full block with the most invalid ones, one at a time, and erases it; or, where all
//! its free blocks have been erased much more often, of its least worn one. The table's own writes are not played.
//!
//! # Modules
//!
//! `spec` is the input. `calendar`, `jobs`, `flash`, `consumer`, `source`, `table` and `translation` are the parts of a
//! drive, `observer` is told when they are busy, and `state` is all of them: a `Run`. What happens to it is in
//! `lookup`, `requests`, `serving`, `writing`, `way` and `buses`, each of which calls those before it; `period` jumps;
//! `counting` is what it has done so far; `run` is the loop on top.

mod buses;
mod calendar;
mod consumer;
mod counting;
mod flash;
mod histogram;
mod jobs;
mod layout;
mod lookup;
mod observer;
mod period;
mod requests;
mod result;
mod run;
mod serving;
mod source;
mod spec;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod translation;
mod way;
mod writing;

pub use histogram::Histogram;
pub use observer::{Interval, Lane, Recording};
pub use result::{ConsumerResult, RunResult};
pub use run::{play, play_recorded};
pub use spec::{Behaviour, ConsumerSpec, Geometry, MappingSpec, RunSpec, Timing, TrafficSpec};
