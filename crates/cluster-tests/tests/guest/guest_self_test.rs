//! Tests of the guest harness itself: commands run as given, and the guest offers what cells need.

use std::time::Duration;

use cluster_tests::{GuestCommand, GuestMachine, conclave};

/// Long: the guest boots within ten seconds, but the machine may be busy with other tests.
const DONE: Duration = Duration::from_secs(120);

/// Creates the namespaces of a cell as an unprivileged user.
const NAMESPACES: &str = "unshare -U -r -m -p -f -n -u -i sh -c '
    id -u
    mount -t proc proc /proc && echo /proc/[0-9]*
    mount -t tmpfs tmpfs /mnt && mkdir /mnt/old && cd /mnt && pivot_root . old && echo pivoted
'";

/// Creates a control group beneath the delegated one, and exceeds its memory limit.
const OWN_GROUP: &str = r#"
    cat /proc/self/cgroup
    group=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)
    mkdir $group/main $group/child
    echo 0 >$group/main/cgroup.procs
    cat /proc/self/cgroup
    echo '+memory +pids' >$group/cgroup.subtree_control
    echo 64M >$group/child/memory.max
    cat $group/child/memory.max
    (echo 0 >$group/child/cgroup.procs; exec dd if=/dev/zero of=/dev/null bs=128M count=1)
    echo $?
    grep '^oom_kill ' $group/child/memory.events
"#;

#[tokio::test]
async fn exit_codes_and_output_of_commands_are_returned_unchanged() {
    let every_byte: Vec<u8> = (0..=255).collect();
    let ran = GuestMachine::new()
        .file("/etc/every-byte", every_byte.clone(), 0o600)
        .c_program(
            "seven",
            "#include <stdio.h>\nint main() { puts(\"seven\"); return 7; }",
        )
        .run(
            &[
                GuestCommand::root(
                    "bytes",
                    "cat /etc/every-byte; printf 'end 0 9 9\\nbye\\n'; echo words >&2",
                ),
                GuestCommand::root("nothing", ":"),
                GuestCommand::root("code", "seven"),
                GuestCommand::root("signal", "kill -9 $$"),
                GuestCommand::user("code of a user", "seven"),
                GuestCommand::user("signal of a user", "kill -9 $$"),
                // A background process neither delays later commands nor appears in their output.
                GuestCommand::root("goes on", "while sleep 1; do echo more; done & echo started"),
                GuestCommand::user("missing", "/no/such/program"),
                GuestCommand::root("much", "seq 100000"),
                GuestCommand::root("who", "id -u; pwd; echo $HOME; ls /proc/self/fd | wc -l"),
                GuestCommand::user("user", "id -u; id -g; pwd; echo $HOME; ls /proc/self/fd | wc -l"),
            ],
            DONE,
        )
        .await;
    let bytes = &ran["bytes"];
    assert_eq!(bytes.stdout, [&every_byte[..], b"end 0 9 9\nbye\n"].concat());
    assert_eq!((bytes.code, bytes.stderr.as_str()), (0, "words\n"));
    let nothing = &ran["nothing"];
    assert_eq!(
        (nothing.code, nothing.text(), nothing.stderr.as_str()),
        (0, "", "")
    );
    for seven in ["code", "code of a user"] {
        assert_eq!((ran[seven].code, ran[seven].text()), (7, "seven\n"));
    }
    assert_eq!((ran["signal"].code, ran["signal of a user"].code), (137, 137));
    assert!(
        ran["goes on"].text().starts_with("started\n"),
        "{:?}",
        ran["goes on"]
    );
    ran["missing"].assert_failure(127, &["/no/such/program"]);
    let much: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(ran["much"].text() == much, "{} bytes", ran["much"].stdout.len());
    // The three standard streams, and the folder that is listed.
    assert_eq!(ran["who"].text(), "0\n/root\n/root\n4\n");
    assert_eq!(ran["user"].text(), "1000\n1000\n/home/user\n/home/user\n4\n");
}

#[tokio::test]
async fn the_guest_offers_what_cells_need() {
    let ran = GuestMachine::new()
        .program("conclave", &conclave())
        .run(
            &[
                GuestCommand::root(
                    "groups",
                    "awk '$3 ~ /^cgroup/ {print $2, $3}' /proc/mounts; cat /proc/self/cgroup",
                ),
                GuestCommand::root("controllers", "cat /sys/fs/cgroup/cgroup.controllers"),
                GuestCommand::root("walls", "cat /sys/kernel/security/lsm"),
                GuestCommand::root("filters", "cat /proc/sys/kernel/seccomp/actions_avail"),
                GuestCommand::root("conclave", "conclave --version"),
                GuestCommand::user("namespaces", NAMESPACES),
                GuestCommand::user("own group", OWN_GROUP),
                GuestCommand::user("next group", "cat /proc/self/cgroup"),
                GuestCommand::root(
                    "no group",
                    "su user -c 'cat /proc/self/cgroup; mkdir /sys/fs/cgroup/mine'",
                ),
            ],
            DONE,
        )
        .await;
    assert_eq!(ran["groups"].text(), "/sys/fs/cgroup cgroup2\n0::/\n");
    let controllers: Vec<_> = ran["controllers"].text().split_whitespace().collect();
    for controller in ["memory", "pids", "cpu"] {
        assert!(controllers.contains(&controller), "{controllers:?}");
    }
    assert!(ran["walls"].text().contains("landlock"), "{:?}", ran["walls"]);
    assert!(ran["filters"].text().contains("errno"), "{:?}", ran["filters"]);
    assert!(
        ran["conclave"].text().starts_with("conclave "),
        "{:?}",
        ran["conclave"]
    );

    assert_eq!(
        ran["namespaces"].text(),
        "0\n/proc/1\npivoted\n",
        "{:?}",
        ran["namespaces"]
    );
    assert_eq!(
        ran["own group"].text(),
        "0::/user/6\n0::/user/6/main\n67108864\n137\noom_kill 1\n",
        "{:?}",
        ran["own group"]
    );
    assert_eq!(ran["next group"].text(), "0::/user/7\n");
    ran["no group"].assert_failure(1, &["Permission denied"]);
    assert_eq!(ran["no group"].text(), "0::/\n");
}

#[tokio::test]
async fn a_crash_of_the_guest_fails_the_test_and_names_the_command() {
    let steps = [
        GuestCommand::root("goes well", "echo well"),
        GuestCommand::root("crashes", "echo c >/proc/sysrq-trigger"),
        GuestCommand::root("never comes", ":"),
    ];
    let why = panic_message(steps, DONE).await;
    for words in [
        "at command 'crashes'",
        "goes well",
        "well",
        "Kernel panic",
        "sysrq",
    ] {
        assert!(why.contains(words), "no '{words}' in {why}");
    }
    assert!(!why.contains("never comes"), "{why}");
}

#[tokio::test]
async fn a_guest_that_exceeds_its_deadline_fails_the_test() {
    let why = panic_message(
        [GuestCommand::root("sleeps", "sleep 1000")],
        Duration::from_secs(1),
    )
    .await;
    for words in ["had not ended after 1s", "at command 'sleeps'"] {
        assert!(why.contains(words), "no '{words}' in {why}");
    }
}

async fn panic_message<const N: usize>(steps: [GuestCommand; N], deadline: Duration) -> String {
    let run = tokio::spawn(async move { GuestMachine::new().run(&steps, deadline).await });
    let panic = run.await.expect_err("a guest that fails").into_panic();
    *panic.downcast().expect("words")
}
