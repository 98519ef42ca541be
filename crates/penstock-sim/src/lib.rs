//! The engine of penstock. Two steps, kept apart so that one replay serves many tiers:
//!
//! 1. [`replay`] plays accesses through one on-chip cache and says how many bytes each operation
//!    loads from the backing tier. It knows nothing of time.
//! 2. [`Work::play`] plays those bytes and the compute time of each operation through a tier, and
//!    says how long it takes.
//!
//! A slow twin in Python (`tests/twins`) follows the same rules, integer for integer.
//!
//! # Cache
//!
//! An access asks for `bytes >= 1` of an object. The needs of one object are nested: an access of
//! `b` bytes reads the same first `b` bytes as any other (an evaluation key used at fewer limbs
//! reads a part of the key, and that part is inside every larger one). So residency is one number
//! an object: how many bytes of it are in the cache.
//!
//! Let `r` be that number when an access asks for `b`.
//! - `r >= b`: a **hit**; `b` bytes are served from the cache.
//! - `r < b`: a **miss** and one transfer; `r` bytes are served from the cache and `b - r` are
//!   loaded. The object then has `b` bytes resident, unless
//!   - `b` is larger than the whole cache: the access is **streamed** (counted), or
//!   - the policy declines (Belady): the access is bypassed.
//!
//!   In both cases the loaded bytes pass by and the `r` resident bytes stay.
//! - A resident object is touched by every access to it, hit or miss.
//! - Objects leave whole. They never shrink.
//!
//! The cache starts empty. Nothing is written back: cached data (keys, encoded constants) is only read. Accesses of one
//! operation are played in their order.
//!
//! # Time
//!
//! Operation `i` has a compute time `c[i]`, a transfer time `x[i] = bytes / bandwidth + transfers *
//! latency` and a decode time `d[i] = bytes / decode rate` (0 without a decode stage).
//!
//! - [`Mode::Serial`]: nothing overlaps; the total is the sum of all `c + x + d`.
//! - [`Mode::Bound`]: everything overlaps; the total is the largest of the three sums.
//! - [`Mode::Overlap`]: one channel, one decode stage and one compute unit, each in program order,
//!   with `depth + 1` buffers. The transfer of an operation takes a buffer, and its end of compute
//!   gives it back, so transfers run ahead of compute by at most `depth` operations:
//!
//! ```text
//! x_start[i] = max(x_end[i-1], c_end[i-1-depth])
//! x_end[i]   = x_start[i] + x[i]
//! d_start[i] = max(x_end[i], d_end[i-1]);      d_end[i] = d_start[i] + d[i]
//! c_start[i] = max(d_end[i], c_end[i-1]);      c_end[i] = c_start[i] + c[i]
//! ```
//!
//!   Times before the first operation are 0. Depth 0 is serial; depth 1 is double buffering; to keep all three stages
//!   busy takes depth 2. For `n` equal operations without decoding and depth 1 or more, the total is `x + (n - 1)
//!   max(c, x) + c`. Prefetching never changes the loads: the replay has decided them in program order.
//!
//! # Several levels, and prefetching within a buffer
//!
//! [`play_stages`] takes any number of stages (a channel for each memory level, decoding, compute, communication), each
//! in program order, in the same three modes. In `overlap` the first stage runs ahead of the end of the last by at most
//! `depth` operations, and only so far that the bytes of all active operations fit a buffer. Operation `i` starts after
//! the end of the last operation `j` with `bytes[j] + … + bytes[i]` above the buffer. One that is larger than the
//! buffer waits until all before it have ended. Without a depth that is perfect prefetching: everything as early as the
//! buffer allows, in program order, which for an oblivious program is known. A depth for each operation is a prefetcher
//! of the user's own.
//!
//! # Clock
//!
//! Each duration is computed in `f64` seconds and rounded once, half to even, to a whole number of attoseconds (10^-18
//! s) in an `i128`; all sums and maxima after that are exact. A picosecond would be too coarse here: half of one is
//! 5e-7 of a microsecond, and equal operations all round the same way. The range is that of the `i64` picosecond clock
//! of event-driven simulations, about 106 days; past it a play fails with [`Error::ClockOverflow`].
//!
//! # Clusters
//!
//! [`play_rounds`] says how long messages take that share the links of a network, and [`dispatch`]
//! puts whole operations on hosts. Both count in `f64` seconds: the flow model divides rates at
//! every event, so whole attoseconds would promise more than it holds.
//!
//! # The inside of operations
//!
//! [`schedule_kernels`] puts the kernels of operations, limb by limb, on the units of a machine.
//!
//! # Drives
//!
//! [`ssd`] plays the reads and writes of a solid-state drive, event by event, in whole picoseconds.

#![forbid(unsafe_code)]

mod accesses;
mod cache;
mod clock;
mod dispatch;
mod error;
mod flows;
mod forced;
#[cfg(test)]
#[path = "../../../examples/most_recent.rs"]
mod most_recent;
mod own;
mod play;
pub mod policy;
mod position_set;
mod replay;
mod rings;
mod schedule;
pub mod ssd;
mod stages;

pub use accesses::Accesses;
pub use cache::{CacheTotals, Replay};
pub use clock::{LIMIT_ATTOSECONDS, seconds};
pub use dispatch::{Dispatched, Hosts, Program, dispatch};
pub use error::Error;
pub use flows::{Network, Rounds, Sharing, play_rounds};
pub use forced::{ForcedReplay, replay_forced};
pub use own::{Priorities, Uses, replay_priorities, replay_under, uses};
pub use play::{Mode, OperationTimes, Schedule, Tier, TimeTotals, Work};
pub use replay::{replay, replay_uncached};
pub use schedule::{Kernels, OPERAND, Operations, Placed, RESULT, ScheduledKernels, Units, schedule_kernels};
pub use stages::{StageMode, StageSchedule, StageTotals, Window, play_stages};

/// Asked every few million steps whether to stop; `true` ends the run with [`Error::Interrupted`].
pub type Watch<'a> = dyn FnMut() -> bool + 'a;

/// Steps between two questions to a [`Watch`]: some tens of milliseconds.
pub(crate) const WATCH_MASK: usize = (1 << 21) - 1;
