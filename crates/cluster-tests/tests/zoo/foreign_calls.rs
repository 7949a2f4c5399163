//! Calls by the numbers of another machine.

use crate::stage::{Animal, Program, Zoo};

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn calls_by_other_numbers_end_the_program() {
    let zoo = Zoo::open().await;
    for (name, program) in [
        (
            "int 0x80",
            Program::C(
                "int main() { int r; __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(20)); return r < 0; }",
            ),
        ),
        (
            "x32",
            Program::C("#include <unistd.h>\nint main() { return syscall(0x40000000 + 39) < 0; }"),
        ),
    ] {
        let outcome = zoo.ends_by("signalled", Animal::new(name, program)).await;
        assert_eq!(outcome["signal"], 31, "{name}: {outcome:#}");
    }
}

/// None of its streams is a terminal, which is what the kernel would say to both.
const TYPIST: &str = r#"
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
async fn a_terminal_cannot_be_typed_into() {
    let zoo = Zoo::open().await;
    let said = zoo.says(Animal::new("TIOCSTI", Program::Python(TYPIST))).await;
    assert_eq!(
        said,
        "ask ENOTTY\ntype EPERM\nask ENOTTY\ntype EPERM\nask ENOTTY\ntype EPERM\nterminal ENOENT\n"
    );
}
