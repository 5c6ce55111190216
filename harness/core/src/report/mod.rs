//! The results of a check, as data: everything that is printed or written comes from these types.

/// Defines an enum whose values have names.
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $type:ident { $($(#[$doc:meta])* $value:ident = $name:expr,)* }
    ) => {
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord,
            serde::Serialize, serde::Deserialize,
        )]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        $(#[$meta])*
        pub enum $type { $($(#[$doc])* $value,)* }

        impl $type {
            /// All values, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$value),*];

            /// Returns its name in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }
        }
    };
}
pub(crate) use named;

mod description;
mod device;
mod finding;
mod function_path;
mod holder;
mod location;
mod meant_to_stay;
mod peak;
mod site;
mod status;

pub use device::{
    Course, DeviceTable, Figure, LoggedAllocation, Part, Point, PrimaryKept, Purpose, Row,
    RunPurpose, Timeline, TimelineRun, WholeDevice,
};
pub use finding::{
    AllowedBy, Companion, Confirmation, Consequence, Ended, FailedFree, Finding, Passage,
    PassageKind, Sibling, When, verbs,
};
#[doc(hidden)]
pub use function_path::bare_name;
pub(crate) use function_path::{segments, without_modules};
pub use holder::{Enclosing, Holder, HolderKind, HolderRoot, Outlived};
#[doc(hidden)]
pub use location::{begins_in_test, full};
pub(crate) use location::{is_of_test, name};
pub use meant_to_stay::MeantToStay;
pub use peak::{Budget, GraphMemory, Limit, Peak, Reusable, Share};
pub use site::{Frame, Language, Library, Owner, Site};
pub use status::{CheckStatus, Code, FindingKind, Outcome, Reason};

/// Whether a field can be left out of a file, because a reader assumes this value if it is missing.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
