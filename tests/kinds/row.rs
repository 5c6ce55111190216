//! A row of the table: one leak, the same work done correctly, and the expected finding.

use gpu_leak_check::Place;
use gpu_leak_check::ledger::Kind;

/// What happens to a resource when its context ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtContextEnd {
    /// The resource ends as well.
    Dies,
    /// The resource ends as well, but a real driver frees it twice. With driver 580.159.04, a plain
    /// C program was aborted in 26 of 60 runs.
    Aborts,
    /// The resource stays, because it belongs to the device or to the process.
    Stays,
    /// The resource is a context itself, or is created in a context other than the thread's.
    NoContextOfItsOwn,
}

/// A leak and its corrected version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The mark of the row's line, if that is not the row's name.
    mark: Option<&'static str>,
    /// The call that creates the resource.
    pub(super) call: &'static str,
    pub(super) kind: Kind,
    /// The size in bytes; 0 for handles.
    pub(super) bytes: u64,
    /// Whether the resource belongs to the host instead of device 0.
    pub(super) is_of_host: bool,
    pub(super) at_context_end: AtContextEnd,
    /// Creates the prerequisites of both functions, which the process keeps. Called before the
    /// check.
    pub(super) prepare: fn(),
    pub(super) leak: fn(),
    pub(super) fixed: fn(),
    /// Returns the reason why this machine cannot run the row, if there is one.
    pub(super) obstacle: fn() -> Option<String>,
}

impl Row {
    /// A row for a resource on device 0 that ends with its context.
    pub(super) const fn new(
        call: &'static str,
        kind: Kind,
        bytes: u64,
        leak: fn(),
        fixed: fn(),
    ) -> Self {
        Self {
            name: "",
            mark: None,
            call,
            kind,
            bytes,
            is_of_host: false,
            at_context_end: AtContextEnd::Dies,
            prepare: || (),
            leak,
            fixed,
            obstacle: || None,
        }
    }

    pub(super) fn place(&self) -> Place {
        if self.is_of_host {
            Place::HOST
        } else {
            Place::cuda(0)
        }
    }

    /// The mark of the row's line.
    pub(super) fn mark(&self) -> &'static str {
        self.mark.unwrap_or(self.name)
    }

    pub(super) const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub(super) const fn marked(self, mark: &'static str) -> Self {
        Self {
            mark: Some(mark),
            ..self
        }
    }

    pub(super) const fn of_host(self) -> Self {
        let is_of_host = true;
        Self { is_of_host, ..self }
    }

    pub(super) const fn stays(self) -> Self {
        let at_context_end = AtContextEnd::Stays;
        Self {
            at_context_end,
            ..self
        }
    }

    pub(super) const fn aborts_with_its_context(self) -> Self {
        let at_context_end = AtContextEnd::Aborts;
        Self {
            at_context_end,
            ..self
        }
    }

    pub(super) const fn without_context(self) -> Self {
        let at_context_end = AtContextEnd::NoContextOfItsOwn;
        Self {
            at_context_end,
            ..self
        }
    }

    pub(super) const fn after(self, prepare: fn()) -> Self {
        Self { prepare, ..self }
    }

    /// Sets the function that leaks, for rows that must release something when they forget the
    /// rest.
    pub(super) const fn leaving(self, leak: fn()) -> Self {
        Self { leak, ..self }
    }

    pub(super) const fn unless(self, obstacle: fn() -> Option<String>) -> Self {
        Self { obstacle, ..self }
    }
}
