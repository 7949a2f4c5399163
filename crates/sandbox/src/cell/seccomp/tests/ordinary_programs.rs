//! Ordinary programs work under the filter.

use super::filtered;

#[track_caller]
fn check_runs(program: &str, arguments: &[&str], wanted: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = filtered(program)
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let (out, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{out}{errors}",
        output.status
    );
    assert_eq!(out.trim(), wanted, "{program} {arguments:?}");
}

#[test]
fn shells_work() {
    check_runs(
        "sh",
        &["-c", "echo one | (read word; echo $word two) && kill -0 $$"],
        "one two",
    );
    check_runs(
        "bash",
        &[
            "-c",
            "cat <(echo one) <<< ''; ulimit -n 64; (sleep 60 & kill %1; wait); echo $((1 + 1))",
        ],
        "one\n2",
    );
}

#[test]
fn compilers_and_compiled_programs_work() {
    let c = r#"
        cat > a.c <<- 'END'
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        #include <sys/wait.h>
        static void *add(void *sum) { __atomic_add_fetch((int *)sum, 1, __ATOMIC_SEQ_CST); return 0; }
        int main(void) {
            pthread_t threads[8];
            int sum = 0, status;
            for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, add, &sum);
            for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
            if (fork() == 0) _exit(5);
            wait(&status);
            printf("%d %d\n", sum, WEXITSTATUS(status));
        }
END
        gcc -O2 -pipe -pthread -o a a.c && ./a
    "#;
    check_runs("sh", &["-c", c], "8 5");
    let cpp = r#"
        cat > a.cpp <<- 'END'
        #include <filesystem>
        #include <future>
        #include <iostream>
        #include <random>
        int main() {
            std::random_device device;
            auto result = std::async(std::launch::async, [&] { return device() < 0 ? 1 : 42; });
            std::filesystem::create_directories("x/y");
            std::filesystem::rename("x/y", "y");
            try { throw std::filesystem::exists("y"); } catch (bool there) { std::cout << result.get() << there; }
        }
END
        g++ -std=c++17 -o a a.cpp -pthread && ./a
    "#;
    check_runs("sh", &["-c", cpp], "421");
}

#[test]
fn sanitizers_detect_leaks_and_races() {
    let leak = r#"
        echo 'int main(void) { volatile char *p = __builtin_malloc(7); p = 0; return p != 0; }' > a.c
        gcc -g -fsanitize=address -o a a.c && ./a 2> said
        grep -c 'LeakSanitizer: detected memory leaks' said
    "#;
    check_runs("sh", &["-c", leak], "1");
    let race = r#"
        cat > a.c <<- 'END'
        #include <pthread.h>
        static int sum;
        static void *add(void *nothing) { sum++; return nothing; }
        int main(void) {
            pthread_t one, two;
            pthread_create(&one, 0, add, 0);
            pthread_create(&two, 0, add, 0);
            pthread_join(one, 0);
            pthread_join(two, 0);
        }
END
        gcc -g -fsanitize=thread -o a a.c && ./a 2> said
        grep -c 'WARNING: ThreadSanitizer: data race' said
    "#;
    check_runs("sh", &["-c", race], "1");
}

#[test]
fn python_works() {
    let script = r#"
import asyncio, ctypes, mmap, multiprocessing, os, signal, socket, subprocess, threading, time
threads = [threading.Thread(target=time.sleep, args=(0.001,)) for _ in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
assert subprocess.run(['sh', '-c', 'exit 3']).returncode == 3
with multiprocessing.Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
accepted, _ = server.accept(); accepted.sendall(b'hi'); assert client.recv(2) == b'hi'
asyncio.run(asyncio.create_subprocess_exec('true'))
os.mkfifo('fifo'); os.symlink('fifo', 'link'); os.sync()
memory = os.memfd_create('x'); os.ftruncate(memory, 4096); mmap.mmap(memory, 4096)
assert os.sched_getaffinity(0) and os.getrandom(1)
signal.setitimer(signal.ITIMER_REAL, 60)
print('done')
"#;
    check_runs("/usr/bin/python3", &["-c", script], "done");
}

/// These programs need not be installed; they are tested if they are.
#[test]
fn other_installed_languages_work() {
    let path = std::env::var_os("PATH").unwrap();
    let is_here = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let check = |program: &str, arguments: &[&str], wanted: &str| {
        if is_here(program) {
            check_runs(program, arguments, wanted);
        }
    };
    let node = r#"
        const { Worker } = require('worker_threads');
        const fs = require('fs');
        console.log(require('child_process').execFileSync('echo', ['child']).toString().trim());
        fs.promises.writeFile('a', 'file').then(() => fs.promises.readFile('a')).then((text) => {
            console.log(text.toString());
            new Worker("console.log('thread')", { eval: true });
        });
    "#;
    check("node", &["-e", node], "child\nfile\nthread");
    let java = r#"
        cat > A.java <<- 'END'
        public class A {
            public static void main(String[] words) throws Exception {
                int sum = java.util.stream.IntStream.range(0, 1000).parallel().sum();
                int status = new ProcessBuilder("sh", "-c", "exit 3").start().waitFor();
                System.out.println(sum + " " + status);
            }
        }
END
        javac A.java && java A
    "#;
    if is_here("javac") {
        check_runs("sh", &["-c", java], "499500 3");
    }
    check("git", &["init", "--quiet", "."], "");
    check("make", &["--eval", "all: ; @echo made", "all"], "made");
}
