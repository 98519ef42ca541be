//! What a process of the service may do, by the kernel's word. Each measure binds the calling process, cannot be undone,
//! and says why where this kernel has it not.
#![cfg(target_os = "linux")]

mod calls;
mod linux;

pub use calls::Kind;
pub use linux::{Folders, become_user, confine_to, filter, has_landlock, no_new_privileges};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what}: {why}")]
    Refused { what: &'static str, why: String },
    #[error("this kernel has no Landlock, or it is switched off")]
    NoLandlock,
    #[error("{0} threads run, and each would keep its rights")]
    Threads(usize),
}

pub type Result<T> = std::result::Result<T, Error>;
