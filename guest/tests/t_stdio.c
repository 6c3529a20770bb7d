/* SPDX-License-Identifier: MIT
 * stdio over our descriptors, temporary files, messages. */
#include "check.h"

#include <err.h>
#include <sys/random.h>
#include <syslog.h>

TEST(modes_of_fopen)
{
    FILE *f = fopen("f", "wx");
    CHECK(f && fputs("one\n", f) >= 0 && fclose(f) == 0);
    errno = 0;
    CHECK(fopen("f", "wx") == NULL && errno == EEXIST);
    f = fopen("f", "a+e");
    CHECK_INT(fcntl(fileno(f), F_GETFD), FD_CLOEXEC);
    CHECK(fputs("two\n", f) >= 0);
    rewind(f);
    char line[16];
    CHECK_STR(fgets(line, sizeof line, f), "one\n");
    CHECK_STR(fgets(line, sizeof line, f), "two\n");
    CHECK(fgets(line, sizeof line, f) == NULL && feof(f));
    fclose(f);
    errno = 0;
    CHECK(fopen("none", "r") == NULL && errno == ENOENT);
    CHECK(fopen("f", "q") == NULL && errno == EINVAL);
}

TEST(seeking_and_mixing)
{
    FILE *f = fopen("f", "w+");
    CHECK(fputs("0123456789", f) >= 0);
    CHECK_INT(fseeko(f, 3, SEEK_SET), 0);
    CHECK_INT(getc(f), '3');
    CHECK_INT(ungetc('x', f), 'x');
    CHECK_INT(getc(f), 'x');
    CHECK_INT(ftello(f), 4);
    CHECK_INT(fseeko(f, 0, SEEK_CUR), 0);
    CHECK_INT(putc('Z', f), 'Z');
    CHECK_INT(fclose(f), 0);
    CHECK_STR(read_file("f"), "0123Z56789");
}

/* getc_unlocked looks into the stream's buffer by itself: it must agree with the calls. */
TEST(bytes_without_a_call)
{
    FILE *f = fopen("f", "w+");
    for (int i = 0; i < 10000; i++)
        CHECK_INT(putc(i % 251, f), i % 251);
    rewind(f);
    unsigned char some[7];
    for (int i = 0; i < 10000; i++) {
        CHECK_INT(getc_unlocked(f), i % 251);
        if (i % 1000 == 0) {
            CHECK_INT(ungetc('u', f), 'u');
            CHECK_INT(fgetc_unlocked(f), 'u');
            CHECK_INT(ftell(f), i + 1);
        }
        if (i % 1000 == 500) {
            CHECK_INT(fread(some, 1, sizeof some, f), sizeof some);
            CHECK_INT(some[6], (i + 7) % 251);
            i += 7;
        }
    }
    CHECK_INT(getc_unlocked(f), EOF);
    CHECK(feof(f) && !ferror(f));
    CHECK_INT(fseek(f, 9999, SEEK_SET), 0);
    CHECK_INT(getc_unlocked(f), 9999 % 251);
    fclose(f);
    f = fopen("f", "w");
    CHECK_INT(getc_unlocked(f), EOF);
    CHECK(ferror(f));
    fclose(f);
}

TEST(lines_of_any_length)
{
    char *line = NULL;
    size_t size = 0;
    FILE *f = fopen("f", "w+");
    for (int i = 0; i < 5000; i++)
        putc('x', f);
    fputs("\nend", f);
    rewind(f);
    CHECK_INT(getline(&line, &size, f), 5001);
    CHECK_INT(getline(&line, &size, f), 3);
    CHECK_STR(line, "end");
    CHECK_INT(getline(&line, &size, f), -1);
    rewind(f);
    CHECK_INT(getdelim(&line, &size, 'e', f), 5002);
    free(line);
    fclose(f);
}

