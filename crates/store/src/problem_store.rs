//! The part of a store that keeps problems: cases and a check under a name, by which tasks are judged.

use async_trait::async_trait;
use model::{JudgeProblem, ProblemEditor, ProblemName, ProblemSummary, UserName};

use crate::StoreError;

/// How many problems a task store keeps at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemBounds {
    /// Of each owner.
    pub per_owner: u32,
    /// Of all owners together.
    pub total: u32,
}

impl Default for ProblemBounds {
    fn default() -> ProblemBounds {
        ProblemBounds {
            per_owner: 1_000,
            total: 10_000,
        }
    }
}

impl ProblemBounds {
    /// Refuses a further problem of an owner who has `own` problems, in a store with `all`.
    pub(crate) fn check(self, owner: &UserName, own: u32, all: u32) -> Result<(), StoreError> {
        if own >= self.per_owner {
            let (owner, limit) = (owner.clone(), self.per_owner);
            return Err(StoreError::TooManyProblemsOfOwner { owner, limit });
        }
        match all >= self.total {
            true => Err(StoreError::TooManyProblems { limit: self.total }),
            false => Ok(()),
        }
    }
}

/// The problems in a task store. Their names are those of the whole store.
#[async_trait]
pub trait ProblemStore: Send + Sync + 'static {
    /// Stores the problem and returns it as it is stored; durable when this returns. It replaces the one of the same name if
    /// the editor may change that, which keeps its owner ([`StoreError::NotOwner`] otherwise). The call may be repeated.
    ///
    /// Its blobs must be in the store. They are kept while the problem names them. Those that only the replaced problem
    /// named are released.
    async fn put_problem(
        &self,
        problem: JudgeProblem,
        editor: ProblemEditor,
        bounds: ProblemBounds,
    ) -> Result<JudgeProblem, StoreError>;

    async fn problem(&self, name: ProblemName) -> Result<Option<JudgeProblem>, StoreError>;

    /// All problems, by name. Unreadable ones are left out.
    async fn problems(&self) -> Result<Vec<ProblemSummary>, StoreError>;

    /// Removes the problem if the editor may change it, and releases its blobs. Returns whether there was one. Tasks that
    /// name it have its cases and keep their blobs.
    async fn remove_problem(&self, name: ProblemName, editor: ProblemEditor) -> Result<bool, StoreError>;
}
