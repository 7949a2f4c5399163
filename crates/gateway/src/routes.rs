//! Every URL of the gateway and the middleware of each.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use crate::gateway::Gateway;
use crate::{
    MetricsAccess, assets, blobs, caller, compress_page, cross_site, drain_refused_body, groups, health,
    http_metrics, languages, nodes, openapi, pages, problems, request_error, request_limits, tasks,
};

pub(crate) fn routes(gateway: Arc<Gateway>) -> Router {
    let api = Router::new()
        .route(
            "/api/v1/tasks",
            post(tasks::add).get(tasks::search).delete(tasks::cancel_many),
        )
        .route("/api/v1/tasks/batch", post(tasks::add_many))
        .route("/api/v1/tasks/{id}", get(tasks::get).delete(tasks::cancel))
        .route("/api/v1/tasks/{id}/waiting", get(tasks::waiting))
        .route("/api/v1/tasks/retry", post(tasks::retry_many))
        .route("/api/v1/tasks/export", get(tasks::export))
        .route("/api/v1/tasks/{id}/events", get(tasks::events))
        .route("/api/v1/tasks/{id}/retry", post(tasks::retry))
        .route("/api/v1/tasks/{id}/files/{*path}", get(tasks::file))
        .route("/api/v1/tasks/{id}/files.zip", get(tasks::files_zip))
        .route("/api/v1/tasks/{id}/files.tar", get(tasks::files_tar))
        .route("/api/v1/tasks/{id}/{step}/{output}", get(tasks::output))
        .route("/api/v1/groups", get(groups::list))
        .route("/api/v1/groups/{group}", get(groups::get).delete(groups::cancel))
        .route("/api/v1/groups/{group}/retry", post(groups::retry))
        .route("/api/v1/groups/{group}/events", get(groups::events))
        .route(
            "/api/v1/blobs/{sha256}",
            get(blobs::get).head(blobs::has).put(blobs::put),
        )
        .route("/api/v1/problems", get(problems::list))
        .route(
            "/api/v1/problems/{name}",
            get(problems::get).put(problems::put).delete(problems::remove),
        )
        .route("/api/v1/executors", get(nodes::executors))
        .route("/api/v1/executors/{name}/drain", post(nodes::drain))
        .route("/api/v1/executors/{name}/resume", post(nodes::resume))
        .route("/api/v1/judicators", get(nodes::judicators))
        .route("/api/v1/languages", get(languages::list))
        .route("/api/v1/roots", get(languages::roots))
        .route("/api/v1/stats", get(nodes::stats))
        .route("/api/v1/history", get(nodes::history));

    let pages = Router::new()
        .route("/", get(pages::list))
        .route("/live/tasks", get(pages::live_list))
        .route("/tasks/cancel", post(pages::cancel_listed))
        .route("/tasks/retry", post(pages::retry_listed))
        .route("/tasks/export", post(pages::export_listed))
        .route("/run", get(pages::run).post(pages::add_from_form))
        .route("/run/commands", post(pages::show_commands))
        .route("/run/languages/{name}", get(pages::language_defaults))
        .route("/tasks/{id}", get(pages::task))
        .route("/tasks/{id}/fragment", get(pages::fragment))
        .route("/tasks/{id}/view", get(pages::view_file))
        .route("/tasks/{id}/cases/{index}", get(pages::case))
        .route("/tasks/{id}/cancel", post(pages::cancel))
        .route("/tasks/{id}/retry", post(pages::retry))
        .route("/live/tasks/{id}", get(pages::live_task))
        .route("/groups", get(pages::groups))
        .route("/groups/{group}", get(pages::group))
        .route("/groups/{group}/retry", post(pages::retry_failed))
        .route("/groups/{group}/cancel", post(pages::cancel_all))
        .route("/groups/{group}/results", get(pages::group_results))
        .route("/groups/{group}/results.csv", get(pages::group_results_csv))
        .route("/live/groups/{group}", get(pages::live_group))
        .route("/live/groups/{group}/results", get(pages::live_group_results))
        .route("/problems", get(pages::problems))
        .route("/problems/{name}", get(pages::problem))
        .route("/problems/{name}/cases/{index}", get(pages::problem_case))
        .route("/overview", get(pages::overview))
        .route("/live/overview", get(pages::live_overview))
        .route("/executors", get(pages::executors))
        .route("/executors/{name}", get(pages::executor))
        .route("/executors/{name}/drain", post(pages::drain_executor))
        .route("/executors/{name}/resume", post(pages::resume_executor))
        .route("/live/executors", get(pages::live_executors))
        .route("/live/executors/{name}", get(pages::live_executor))
        .route("/judicators", get(pages::judicators))
        .route("/live/judicators", get(pages::live_judicators))
        .route("/languages", get(pages::languages));

    // The last layer runs first: origin of the request, authentication, request limits.
    let guard = |routes: Router<Arc<Gateway>>| {
        routes
            .layer(from_fn_with_state(
                gateway.clone(),
                request_limits::limit_requests,
            ))
            .layer(from_fn_with_state(gateway.clone(), caller::authenticate))
            .layer(from_fn_with_state(gateway.clone(), cross_site::refuse_cross_site))
    };
    // Compressed inside, so that a response is charged as it is sent.
    let pages =
        guard(pages.layer(from_fn(compress_page::compress_page))).layer(map_response(pages::mark_page));

    // Without authentication, as they are its beginning and its end.
    let sign_in = Router::new()
        .route("/sign-in", get(pages::sign_in).post(pages::submit_sign_in))
        .route("/sign-out", post(pages::sign_out))
        .layer(from_fn_with_state(
            gateway.clone(),
            request_limits::limit_requests,
        ))
        .layer(from_fn_with_state(gateway.clone(), cross_site::refuse_cross_site))
        .layer(map_response(pages::mark_page));

    // Without authentication, but with request limits, as the responses are large.
    let description = Router::new()
        .route("/api/openapi.json", get(openapi::openapi))
        .route("/api/docs", get(pages::docs))
        .layer(from_fn(compress_page::compress_page))
        .layer(from_fn_with_state(
            gateway.clone(),
            request_limits::limit_requests,
        ));

    // They are in memory and the same for everyone.
    let assets = Router::new().route("/assets/{name}", get(assets::asset));

    // Without request limits: monitoring must work when all permits are taken.
    let unlimited = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz));
    let metrics = Router::new().route("/metrics", get(health::metrics));
    let unlimited = unlimited.merge(match gateway.options.metrics {
        MetricsAccess::Open => metrics,
        MetricsAccess::Token => metrics.layer(from_fn_with_state(gateway.clone(), caller::authenticate)),
        MetricsAccess::Off => Router::new(),
    });

    guard(api)
        .merge(pages)
        .merge(sign_in)
        .merge(description)
        .merge(assets)
        .merge(unlimited)
        .fallback(pages::route_not_found)
        .method_not_allowed_fallback(pages::method_not_allowed)
        // The limit is `max_body`, which every handler with a body enforces.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(request_error::panicked))
        .layer(from_fn_with_state(
            gateway.clone(),
            drain_refused_body::drain_refused_body,
        ))
        .layer(from_fn_with_state(gateway.clone(), pages::show_problems))
        .layer(from_fn(http_metrics::record_request))
        .with_state(gateway)
}
