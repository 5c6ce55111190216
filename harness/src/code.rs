//! Why a check has no verdict of its own, in words that stay the same.

macro_rules! codes {
    ($($(#[$what:meta])* $code:ident = $name:literal,)*) => {
        /// Every [`Reason::code`](crate::report::model::Reason::code) there is. `cargo gpu-leak explain` knows each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
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
    /// A driver, and no CUPTI beside it.
    NoCupti = "no-cupti",
    /// A CUPTI or a driver that lacks calls that are needed.
    CuptiTooOld = "cupti-too-old",
    /// `GPU_LEAK_CHECK_CUPTI` names no usable CUPTI.
    CuptiOverride = "cupti-override",
    /// A call to CUPTI failed.
    CuptiFailed = "cupti-failed",
    /// Another tool has CUPTI's one subscription.
    TracerTaken = "tracer-taken",
    /// The subscription ended meanwhile.
    TracerLost = "tracer-lost",
    /// A context was broken before the check began.
    Poisoned = "poisoned",
    /// A caching allocator that only a probe could look into.
    NoProbe = "no-probe",
    /// More allocators report than can be told apart.
    TooManyAllocators = "too-many-allocators",
    /// A sum without an owner rose while others could have moved it.
    Shared = "shared",
    /// The body could not run again to confirm what it left.
    NotRepeatable = "not-repeatable",
    /// A reported address was live at two places.
    AmbiguousFree = "ambiguous-free",
    /// The process ended inside the check.
    ProcessEnded = "process-ended",
    /// Checks are switched off.
    Off = "off",
}
