/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include "image/image_dockerfile.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct dz_image base = {.kind = DZ_IMAGE_LINUX,
                               .user = "root",
                               .env = {"PATH=/bin", "A=base"},
                               .entry = {"/bin/sh"},
                               .port = {"1/tcp"}};

static int from(void *arg, const char *name, const struct dz_image **ret_base, struct dz_err *err)
{
    (void)arg;
    if (strcmp(name, "gone") == 0)
        return dz_fail(err, DZ_ENOENT, "there is no image gone");
    *ret_base = &base;
    return 0;
}

static int read_text(const char *text, struct dz_dockerfile *d, struct dz_err *err)
{
    static const char *const args[] = {"GIVEN=yes", NULL};
    const struct dz_dockerfile_opts opts = {.file = "D", .build_args = args, .from = from};
    return dz_dockerfile_read(dz_str(text), &opts, d, err);
}

static void refused(const char *text, const char *why)
{
    static struct dz_dockerfile d;
    struct dz_err err = {0};
    CHECK(read_text(text, &d, &err) < 0);
    CHECK(strstr(err.msg, why) != NULL);
}

TEST(words_variables_and_quotes)
{
    static struct dz_dockerfile d;
    struct dz_err err = {0};
    CHECK_INT(read_text("FROM x\n"
                        "ARG GIVEN=no OTHER=b\n"
                        "ENV ONE='$A' TWO=\"$A $OTHER\" THREE=a\\ b FOUR=${NONE:-none}${A:+some}\n"
                        "ENV LEGACY the  rest of $A\n"
                        "ENV A=new B=$A\n"
                        "ARG TWO=hidden\n"
                        "WORKDIR \"/a b\"\n"
                        "WORKDIR c/../d\n"
                        "RUN echo \"$A\"\n",
                        &d, &err),
              0);
    const char *const want[] = {"PATH=/bin",
                                "A=new",
                                "ONE=$A",
                                "TWO=base b",
                                "THREE=a b",
                                "FOUR=nonesome",
                                "LEGACY=the  rest of base",
                                "B=base",
                                "GIVEN=yes",
                                "OTHER=b"};
    CHECK_INT(d.step_count, 3);
    for (size_t i = 0; i < DZ_ARRAY_LEN(want); i++)
        CHECK_STR(d.steps[2].env[i], want[i]);
    CHECK(d.steps[2].env[DZ_ARRAY_LEN(want)] == NULL);
    CHECK(d.config.env[8] == NULL); /* an ARG is no variable of the image */
    CHECK_STR(d.config.workdir, "/a b/d");
    CHECK_STR(d.steps[2].workdir, "/a b/d");
    CHECK_STR(d.steps[2].argv[2], "echo \"$A\"");
    CHECK_STR(d.steps[2].shown, "RUN echo \"$A\"");
    CHECK_INT(d.steps[2].line, 9);
    dz_dockerfile_release(&d);
}

TEST(lines_go_on_and_have_comments_and_documents)
{
    static struct dz_dockerfile d;
    struct dz_err err = {0};
    CHECK_INT(
        read_text("# first\r\nFROM x\r\nRUN a \\\r\n  # within\r\n\r\n  b\r\n"
                  "RUN <<-E\n\tbody $X\n\tE\nRUN cat <<'E' <<F\none\nE\ntwo\nF\nRUN x <<<y << 2\n",
                  &d, &err),
        0);
    CHECK_STR(d.steps[0].argv[2], "a   b");
    CHECK_INT(d.steps[0].line, 3);
    CHECK_STR(d.steps[1].argv[2], "body $X\n");
    CHECK_STR(d.steps[2].argv[2], "cat <<'E' <<F\none\nE\ntwo\nF\n");
    CHECK_STR(d.steps[3].argv[2], "x <<<y << 2");
    dz_dockerfile_release(&d);
}

