/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include "image/image_int.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char whole[] =
    "doze-image 1\npack " HASH " 8192\npolicy posix\nmemory 1048576\nuser root\nworkdir /w\n"
    "entry /bin/sh\nentry -l\nenv A=b c\n"
    "package pypi numpy 1.0 - BSD-3-Clause AND MIT\n"
    "sha256 " HASH "\nbytes 4096\nprogram " HASH " 8 12 /bin/a b\n";

TEST(a_manifest_is_read_and_written_the_same)
{
    struct dz_image i;
    struct dz_err err = {0};
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    CHECK_INT(dz_image_parse(dz_str(whole), &i, &err), 0);
    CHECK_STR(i.policy, "posix");
    CHECK_INT(i.memory_bytes, 1048576);
    CHECK_STR(i.entry[1], "-l");
    CHECK(i.entry[2] == NULL);
    CHECK_STR(i.env[0], "A=b c");
    CHECK_INT(i.program_count, 1);
    CHECK_STR(i.programs[0].path, "/bin/a b");
    CHECK_INT(i.programs[0].ino, 12);
    CHECK_STR(i.packages[0].license, "BSD-3-Clause AND MIT");
    dz_image_print(&i, &text);
    CHECK_STR(text.p, whole);
    dz_image_release(&i);
}

/* What only version 2 knows makes it one. */
TEST(a_machine_that_sleeps_is_told_of)
{
    static const char text[] = "doze-image 2\nmachine 8192\nsha256 " HASH "\nbytes 4096\n";
    struct dz_image i;
    DZ_AUTO(dz_buf_release) struct dz_buf is = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    CHECK_INT(dz_image_parse(dz_str(text), &i, NULL), 0);
    CHECK_INT(i.machine_bytes, 8192);
    dz_image_print(&i, &is);
    CHECK_STR(is.p, text);
    dz_image_release(&i);
}

/* What only version 3 knows: a doze that does not run Linux programs refuses the image. */
TEST(an_image_is_of_a_kind)
{
    static const char text[] = "doze-image 3\nkind linux\nsha256 " HASH "\nbytes 4096\n";
    struct dz_image i;
    DZ_AUTO(dz_buf_release) struct dz_buf is = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    CHECK_INT(dz_image_parse(dz_str(text), &i, NULL), 0);
    CHECK_INT(i.kind, DZ_IMAGE_LINUX);
    dz_image_print(&i, &is);
    CHECK_STR(is.p, text);
    dz_buf_reset(&is);
    dz_image_print_config(&i, &is);
    CHECK_STR(is.p, "doze-image 3\nkind linux\n");
    dz_image_release(&i);
    CHECK_INT(dz_image_parse(dz_str(whole), &i, NULL), 0);
    CHECK_INT(i.kind, DZ_IMAGE_WASM);
    dz_image_release(&i);
}

/* What only version 4 knows. */
TEST(an_image_has_a_stop_signal_and_ports)
{
    static const char text[] = "doze-image 4\nstop SIGQUIT\nport 80/tcp\nport 53/udp\n";
    struct dz_image i;
    char name[DZ_IMAGE_SIGNAL_TEXT], port[DZ_IMAGE_PORT_TEXT];
    DZ_AUTO(dz_buf_release) struct dz_buf is = DZ_BUF_INIT(DZ_IMAGE_MANIFEST_MAX);
    CHECK_INT(dz_image_parse(dz_str(text), &i, NULL), 0);
    CHECK_INT(i.stop_signal, 3);
    CHECK_STR(i.port[1], "53/udp");
    dz_image_print_config(&i, &is);
    CHECK_STR(is.p, text);
    dz_image_release(&i);
    dz_buf_reset(&is);
    CHECK_INT(dz_image_parse(DZ_STR("doze-image 4\nport 80/tcp\n"), &i, NULL), 0);
    dz_image_print_config(&i, &is);
    CHECK_STR(is.p, "doze-image 4\nport 80/tcp\n");
    dz_image_release(&i);
    CHECK_STR(dz_image_signal_text(dz_image_signal_parse(DZ_STR("RTMIN+3")), name), "SIGRTMIN+3");
    CHECK_STR(dz_image_signal_text(dz_image_signal_parse(DZ_STR("15")), name), "SIGTERM");
    CHECK_STR(dz_image_signal_text(33, name), "33");
    CHECK(dz_image_signal_text(0, name) == NULL);
    CHECK(dz_image_port_parse(DZ_STR("8080"), port));
    CHECK_STR(port, "8080/tcp");
    CHECK(dz_image_port_parse(DZ_STR("53/UDP"), port));
    CHECK_STR(port, "53/udp");
    CHECK(!dz_image_port_parse(DZ_STR("53/"), port));
}

static int refused(const char *text, const char *why)
{
    struct dz_image i;
    struct dz_err err = {0};
    int rc = dz_image_parse(dz_str(text), &i, &err);
    CHECK(rc == DZ_EINVAL);
    CHECK(strstr(err.msg, why) != NULL);
    return rc;
}

TEST(what_is_wrong_is_refused_by_its_line)
{
    refused("", "line 1");
    refused("doze-image 5\n", "newer");
    refused("doze-image 4\nstop SIGNONE\n", "not a signal");
    refused("doze-image 4\nstop 0\n", "not a signal");
    refused("doze-image 4\nstop SIGRTMIN+31\n", "not a signal");
    refused("doze-image 4\nport 80\n", "not a port");
    refused("doze-image 4\nport 0/tcp\n", "not a port");
    refused("doze-image 4\nport 65536/tcp\n", "not a port");
    refused("doze-image 4\nport 80/icmp\n", "not a port");
    refused("doze-image 3\nkind elf\n", "line 2");
    refused("doze-image 2\nmachine x\n", "not a number");
    refused("doze-image 1\ncolour red\n", "line 2");
    refused("doze-image 1\npolicy\n", "line 2");
    refused("doze-image 1\nuser a\033b\n", "line 2");
    refused("doze-image 1\nworkdir w\n", "line 2");
    refused("doze-image 1\nenv A\n", "line 2");
    refused("doze-image 1\nmemory x\n", "not a number");
    refused("doze-image 1\nsha256 12\n", "not a SHA-256");
    refused("doze-image 1\nprogram " HASH " 8 12 bin\n", "a program needs");
    refused("doze-image 1\npackage a b\n", "a package needs");
    refused("doze-image 1\npack " HASH "\n", "a pack needs");
    refused("doze-image 1\npack 12 4096\n", "not a SHA-256");
    refused("doze-image 1\npack " HASH " x\n", "not a number");
    refused("doze-image 1\npack " HASH " 18446744073709551615\n", "line 2");
}

TEST(names)
{
    char full[DZ_IMAGE_NAME_MAX + 1];
    CHECK_INT(dz_image_full_name("a", full, NULL), 0);
    CHECK_STR(full, "a:latest");
    CHECK_INT(dz_image_full_name("a-b.c:1_2", full, NULL), 0);
    CHECK_STR(full, "a-b.c:1_2");
    static const char *const bad[] = {"",    ":",    "a:", ":a",    "A",
                                      "a/b", "../a", ".a", "a:b:c", "a b"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++)
        CHECK_INT(dz_image_full_name(bad[i], full, NULL), DZ_EINVAL);
}

TORTURE(a_manifest_under_want)
{
    struct dz_image i;
    if (dz_image_parse(dz_str(whole), &i, NULL) == 0)
        dz_image_release(&i);
}
