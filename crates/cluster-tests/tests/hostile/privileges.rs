//! Programs that try to gain privileges through set-uid programs.

use serde_json::{Value, json};

use crate::harness::HostileTestNode;

/// A preloaded library. The dynamic loader ignores it if the program gains privileges.
const WHO: &str = r#"
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>
__attribute__((constructor)) static void who(void) {
    dprintf(1, "%d %d %d %d %lu", getuid(), geteuid(), getgid(), getegid(), getauxval(AT_SECURE));
    _exit(0);
}
"#;

const PRIVILEGE_SEEKER: &str = r#"
import json, os, shutil, subprocess
find = ['find', '/', '-path', '/proc', '-prune', '-o', '-type', 'f', '-perm', '/6000', '-print']
found = subprocess.run(find, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()
shutil.copy('/usr/bin/env', '/tmp/copy')
os.chmod('/tmp/copy', 0o6755)
def become(path):
    try:
        run = subprocess.run([path], env={'LD_PRELOAD': '/box/who.so'}, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return run.stdout
    except PermissionError:
        return 'refused'
mounts = [line.split() for line in open('/proc/self/mountinfo')]
print(json.dumps({
    'user': os.getuid(),
    'mode': oct(os.stat('/tmp/copy').st_mode & 0o7777),
    'copy': become('/tmp/copy'),
    'found': {path: become(path) for path in found},
    'suid mounts': [mount[4] for mount in mounts if 'nosuid' not in mount[5].split(',')],
}))
"#;

#[tokio::test]
async fn set_uid_programs_have_no_effect() {
    let node = HostileTestNode::start().await;
    let task = json!({
        "source": {"who.c": WHO, "main.py": PRIVILEGE_SEEKER},
        "compile": {"command": "gcc -shared -fPIC -o who.so who.c"},
        "execute": {"command": ["python3", "-S", "main.py"]},
    });
    let task = node.task(&task).await;
    let said = task["result"]["execute"]["stdout"].as_str().unwrap_or_default();
    let seen: Value = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {task:#}"));
    let user = &seen["user"];
    let unchanged = format!("{user} {user} {user} {user} 0");
    // The mode bits are set, and have no effect.
    assert_eq!(seen["mode"], "0o6755", "{seen:#}");
    assert_eq!(seen["copy"], unchanged.as_str(), "{seen:#}");
    let found = seen["found"].as_object().expect("the machine's programs");
    for (path, who) in found {
        assert!(*who == unchanged.as_str() || who == "refused", "{path}: {seen:#}");
    }
    // Every machine has this program, and every user may execute it.
    assert_eq!(found.get("/usr/bin/su"), Some(&json!(unchanged)), "{seen:#}");
    assert_eq!(seen["suid mounts"], json!([]), "{seen:#}");
}
