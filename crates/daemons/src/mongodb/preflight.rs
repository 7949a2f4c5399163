//! Checks that change nothing, made before the daemon starts and before the node's etcd joins a cluster.

use std::path::PathBuf;

use error_causes::with_causes;
use registry::etcd::EtcdAccess;

use super::local_state::MongodLocalState;
use super::record_store::RecordStore;
use super::{MongodDaemonOptions, MongodbDaemonError, start_check};
use crate::etcd::{PreJoinCheck, PreJoinFailure};
use crate::server::program::{ProgramVersion, ServerProgram};

/// Since 6.0, members are added without a vote and promoted later in the way that `config_change` relies on.
const MONGOD_PROGRAM: ServerProgram = ServerProgram {
    name: "mongod",
    key: "mongodb.program",
    install: "https://www.mongodb.com/docs/manual/administration/install-on-linux/",
    oldest: ProgramVersion(6, 0, 0),
};

/// Finds mongod, and checks that the data folder fits the options.
pub fn preflight(options: &MongodDaemonOptions) -> Result<(), MongodbDaemonError> {
    find_program(options)?;
    start_check::check_data_folder(options, &MongodLocalState::read(&options.data)?)?;
    Ok(())
}

pub(crate) fn find_program(options: &MongodDaemonOptions) -> Result<PathBuf, MongodbDaemonError> {
    let path = MONGOD_PROGRAM.find(&options.program)?;
    MONGOD_PROGRAM.version(&path)?;
    Ok(path)
}

/// Lets the etcd daemon ask, before it joins a cluster, whether this node's mongod data belongs to that cluster. If
/// mongod were refused only afterwards, the node would count as a member of etcd's quorum and never serve.
pub fn pre_join_check(options: MongodDaemonOptions) -> PreJoinCheck {
    PreJoinCheck::new(move |access| {
        let options = options.clone();
        Box::pin(async move {
            check_against_cluster(&options, &access).await.map_err(|error| {
                let reason = with_causes(&error);
                match error.is_transient() {
                    true => PreJoinFailure::Temporary(reason),
                    false => PreJoinFailure::Permanent(reason),
                }
            })
        })
    })
}

async fn check_against_cluster(
    options: &MongodDaemonOptions,
    access: &EtcdAccess,
) -> Result<(), MongodbDaemonError> {
    let state = MongodLocalState::read(&options.data)?;
    let records = RecordStore::new(access).read().await?;
    Ok(start_check::check_records(options, &state, &records)?)
}
