/* SPDX-License-Identifier: MIT
 * Hashes of files that are remembered. A descriptor that cannot be read shows
 * whether one was: what it is of is looked up, or fails. */
#include "tap.h"

#include "base/clock.h"
#include "base/fd.h"
#include "cli/local_hash.h"

#include <sys/stat.h>

static char data[DZ_TEMP_DIR_TEXT], file[DZ_TEMP_DIR_TEXT + 8];
static struct dz_clock_test now;

static void begin(int64_t later_ns)
{
    static bool begun;
    if (!begun && dz_fd_temp_dir("hash", data, NULL) < 0)
        abort();
    begun = true;
    (void)snprintf(file, sizeof file, "%s/f", data);
    (void)setenv("DOZE_DATA", data, 1);
    dz_clock_use(NULL);
    dz_clock_set_real(&now, dz_clock_real_ns() + later_ns);
    dz_clock_use(&now);
}

static void end(void)
{
    dz_clock_use(NULL);
    CHECK_INT(dz_fd_remove_tree(AT_FDCWD, data, NULL), 0);
}

static void write_file(const char *text)
{
    CHECK_INT(dz_fd_replace(AT_FDCWD, file, text, strlen(text), 0600, NULL), 0);
}

/* The hash as far as it can be had with these flags, or "". */
static const char *hash(int flags)
{
    static char hex[DZ_SHA256_HEX];
    int fd = open(file, flags | O_CLOEXEC);
    struct dz_err err;
    if (dz_cli_hash_fd(fd, "the file", hex, &err) < 0)
        hex[0] = '\0';
    (void)close(fd);
    return hex;
}

static const char *of(const char *text)
{
    static char hex[DZ_SHA256_HEX];
    uint8_t d[DZ_SHA256_BYTES];
    CHECK_INT(dz_sha256(text, strlen(text), d, NULL), 0);
    return dz_sha256_hex(d, hex);
}

TEST(a_settled_file_is_read_once)
{
    begin(10 * DZ_NS_PER_S);
    write_file("one");
    CHECK_STR(hash(O_PATH), "");
    CHECK_STR(hash(O_RDONLY), of("one"));
    CHECK_STR(hash(O_PATH), of("one"));
    write_file("two"); /* another inode */
    CHECK_STR(hash(O_PATH), "");
    CHECK_STR(hash(O_RDONLY), of("two"));
    CHECK_INT(chmod(file, 0644), 0); /* another time of change */
    CHECK_STR(hash(O_PATH), "");
    end();
}

TEST(a_file_that_changed_just_now_is_not_remembered)
{
    begin(0);
    write_file("one");
    CHECK_STR(hash(O_RDONLY), of("one"));
    CHECK_STR(hash(O_PATH), "");
    end();
}

TEST(a_damaged_table_does_not_count)
{
    char path[DZ_TEMP_DIR_TEXT + 8];
    struct stat st;
    begin(10 * DZ_NS_PER_S);
    write_file("one");
    CHECK_STR(hash(O_RDONLY), of("one"));
    (void)snprintf(path, sizeof path, "%s/hashes", data);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_INT(fstat(fd, &st), 0);
    char byte;
    CHECK_INT(pread(fd, &byte, 1, st.st_size - 20), 1); /* in the digest */
    byte ^= 1;
    CHECK_INT(pwrite(fd, &byte, 1, st.st_size - 20), 1);
    CHECK_STR(hash(O_PATH), "");
    CHECK_STR(hash(O_RDONLY), of("one"));
    CHECK_STR(hash(O_PATH), of("one"));
    CHECK_INT(ftruncate(fd, 10), 0);
    CHECK_STR(hash(O_PATH), "");
    (void)close(fd);
    end();
}

TEST(no_place_to_remember_is_no_error)
{
    begin(10 * DZ_NS_PER_S);
    write_file("one");
    (void)setenv("DOZE_DATA", "/proc/nothing", 1);
    CHECK_STR(hash(O_RDONLY), of("one"));
    end();
}
