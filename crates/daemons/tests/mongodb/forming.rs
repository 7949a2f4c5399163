//! How a set comes to be.

use crate::ground::{Ground, SECRET};

#[tokio::test]
async fn three_that_start_at_once_make_one_set() {
    let mut ground = Ground::new(Some(SECRET)).await;
    for name in ["a", "b", "c"] {
        ground.start(name);
    }
    ground.until_set_is("a+ b+ c+").await;
    let initiated = ground.record("initiated").await.unwrap();
    assert!(initiated.contains(r#""set":"conclave""#), "{initiated}");

    // A rolling restart keeps the set as it is.
    for name in ["a", "b", "c"] {
        ground.stop(name).await;
        assert_eq!(ground.states().await.len(), 3);
        ground.start(name);
        ground.until_set_is("a+ b+ c+").await;
    }
    assert_eq!(ground.record("initiated").await.unwrap(), initiated);
    ground.end().await;
}

#[tokio::test]
async fn the_eighth_has_no_vote_until_one_with_a_vote_has_left() {
    let mut ground = Ground::new(None).await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for name in names {
        ground.start(name);
    }
    crate::ground::until("seven of eight vote", async || {
        let states = ground.states().await;
        states.iter().filter(|member| member.votes > 0).count() == 7
            && states
                .iter()
                .filter(|member| matches!(&*member.state, "primary" | "secondary"))
                .count()
                == 8
    })
    .await;
    let voter = ground
        .member("a secondary that votes", |member| {
            member.votes > 0 && member.state == "secondary"
        })
        .await;
    let options = ground.options(&voter);
    daemons::mongodb::leave(&options, std::time::Duration::from_secs(60))
        .await
        .unwrap();
    let rest = names
        .iter()
        .filter(|name| **name != voter)
        .map(|name| format!("{name}+"));
    ground.until_set_is(&rest.collect::<Vec<_>>().join(" ")).await;
    ground.end().await;
}
