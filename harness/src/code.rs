//! Why a check has no verdict of its own, in words that stay the same.

macro_rules! codes {
    ($($(#[$what:meta])* $code:ident = $name:literal,)*) => {
        /// Every [`Reason::code`](crate::report::model::Reason::code) there is. `cargo gpu-leak explain` knows each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$what])* $code,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// The word in a file and on a terminal.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)*
                }
            }
        }
    };
}

codes! {
    /// No driver, or no device.
    NoGpu = "no-gpu",
    /// The driver was initialised before its calls could be heard.
    Unheard = "unheard",
    /// A form of a watched function was called that this release does not know.
    UnheardFunction = "unheard-function",
    /// A library was bound to the driver past the harness.
    UnheardLibrary = "unheard-library",
    /// The harness failed while it heard a call.
    HarnessFailed = "harness-failed",
    /// A context was broken before the check began.
    Poisoned = "poisoned",
    /// A caching allocator that only a probe could look into.
    NoProbe = "no-probe",
    /// More allocators report than can be told apart.
    TooManyAllocators = "too-many-allocators",
    /// The process ended inside the check.
    ProcessEnded = "process-ended",
    /// Checks are switched off.
    Off = "off",
}
