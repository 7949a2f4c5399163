//! The encoded form of a task's labels.

use model::Labels;
use serde::{Deserialize, Serialize};

/// The encoded form of the labels of a task, in its stored spec and beside it for lists.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct LabelsDocument<'a>(#[serde(borrow)] Vec<(&'a str, &'a str)>);

impl<'a> From<&'a Labels> for LabelsDocument<'a> {
    fn from(labels: &'a Labels) -> LabelsDocument<'a> {
        LabelsDocument(labels.iter().collect())
    }
}

impl TryFrom<LabelsDocument<'_>> for Labels {
    type Error = postcard::Error;

    fn try_from(document: LabelsDocument<'_>) -> Result<Labels, postcard::Error> {
        let pairs = document.0.into_iter();
        Labels::new(pairs.map(|(key, value)| (key.into(), value.into())).collect())
            .map_err(|_| postcard::Error::SerdeDeCustom)
    }
}
