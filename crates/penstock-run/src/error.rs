//! Errors of programs.

/// A program that breaks a rule, or a run that ended early.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// A task that cannot be.
    #[error("task {task} ({work}): {what}; {rule}")]
    Task { task: usize, work: &'static str, what: String, rule: &'static str },
}