TEST(memory_streams_and_formats)
{
    char *text = NULL, *made = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fprintf(f, "%d %s %5.2f %llx", -3, "abc", 3.14159, 0xdeadbeefcafeULL);
    CHECK_INT(fclose(f), 0);
    CHECK_STR(text, "-3 abc  3.14 deadbeefcafe");
    free(text);
    CHECK_INT(asprintf(&made, "%s-%03d", "x", 7), 5);
    CHECK_STR(made, "x-007");
    free(made);
    int a, b;
    CHECK_INT(sscanf("12,34", "%d,%d", &a, &b), 2);
    CHECK_INT(a * 100 + b, 1234);
}

TEST(freopen_and_redirected_output)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("out", "w", stdout))
            _exit(1);
        printf("to the file\n");
        exit(0); /* flushes */
    }
    CHECK_INT(wait_for(pid), 0);
    CHECK_STR(read_file("out"), "to the file\n");
    CHECK_INT(dprintf(open("d", O_WRONLY | O_CREAT, 0600), "%s", "direct"), 6);
    CHECK_STR(read_file("d"), "direct");
}

TEST(exit_handlers_run_once_and_flush)
{
    pid_t pid = fork();
    if (pid == 0) {
        FILE *f = fopen("f", "w");
        fputs("kept", f);
        exit(3);
    }
    CHECK_INT(wait_for(pid), 3);
    CHECK_STR(read_file("f"), "kept");
    pid = fork();
    if (pid == 0) {
        FILE *f = fopen("g", "w");
        fputs("lost", f);
        _exit(3);
    }
    CHECK_INT(wait_for(pid), 3);
    CHECK_STR(read_file("g"), "");
}

TEST(temporary_names)
{
    char a[] = "tXXXXXX", b[] = "tXXXXXX.txt", bad[] = "tXXXXX", d[] = "dXXXXXX";
    struct stat st;
    int fd = mkstemp(a);
    CHECK(fd >= 0 && strcmp(a, "tXXXXXX") != 0);
    CHECK_INT(fstat(fd, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    CHECK(mkstemps(b, 4) >= 0);
    CHECK_STR(b + 7, ".txt");
    CHECK_ERR(mkstemp(bad), EINVAL);
    fd = mkostemp(strcpy(a, "tXXXXXX"), O_CLOEXEC);
    CHECK_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
    CHECK(mkdtemp(d) == d);
    CHECK_INT(stat(d, &st), 0);
    CHECK_INT(st.st_mode, S_IFDIR | 0700);
    FILE *f = tmpfile();
    CHECK(f && fputs("x", f) >= 0);
    rewind(f);
    CHECK_INT(getc(f), 'x');
    CHECK_INT(fclose(f), 0);
}

TEST(random_bytes)
{
    unsigned char a[1000] = {0}, b[1000] = {0};
    CHECK_INT(getrandom(a, sizeof a, 0), sizeof a);
    CHECK_INT(getentropy(b, 256), 0);
    CHECK(memcmp(a, b, 256) != 0);
    int zeros = 0;
    for (int i = 0; i < 1000; i++)
        zeros += a[i] == 0;
    CHECK(zeros < 50);
    CHECK_ERR(getentropy(b, 257), EIO);
}

TEST(messages)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("err", "w", stderr))
            _exit(1);
        errno = ENOENT;
        warn("opening %s", "x");
        warnx("plain");
        openlog("name", LOG_PERROR, LOG_USER);
        syslog(LOG_ERR, "logged %d", 5);
        errx(4, "the end");
    }
    CHECK_INT(wait_for(pid), 4);
    const char *text = read_file("err");
    CHECK(strstr(text, "t_stdio: ") || strstr(text, "t_stdio.wasm: "));
    CHECK(strstr(text, "opening x: "));
    CHECK(strstr(text, ": plain\n"));
    CHECK(strstr(text, "name: logged 5\n"));
    CHECK(strstr(text, ": the end\n"));
}
