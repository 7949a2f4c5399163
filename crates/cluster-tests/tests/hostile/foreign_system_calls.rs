//! System calls of other ABIs (32-bit, x32), and TIOCSTI.

use crate::harness::{HostileProgram, HostileTestNode, ProgramSource};

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn system_calls_of_another_abi_end_the_program() {
    let node = HostileTestNode::start().await;
    for (name, program) in [
        (
            "int 0x80",
            ProgramSource::C(
                "int main() { int r; __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(20)); return r < 0; }",
            ),
        ),
        (
            "x32",
            ProgramSource::C("#include <unistd.h>\nint main() { return syscall(0x40000000 + 39) < 0; }"),
        ),
    ] {
        let outcome = node
            .assert_reason("signalled", HostileProgram::new(name, program))
            .await;
        assert_eq!(outcome["signal"], 31, "{name}: {outcome:#}");
    }
}

/// None of its streams is a terminal, so the kernel itself would answer ENOTTY to both.
const TIOCSTI_CALLER: &str = r#"
import errno, fcntl, os, termios
def attempt(name, act):
    try:
        act(); print(name, 'DONE')
    except OSError as e:
        print(name, errno.errorcode[e.errno])
for fd in (0, 1, 2):
    attempt('ask', lambda: fcntl.ioctl(fd, termios.TCGETS, bytes(64)))
    attempt('type', lambda: fcntl.ioctl(fd, termios.TIOCSTI, b'x'))
attempt('terminal', lambda: os.open('/dev/tty', os.O_RDWR))
"#;

#[tokio::test]
async fn tiocsti_is_refused() {
    let node = HostileTestNode::start().await;
    let said = node
        .output_of(HostileProgram::new(
            "TIOCSTI",
            ProgramSource::Python(TIOCSTI_CALLER),
        ))
        .await;
    assert_eq!(
        said,
        "ask ENOTTY\ntype EPERM\nask ENOTTY\ntype EPERM\nask ENOTTY\ntype EPERM\nterminal ENOENT\n"
    );
}
