//! What a check found, as data: everything that is printed or written comes from these types.

mod description;
mod device;
mod finding;
mod location;
mod meant_to_stay;
mod peak;
mod reason;
mod site;
mod status;
mod timeline;

pub use device::{DeviceTable, Figure, Part, PrimaryKept, Purpose, Row, WholeDevice};
pub use finding::{
    AllowedBy, Budget, Companion, Confirmation, Consequence, Enclosing, Ended, FailedRelease,
    Finding, Holder, HolderKind, HolderRoot, Limit, Outlived, Passage, PassageKind, Share, Sibling,
    When, verbs,
};
#[doc(hidden)]
pub use location::{begins_in_test, full};
pub(crate) use location::{is_of_test, name, without_modules};
pub use meant_to_stay::MeantToStay;
pub use peak::{GraphMemory, Peak, Reusable};
pub use reason::{Code, Reason};
pub use site::{Frame, Known, Language, Library, Owner, Site};
pub use status::{CheckStatus, FindingKind, Outcome};
pub use timeline::{Course, LoggedAllocation, Point, RunPurpose, Timeline, TimelineRun};

/// Whether a field can be left out of a file, because a reader assumes this value.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
