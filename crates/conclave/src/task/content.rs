//! The content of a file in a request: inline if it is small, otherwise the hash of a blob that is uploaded.

use std::path::Path;

use anyhow::{Context, Result};
use api::HttpClient;
use model::Content;

use super::blobs;

/// How many bytes of file content a request may still carry inline; other files are uploaded as blobs.
pub(crate) struct InlineBudget {
    largest_file: u64,
    left: u64,
}

impl InlineBudget {
    /// Larger files are uploaded as blobs, which are sent once for any number of tasks.
    pub(crate) fn of_task() -> InlineBudget {
        InlineBudget {
            largest_file: 32 << 10,
            left: 2 << 20,
        }
    }

    /// For contents that many tasks have in common, such as those of cases: each task stores what is inline again.
    pub(crate) fn of_shared_contents() -> InlineBudget {
        InlineBudget {
            largest_file: 2 << 10,
            left: 64 << 10,
        }
    }

    fn take_if_fits(&mut self, size: u64) -> bool {
        let fits = size <= self.largest_file && size <= self.left;
        if fits {
            self.left -= size;
        }
        fits
    }
}

pub(crate) async fn content(
    path: &Path,
    size: u64,
    budget: &mut InlineBudget,
    client: &HttpClient,
) -> Result<Content> {
    if budget.take_if_fits(size) {
        let bytes = std::fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
        return Ok(Content::Inline(bytes.into()));
    }
    Ok(Content::Blob(blobs::upload_if_missing(path, client).await?))
}

/// The content of a file whose size is not known yet.
pub(crate) async fn content_of_file(
    path: &Path,
    budget: &mut InlineBudget,
    client: &HttpClient,
) -> Result<Content> {
    let metadata = std::fs::metadata(path);
    let size = metadata
        .with_context(|| format!("could not read {}", path.display()))?
        .len();
    content(path, size, budget, client).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_files_up_to_a_total_are_inline() {
        let mut budget = InlineBudget::of_task();
        let InlineBudget { largest_file, left } = budget;
        assert!(budget.take_if_fits(0));
        assert!(!budget.take_if_fits(largest_file + 1));
        let taken = (0..1000)
            .take_while(|_| budget.take_if_fits(largest_file))
            .count() as u64;
        assert_eq!(taken, left / largest_file);
        assert!(!budget.take_if_fits(1));
    }
}
