/* Creates nested folders, then as many files as possible, and then recreates the last of them repeatedly. */
static void attack(void) {
    char name[20] = "f";
    int home = open(".", O_RDONLY), depth = 0, count = 0, file;
    while (depth < 500 && !is_over() && mkdir("d", 0700) == 0 && chdir("d") == 0) depth++;
    fchdir(home);
    for (; !is_over() && (file = open(name, O_CREAT | O_WRONLY, 0600)) >= 0; sprintf(name, "f%d", ++count)) close(file);
    say(depth + count);
    while (!is_over()) { unlink("f"); close(open("f", O_CREAT | O_WRONLY, 0600)); }
}
