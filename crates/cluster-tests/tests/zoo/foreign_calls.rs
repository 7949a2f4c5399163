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

#[tokio::test]
async fn a_terminal_cannot_be_typed_into() {
    let zoo = Zoo::open().await;
    let program = "import fcntl, os, termios\nfor fd in (0, 1, 2):\n    try:\n        fcntl.ioctl(fd, termios.TIOCSTI, b'x'); print('typed')\n    except OSError as e: print('refused')\ntry:\n    os.open('/dev/tty', os.O_RDWR); print('terminal')\nexcept OSError: print('none')";
    let said = zoo.says(Animal::new("TIOCSTI", Program::Python(program))).await;
    assert_eq!(said, "refused\nrefused\nrefused\nnone\n");
}
