//! Calls about groups of tasks. A group is identified by its user and its name; without a user, it is the caller's own.

use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use model::{GroupName, UserName};
use reqwest::Method;

use super::request::RepeatableRequest;
use super::{EVENTS_IDLE_TIMEOUT, HttpClient, HttpClientError, events};
use crate::{CancelledTasks, GroupCursor, GroupPage, GroupState, RetriedTasks};

impl HttpClient {
    /// One page of the list of groups. `after` is the `next` of the page before.
    pub async fn groups(
        &self,
        user: Option<&UserName>,
        after: Option<&GroupCursor>,
    ) -> Result<GroupPage, HttpClientError> {
        let call = self
            .call(Method::GET, "/api/v1/groups")
            .with_parameter("user", user.map(UserName::as_str))
            .with_parameter("after", after.map(ToString::to_string).as_deref());
        self.json(call).await
    }

    /// The state of a group. With `wait`, returns when all of its tasks are done or the wait is over.
    pub async fn group(
        &self,
        group: &GroupName,
        user: Option<&UserName>,
        wait: Option<Duration>,
    ) -> Result<GroupState, HttpClientError> {
        let call = self.group_call(Method::GET, group, user, None);
        self.json(call.with_wait(wait)).await
    }

    /// The group's current state, then changed ones until all of its tasks are done. The request is not repeated.
    pub async fn group_events(
        &self,
        group: &GroupName,
        user: Option<&UserName>,
    ) -> Result<BoxStream<'static, Result<GroupState, HttpClientError>>, HttpClientError> {
        let call = self.group_call(Method::GET, group, user, Some("events"));
        let response = self.open(&call).await?;
        let bytes = self.stream_body(response, EVENTS_IDLE_TIMEOUT);
        Ok(events::read(bytes, events::parse_data).boxed())
    }

    /// Cancels all tasks of the group that are not done. Returns how many there were.
    pub async fn cancel_group(
        &self,
        group: &GroupName,
        user: Option<&UserName>,
    ) -> Result<u64, HttpClientError> {
        let call = self.group_call(Method::DELETE, group, user, None);
        let cancelled: CancelledTasks = self.json(call).await?;
        Ok(cancelled.cancelled)
    }

    /// Adds a task for each task of the group that is done and has not succeeded.
    pub async fn retry_group(
        &self,
        group: &GroupName,
        user: Option<&UserName>,
    ) -> Result<RetriedTasks, HttpClientError> {
        let call = self.group_call(Method::POST, group, user, Some("retry"));
        self.json(call).await
    }

    fn group_call(
        &self,
        method: Method,
        group: &GroupName,
        user: Option<&UserName>,
        below: Option<&str>,
    ) -> RepeatableRequest {
        let url = self.url_below("/api/v1/groups", [group.as_str()].into_iter().chain(below));
        self.call(method, "")
            .with_url(url)
            .with_parameter("user", user.map(UserName::as_str))
    }
}
