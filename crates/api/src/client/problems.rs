//! Calls about problems: cases and a check that are kept under a name.

use model::ProblemName;
use reqwest::Method;

use super::request::RepeatableRequest;
use super::{HttpClient, HttpClientError};
use crate::{JudgeProblem, NewJudgeProblem, ProblemSummary, ProblemsResponse};

impl HttpClient {
    /// All problems, by name.
    pub async fn problems(&self) -> Result<Vec<ProblemSummary>, HttpClientError> {
        let list: ProblemsResponse = self.json(self.call(Method::GET, "/api/v1/problems")).await?;
        Ok(list.problems)
    }

    /// What the caller may see of a problem. A problem that does not exist is refused with status 404.
    pub async fn problem(&self, name: &ProblemName) -> Result<JudgeProblem, HttpClientError> {
        self.json(self.problem_call(Method::GET, name)).await
    }

    /// Keeps the problem under this name, and replaces the one that has it. Large contents must be blobs that were put before.
    pub async fn put_problem(
        &self,
        name: &ProblemName,
        problem: &NewJudgeProblem,
    ) -> Result<JudgeProblem, HttpClientError> {
        self.json(self.problem_call(Method::PUT, name).with_json(problem))
            .await
    }

    /// Removes a problem. Tasks that were judged by it keep their cases.
    pub async fn remove_problem(&self, name: &ProblemName) -> Result<(), HttpClientError> {
        self.send_with_retries(self.problem_call(Method::DELETE, name))
            .await
            .map(drop)
    }

    fn problem_call(&self, method: Method, name: &ProblemName) -> RepeatableRequest {
        // A name of a problem needs no encoding.
        self.call(method, &format!("/api/v1/problems/{name}"))
    }
}
