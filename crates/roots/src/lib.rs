//! Named root file systems for cells, in one folder on the machine of an executor.
//!
//! [`RootStore`] finds, holds and removes roots. [`import()`] unpacks an archive or an image into a new root, [`build()`] makes
//! one of Debian packages, [`verify()`] compares the files of a root with the listing that was recorded when it was made.
//!
//! ```text
//! FOLDER/NAME/GENERATION/tree/       the root file system
//!                        root.json   what it is: its hash, its size, where it comes from
//!                        listing     one line for each file, in a fixed order
//! FOLDER/NAME/current                a link to the generation that new tasks use
//! FOLDER/.work-NAME/                 a root that is being made
//! FOLDER/.removed-ID/                files that are being removed
//! ```
//!
//! This crate knows nothing of tasks, cells and nodes. It runs no command of a root except `pip` in [`build()`].

mod build;
mod import;
mod interrupt_flag;
mod listing;
mod store;
mod unpack;
mod verify;

pub use build::{
    BuildError, BuildOptions, InvalidBuildName, MirrorUrl, PackageName, PipRequirement, SuiteName, build,
};
pub use import::{ImageError, ImportError, ImportOptions, import, name_for_archive};
pub use interrupt_flag::InterruptFlag;
pub use store::{
    InstalledRoot, NewRoot, RemovedRoot, RootHold, RootList, RootRecord, RootStore, RootStoreError,
};
pub use unpack::{DroppedItems, MemberPathError, MemberProblem, ReadLimit, UnpackError, UnpackLimits};
pub use verify::{DifferenceKind, RootDifference, RootVerification, VerifyError, verify};
