//! What can be checked before anything is started.

use std::path::PathBuf;

use super::notes::Notes;
use super::{MongodbError, Options, admit};
use crate::server::program::{Program, Version};

/// Adding members without a vote and giving them one later, and what we read about configs, are as they are in 6.0.
const MONGOD: Program = Program {
    name: "mongod",
    key: "mongodb.program",
    install: "https://www.mongodb.com/docs/manual/administration/install-on-linux/",
    oldest: Version(6, 0, 0),
};

/// Has no side effects.
pub fn preflight(options: &Options) -> Result<(), MongodbError> {
    program(options)?;
    admit::by_folder(options, &Notes::read(&options.data)?)?;
    Ok(())
}

pub(crate) fn program(options: &Options) -> Result<PathBuf, MongodbError> {
    let path = MONGOD.find(&options.program)?;
    MONGOD.version(&path)?;
    Ok(path)
}
