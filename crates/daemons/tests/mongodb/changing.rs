//! Members that change.

use crate::ground::{Ground, free_port};

#[tokio::test]
async fn another_address_is_the_same_member() {
    let mut ground = Ground::new(None).await;
    for name in ["a", "b", "c"] {
        ground.start(name);
    }
    ground.until_set_is("a+ b+ c+").await;
    ground.stop("c").await;
    let mut options = ground.options("c");
    options.port = free_port();
    ground.start_with(options);
    ground.until_set_is("a+ b+ c+").await;
    let states = ground.states().await;
    assert_eq!(states[2].address, ground.address("c"));
    assert_eq!(ground.records_below("left/").await, Vec::<String>::new());
    ground.end().await;
}
