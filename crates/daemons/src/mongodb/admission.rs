//! Whether this node's data may come into a cluster, asked before its etcd does: a member that is refused afterwards
//! would be in the way of the others.

use registry::etcd::Access;

use super::etcd::Etcd;
use super::notes::Notes;
use super::{MongodbError, Options, admit};
use crate::causes::with_causes;
use crate::etcd::{Admission, Objection};

pub fn admission(options: Options) -> Admission {
    Admission::new(move |access| {
        let options = options.clone();
        Box::pin(async move {
            may_come(&options, &access).await.map_err(|error| {
                let why = with_causes(&error);
                match error.is_transient() {
                    true => Objection::Unknown(why),
                    false => Objection::Refused(why),
                }
            })
        })
    })
}

/// Changes nothing.
async fn may_come(options: &Options, access: &Access) -> Result<(), MongodbError> {
    let notes = Notes::read(&options.data)?;
    let records = Etcd::new(access).read().await?;
    Ok(admit::by_records(options, &notes, &records)?)
}
