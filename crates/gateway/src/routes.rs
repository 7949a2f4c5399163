//! Every URL there is.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state, map_response_with_state};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use crate::gateway::Gateway;
use crate::{
    MetricsAccess, admit, blobs, caller, cross_site, health, hear_out, measure, nodes, openapi, pages,
    refusal, tasks,
};

pub(crate) fn routes(gateway: Arc<Gateway>) -> Router {
    let api = Router::new()
        .route("/api/v1/tasks", post(tasks::add).get(tasks::search))
        .route("/api/v1/tasks/batch", post(tasks::add_many))
        .route("/api/v1/tasks/{id}", get(tasks::get).delete(tasks::cancel))
        .route("/api/v1/tasks/{id}/events", get(tasks::events))
        .route("/api/v1/tasks/{id}/{step}/{output}", get(tasks::output))
        .route(
            "/api/v1/blobs/{sha256}",
            get(blobs::get).head(blobs::has).put(blobs::put),
        )
        .route("/api/v1/executors", get(nodes::executors))
        .route("/api/v1/judicators", get(nodes::judicators))
        .route("/api/v1/stats", get(nodes::stats));

    let pages = Router::new()
        .route("/", get(pages::list))
        .route("/tasks/{id}", get(pages::task))
        .route("/tasks/{id}/cancel", post(pages::cancel));

    // From the outside in: from where, by whom, and how many of theirs at once.
    let guard = |routes: Router<Arc<Gateway>>| {
        routes
            .layer(from_fn_with_state(gateway.clone(), admit::admit))
            .layer(from_fn_with_state(gateway.clone(), caller::require))
            .layer(from_fn_with_state(gateway.clone(), cross_site::refuse))
    };
    let pages = guard(pages).layer(map_response_with_state(gateway.clone(), pages::show_problem));

    // Open to everyone; each takes a place, as its answer is long.
    let description = Router::new()
        .route("/api/openapi.json", get(openapi::openapi))
        .route("/api/docs", get(pages::docs))
        .layer(from_fn_with_state(gateway.clone(), admit::admit));

    // These hold nothing of anyone's, and must answer when all places are taken.
    let open = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz));
    let metrics = Router::new().route("/metrics", get(health::metrics));
    let open = open.merge(match gateway.options.metrics {
        MetricsAccess::Open => metrics,
        MetricsAccess::Token => metrics.layer(from_fn_with_state(gateway.clone(), caller::require)),
        MetricsAccess::Off => Router::new(),
    });

    guard(api)
        .merge(pages)
        .merge(description)
        .merge(open)
        .fallback(pages::no_route)
        .method_not_allowed_fallback(pages::no_method)
        // Ours is `max_body`, which every reader of a body holds to.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(refusal::panicked))
        .layer(from_fn_with_state(gateway.clone(), hear_out::hear_out))
        .layer(from_fn(measure::measure))
        .with_state(gateway)
}
