//! The system calls of a bounded process: all others are refused. Found by tracing workers and examinations; near
//! relatives are there for other versions of the C library.

use libc::c_long;

/// Kinds of processes, by their rights.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Starts threads, writes files.
    Computing,
    /// Has one thread, and writes only to descriptors that it has.
    Examining,
}

/// Of every process: reading, memory, time, its own signals and identity.
const COMMON: &[c_long] = &[
    // Descriptors and files.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_lseek,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_flock,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_mbind,
    libc::SYS_get_mempolicy,
    libc::SYS_membarrier,
    // Threads and signals.
    libc::SYS_futex,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_getpriority,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Time, chance, and the process itself.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_times,
    libc::SYS_getrusage,
    libc::SYS_getrandom,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
];

/// Of a process that writes its own files.
const WRITING: &[c_long] = &[
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
];

/// Older forms, which newer processors' kernels never had.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_time,
    libc::SYS_getrlimit,
];
#[cfg(target_arch = "x86_64")]
const OLDER_WRITING: &[c_long] = &[libc::SYS_unlink, libc::SYS_rename, libc::SYS_renameat];
#[cfg(target_arch = "aarch64")]
const OLDER: &[c_long] = &[libc::SYS_getrlimit];
#[cfg(target_arch = "aarch64")]
const OLDER_WRITING: &[c_long] = &[libc::SYS_renameat];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OLDER: &[c_long] = &[];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OLDER_WRITING: &[c_long] = &[];

/// Allowed whatever the arguments are.
pub fn free(kind: Kind) -> impl Iterator<Item = c_long> {
    let writing: &[&[c_long]] = if kind == Kind::Computing { &[WRITING, OLDER_WRITING] } else { &[] };
    [COMMON, OLDER].iter().chain(writing).copied().flatten().copied()
}

/// Bits of an argument, and the values that they may have.
pub struct Bits {
    pub call: c_long,
    pub argument: u8,
    pub mask: u64,
    pub values: Vec<u64>,
}

fn one_of(call: c_long, argument: u8, values: impl IntoIterator<Item = u64>) -> Bits {
    Bits { call, argument, mask: u64::from(u32::MAX), values: values.into_iter().collect() }
}

/// Allowed with some arguments only, by a process of this number.
pub fn bounded(kind: Kind, own: u32) -> Vec<Bits> {
    let own = u64::from(own);
    let flags = |values: &[i32]| values.iter().map(|&value| u64::from(value.cast_unsigned())).collect::<Vec<_>>();
    let mut all = vec![
        one_of(
            libc::SYS_fcntl,
            1,
            flags(&[
                libc::F_DUPFD,
                libc::F_DUPFD_CLOEXEC,
                libc::F_GETFD,
                libc::F_SETFD,
                libc::F_GETFL,
                libc::F_SETFL,
                libc::F_GETLK,
                libc::F_SETLK,
                libc::F_SETLKW,
                libc::F_OFD_GETLK,
                libc::F_OFD_SETLK,
                libc::F_OFD_SETLKW,
            ]),
        ),
        one_of(libc::SYS_ioctl, 1, [libc::TCGETS, libc::FIOCLEX, libc::FIONCLEX, libc::FIONBIO, libc::FIONREAD]),
        one_of(
            libc::SYS_prctl,
            0,
            flags(&[libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_CAPBSET_READ, libc::PR_SET_PDEATHSIG]),
        ),
        one_of(libc::SYS_prlimit64, 0, [0, own]),
        one_of(libc::SYS_kill, 0, [own]),
        one_of(libc::SYS_tgkill, 0, [own]),
    ];
    // The flags' place: after a path, and after a folder and a path.
    let mut opens = vec![(libc::SYS_openat, 2)];
    #[cfg(target_arch = "x86_64")]
    opens.push((libc::SYS_open, 1));
    let writes = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
    let writes = if kind == Kind::Computing { 0 } else { u64::from(writes.cast_unsigned()) };
    all.extend(opens.into_iter().map(|(call, argument)| Bits { call, argument, mask: writes, values: vec![0] }));
    if kind == Kind::Computing {
        let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
        all.push(Bits { call: libc::SYS_clone, argument: 0, mask: thread, values: vec![thread] });
        // Of the calling thread.
        all.push(one_of(libc::SYS_setpriority, 1, [0]));
    }
    all
}
