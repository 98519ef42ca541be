//! The measures, by the crates that are kept for them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope, path_beneath_rules,
};
use rustix::process::{Gid, Uid, getpid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

use crate::calls::{self, Bits, Kind};
use crate::{Error, Result};

/// The newest interface whose rights are asked for. An older kernel holds the rights that it knows.
const NEWEST: ABI = ABI::V7;

fn refused<E: Display>(what: &'static str) -> impl Fn(E) -> Error {
    move |error| Error::Refused { what, why: error.to_string() }
}

/// # Errors
/// The kernel refuses.
pub fn no_new_privileges() -> Result<()> {
    thread::set_no_new_privs(true).map_err(refused("no_new_privs"))
}

/// Whether the kernel has Landlock.
#[must_use]
pub fn has_landlock() -> bool {
    let asked = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::ReadFile);
    asked.and_then(Ruleset::create).is_ok()
}

/// Files, and folders with all below them.
#[derive(Default)]
pub struct Folders {
    /// Read, and their names listed.
    pub readable: Vec<PathBuf>,
    /// Names listed, and nothing read.
    pub listed: Vec<PathBuf>,
    /// Files made, changed, renamed within their folder and removed.
    pub writable: Vec<PathBuf>,
}

/// Bounds the process to folders, and keeps it from TCP, from abstract sockets and from signals to other processes.
/// Folders that are not there are left out. Returns the version of the kernel's interface.
///
/// # Errors
/// `NoLandlock`; the kernel refuses.
pub fn confine_to(folders: &Folders) -> Result<u32> {
    let list: BitFlags<AccessFs> = AccessFs::ReadDir.into();
    let read = list | AccessFs::ReadFile;
    let change = read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::RemoveFile;
    let bound = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(&folders.readable, read))?
            .add_rules(path_beneath_rules(&folders.listed, list))?
            .add_rules(path_beneath_rules(&folders.writable, change))?
            .restrict_self()
    };
    match bound().map_err(refused("Landlock"))?.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            Ok(kernel_abi.map_or(effective_abi as u32, i32::cast_unsigned))
        }
        _ => Err(Error::NoLandlock),
    }
}

/// From root to another user, without groups and without any capability but that to read all files, which folders
/// bound. Only the calling thread changes, so there may be no other one.
///
/// # Errors
/// `Threads`; the kernel refuses.
pub fn become_user(user: u32, group: u32) -> Result<()> {
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(Error::Threads(threads));
    }
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    let change = || {
        // Until the first number that this kernel does not know.
        for number in 0..u64::BITS {
            let one = CapabilitySet::from_bits_retain(1 << number);
            if thread::remove_capability_from_bounding_set(one).is_err_and(|error| error != rustix::io::Errno::INVAL) {
                return Err(rustix::io::Errno::PERM);
            }
        }
        thread::set_thread_groups(&[])?;
        thread::set_thread_res_gid(group, group, group)?;
        thread::set_keep_capabilities(true)?;
        thread::set_thread_res_uid(user, user, user)?;
        thread::set_keep_capabilities(false)?;
        let kept = CapabilitySet::DAC_READ_SEARCH;
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
        thread::set_capabilities(None, sets)
    };
    change().map_err(refused("another user"))
}

/// Allows the calls that a process of this kind needs; all others answer EPERM. Returns how many are allowed.
///
/// # Errors
/// The kernel refuses; this processor has no filter.
pub fn filter(kind: Kind) -> Result<usize> {
    let own = getpid().as_raw_nonzero().get().cast_unsigned();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = calls::free(kind).map(|call| (call, vec![])).collect();
    for Bits { call, argument, mask, values } in calls::bounded(kind, own) {
        let rule = |value| {
            let equal = SeccompCmpOp::MaskedEq(mask);
            SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, equal, value)?])
        };
        let made: std::result::Result<Vec<_>, _> = values.into_iter().map(rule).collect();
        rules.insert(call, made.map_err(refused("seccomp"))?);
    }
    let allowed = rules.len();
    // The flags of `clone3` lie in memory, which no filter reads: the C library falls back to `clone`. The stricter of
    // two filters answers, so the second one lets it pass.
    rules.insert(libc::SYS_clone3, vec![]);
    let fallback = BTreeMap::from([(libc::SYS_clone3, vec![])]);
    install(fallback, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS.cast_unsigned()))?;
    install(rules, SeccompAction::Errno(libc::EPERM.cast_unsigned()), SeccompAction::Allow)?;
    Ok(allowed)
}

fn install(rules: BTreeMap<i64, Vec<SeccompRule>>, others: SeccompAction, these: SeccompAction) -> Result<()> {
    let processor = std::env::consts::ARCH.try_into().map_err(refused("seccomp"))?;
    let made = SeccompFilter::new(rules, others, these, processor).map_err(refused("seccomp"))?;
    let program: BpfProgram = made.try_into().map_err(refused("seccomp"))?;
    apply_filter_all_threads(&program).map_err(refused("seccomp"))
}