TEST(commands_and_settings)
{
    static struct dz_dockerfile d;
    CHECK_INT(read_text("FROM x\nENTRYPOINT [\"/e\"]\nCMD [\"c\", \"d\"]\nEXPOSE 1 2/udp\nUSER u\n",
                        &d, NULL),
              0);
    CHECK_STR(d.config.entry[0], "/e");
    CHECK_STR(d.config.entry[2], "d");
    CHECK(d.config.entry[3] == NULL);
    CHECK_STR(d.config.port[1], "2/udp");
    CHECK(d.config.port[2] == NULL);
    CHECK_STR(d.config.user, "u");
    dz_dockerfile_release(&d);
    CHECK_INT(read_text("FROM x\nENTRYPOINT run it\nCMD [\"c\"]\n", &d, NULL), 0);
    CHECK_STR(d.config.entry[2], "run it");
    CHECK(d.config.entry[3] == NULL);
    dz_dockerfile_release(&d);
    CHECK_INT(
        read_text("FROM x\nCOPY --chown=1:2 [\"a b\", \"c\", \"/to/\"]\nCOPY x .\n", &d, NULL), 0);
    CHECK_STR(d.config.entry[0], "/bin/sh");
    CHECK_INT(d.steps[0].source_count, 2);
    CHECK_STR(d.steps[0].sources[0], "a b");
    CHECK_STR(d.steps[0].chown, "1:2");
    CHECK_STR(d.steps[0].to, "/to/");
    CHECK_STR(d.steps[1].to, "/");
    dz_dockerfile_release(&d);
}

TEST(what_is_wrong_is_refused_by_its_line)
{
    refused("", "D:1: there is no FROM");
    refused("FROM gone", "D:1: FROM gone: there is no image gone");
    refused("\n\nFROM x\nCOPY a b c", "D:4: COPY of several");
    refused("FROM x\nRUN \\\n\\\n", "D:2: RUN needs a command");
    refused("FROM x\nENV A=${B", "${ without }");
    refused("FROM x\nENV A=${B:-$C}", "a variable in a variable");
    refused("FROM x\nCOPY [\"$A\", \"b\"]", "a variable in an array");
    refused("FROM x\nARG 1=2", "not the name of a variable");
    refused("FROM x y", "FROM needs IMAGE or");
    refused("FROM x as y z", "FROM needs IMAGE or");
    refused("FROM x\nWORKDIR", "WORKDIR needs a value");
    refused("FROM x\nUSER a\tb", "USER needs a value");
    refused("FROM x\nRUN <<E\n#!/bin/x\nE\n", "begins with #!");
}

/* A context in a directory that is removed. */
static void in_context(void (*fn)(const char *dir))
{
    char dir[] = "/tmp/t_dockerfile.XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    fn(dir);
}

static void ignore_with(const char *dir)
{
    static const char text[] =
        "# no\n*.o\n/build/\n**/cache\n!build/keep\ndocs/**/x?.md\n../up\n.\n";
    static const struct {
        const char *path;
        bool out;
    } all[] = {{"a.o", true},        {"src/a.o", false},       {"build", true},
               {"build/x", true},    {"build/keep", false},    {"build/keep/y", false},
               {"cache", true},      {"a/b/cache", true},      {"a/b/cache/c", true},
               {"docs/x1.md", true}, {"docs/a/b/x2.md", true}, {"docs/xx1.md", false},
               {"up", true},         {"other", false}};
    char path[64];
    struct dz_context *c = NULL;
    (void)snprintf(path, sizeof path, "%s/.dockerignore", dir);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK_INT(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
    (void)close(fd);
    CHECK_INT(dz_context_open(dir, &c, NULL), 0);
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        if (dz_context_ignores(c, all[i].path) != all[i].out)
            CHECK_STR(all[i].path, all[i].out ? "left out" : "kept");
    dz_context_close(c);
    (void)unlink(path);
    (void)rmdir(dir);
}

TEST(dockerignore)
{
    in_context(ignore_with);
}

TORTURE(a_dockerfile_under_want)
{
    static struct dz_dockerfile d;
    if (read_text("FROM x\nENV A=$B\nRUN a <<E\nb\nE\nCOPY a b /c/\nCMD [\"x\"]\nLABEL a=b\n", &d,
                  NULL) == 0)
        dz_dockerfile_release(&d);
}
