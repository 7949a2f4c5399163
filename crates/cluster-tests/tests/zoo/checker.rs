//! A program that lists what it can see and reach from within, as a task. All of it is judged.

use serde_json::{Value, json};

use crate::stage::{Animal, Program, Zoo, first_user};

const CHECKER: &str = r#"
import json, os
def read(path): return open(path).read()
status = dict(line.split(':\t', 1) for line in read('/proc/self/status').splitlines() if ':\t' in line)
limits = {line[:25].strip(): line[26:].split()[:2] for line in read('/proc/self/limits').splitlines()[1:]}
print(json.dumps({
    'ids': [os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()],
    'pid': os.getpid(), 'parent': os.getppid(), 'leads_session': os.getsid(0) in (2, os.getpid()),
    'capabilities': [status[c] for c in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')],
    'no_new_privileges': status['NoNewPrivs'], 'seccomp': status['Seccomp'],
    'descriptors': sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:3],
    'mounts': sorted(line.split()[4] for line in read('/proc/self/mountinfo').splitlines()),
    'writable': sorted(line.split()[4] for line in read('/proc/self/mountinfo').splitlines() if line.split()[5].startswith('rw')),
    'interfaces': [line.split(':')[0].strip() for line in read('/proc/net/dev').splitlines()[2:]],
    'processes': sorted(int(p) for p in os.listdir('/proc') if p.isdigit()),
    'group': sorted({line.split(':')[2] for line in read('/proc/self/cgroup').splitlines() if line.split(':')[1] in ('', 'memory', 'pids', 'cpuacct')}),
    'host': os.uname().nodename, 'core': limits['Max core file size'], 'cwd': os.getcwd(),
    'terminal': any(os.isatty(fd) for fd in (0, 1, 2)),
}))
"#;

#[tokio::test]
async fn what_is_seen_from_within() {
    let zoo = Zoo::open();
    let said = zoo.says(Animal::new("checker", Program::Python(CHECKER))).await;
    let seen: Value = serde_json::from_str(&said).unwrap();
    let user = seen["ids"][0].as_u64().unwrap();
    assert!(
        (first_user()..first_user() + 4).contains(&(user as u32)),
        "{seen:#}"
    );
    assert_eq!(seen["ids"], json!([user, user, user, user, []]), "{seen:#}");
    let none = "0000000000000000";
    assert_eq!(seen["capabilities"], json!([none, none, none, none, none]));
    assert_eq!(seen["no_new_privileges"], "1");
    assert_eq!(seen["seccomp"], "2");
    assert_eq!(seen["descriptors"], json!([0, 1, 2]));
    assert_eq!(seen["leads_session"], true, "{seen:#}");
    assert_eq!(seen["interfaces"], json!(["lo"]), "{seen:#}");
    assert_eq!(seen["host"], "cell");
    assert_eq!(seen["core"], json!(["0", "0"]), "{seen:#}");
    assert_eq!(seen["cwd"], "/box");
    assert_eq!(seen["terminal"], false);
    let processes = seen["processes"].as_array().unwrap();
    assert!(
        processes.iter().all(|pid| pid != 1) && processes.len() <= 2,
        "{seen:#}"
    );
    // On each hierarchy the own group looks like the root of all.
    assert_eq!(seen["group"], json!(["/"]), "{seen:#}");
    for mount in seen["writable"].as_array().unwrap() {
        let mount = mount.as_str().unwrap();
        let is_ours = ["/box", "/tmp", "/dev/shm"].contains(&mount) || mount.starts_with("/dev/");
        assert!(is_ours, "{mount} can be written to: {seen:#}");
    }
    let mounts: Vec<&str> = seen["mounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for expected in ["/", "/box", "/dev/null", "/dev/shm", "/proc", "/tmp", "/usr"] {
        assert!(mounts.contains(&expected), "{expected}: {mounts:?}");
    }
    for forbidden in ["/sys", "/home", "/root", "/var", "/run"] {
        assert!(
            !mounts.iter().any(|mount| mount.starts_with(forbidden)),
            "{mounts:?}"
        );
    }
}
