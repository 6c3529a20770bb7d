/* SPDX-License-Identifier: MIT
 *
 * Settings: what files, variables and options make of them, and what is refused.
 */
#include "base/buf.h"
#include "base/json.h"
#include "base/num.h"
#include "config/config.h"
#include "tap.h"

#include <fcntl.h>

static struct dz_config c;
static struct dz_err err;

static int parse(const char *text)
{
    return dz_config_parse("f.ini", dz_str(text), &c, &err);
}
#define REFUSED(text, sentence)            \
    do {                                   \
        CHECK_INT(parse(text), DZ_EINVAL); \
        CHECK_STR(err.msg, sentence);      \
    } while (0)

TEST(a_row_is_whole)
{
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        const struct dz_config_row *r = &dz_config_rows[i];
        char name[DZ_CONFIG_NAME_MAX], variable[DZ_CONFIG_NAME_MAX];
        CHECK(r->section[0] && r->key[0] && r->option[0] && r->argument[0]);
        CHECK(strlen(dz_config_name(r, name)) < DZ_CONFIG_NAME_MAX - 8);
        CHECK(strlen(r->help) > 8 && strlen(r->help) <= 78);
        CHECK(r->help[strlen(r->help) - 1] != '.');
        CHECK(r->min <= r->max);
        for (size_t k = 0; k < i; k++) {
            const struct dz_config_row *o = &dz_config_rows[k];
            char other[DZ_CONFIG_NAME_MAX];
            CHECK(strcmp(o->option, r->option) != 0);
            CHECK(strcmp(dz_config_variable(o, other), dz_config_variable(r, variable)) != 0);
            /* rows of a section stand together */
            CHECK(strcmp(o->section, r->section) != 0 ||
                  strcmp(dz_config_rows[i - 1].section, r->section) == 0);
        }
    }
}

TEST(what_is_not_said_has_its_default)
{
    CHECK_INT(parse("# nothing\n\n[log]\n"), 0);
    CHECK_STR(c.doze_data, "");
    CHECK_INT(c.ladder_suspend_after, 15 * 60 * 1000);
    CHECK_INT(c.ladder_freeze_after, 24 * 3600 * 1000);
    CHECK_INT(c.cells_ahead, 8);
    CHECK_STR(c.log_level, "info");
    CHECK_STR(dz_config_origin(&c, DZ_CONFIG_log_level), "default");
    dz_config_release(&c);
}

TEST(a_file_says_what_is_otherwise_and_where)
{
    CHECK_INT(parse("[log]\r\nlevel=debug ; more\r\n  format = json\n[ladder]\n"
                    "suspend_after = 1m30s\nfreeze_after = never\n[doze]\ndata = /a b\n"
                    "[log]\n[cells]\nahead = 256"),
              0);
    CHECK_STR(c.log_level, "debug");
    CHECK_STR(c.log_format, "json");
    CHECK_STR(dz_config_origin(&c, DZ_CONFIG_log_format), "f.ini:3");
    CHECK_INT(c.ladder_suspend_after, 90 * 1000);
    CHECK(c.ladder_freeze_after == DZ_CONFIG_NEVER);
    CHECK_STR(dz_config_text(&c, DZ_CONFIG_ladder_freeze_after), "never");
    CHECK_STR(c.doze_data, "/a b");
    CHECK_INT(c.cells_ahead, 256);
    dz_config_release(&c);
}

TEST(what_cannot_be_meant_is_named_with_its_line)
{
    REFUSED("\n[lgo]\n", "f.ini:2: no section \"lgo\"; did you mean log?");
    REFUSED("[xyzzy]\n", "f.ini:1: no section \"xyzzy\"; doze config lists the sections");
    REFUSED("[log\n", "f.ini:1: the head of the section does not end in ]");
    REFUSED("[log]\nlevle = info\n", "f.ini:2: no key \"levle\" in [log]; did you mean level?");
    REFUSED("[log]\nahead = 4\n", "f.ini:2: no key \"ahead\" in [log]; it belongs to [cells]");
    REFUSED("[log]\nq = 4\n", "f.ini:2: no key \"q\" in [log]; doze config lists the keys");
    REFUSED("[log] level = info\n", "f.ini:1: \"level = info\" follows the head of a section: "
                                    "put it on a line of its own");
    REFUSED("level = info\n", "f.ini:1: \"level\" is before the first [section]");
    REFUSED("\033[2J = info\n", "f.ini:1: \"\\x1b[2J\" is before the first [section]");
    REFUSED("[log]\nlevel = info\nlevel = info\n",
            "f.ini:3: level is set twice: it is also at f.ini:2");
    REFUSED("[log]\nlevel\n", "f.ini:2: expected a [section], KEY = VALUE or a comment");
    REFUSED("[log]\nlevel = loud\n",
            "f.ini:2: log.level must be error, warn, info or debug, not \"loud\"");
    REFUSED("[log]\nlevel = \n", "f.ini:2: log.level must be error, warn, info or debug, not \"\"");
    REFUSED("[doze]\ndata = here\n", "f.ini:2: data must be an absolute path");
    REFUSED("[cells]\nahead = 257\n",
            "f.ini:2: cells.ahead must be a number from 1 to 256, not \"257\"");
    REFUSED("[cells]\nahead = 0\n",
            "f.ini:2: cells.ahead must be a number from 1 to 256, not \"0\"");
    REFUSED("[ladder]\nsuspend_after = 0\n",
            "f.ini:2: ladder.suspend_after must be a duration from "
            "1ms to 365d, or never, not \"0\"");
    REFUSED("[daemon]\ndrain_timeout = never\n",
            "f.ini:2: daemon.drain_timeout must be a duration from 1s to 1h, not \"never\"");
    CHECK_INT(dz_config_parse("f.ini", DZ_STR("[log]\nlevel = a\0b\n"), &c, &err), DZ_EINVAL);
    CHECK_STR(err.msg, "f.ini:2: a NUL byte");
}

TEST(a_section_may_have_a_comment_and_a_file_a_byte_order_mark)
{
    CHECK_INT(parse("\xef\xbb\xbf[log] ; what is told\nlevel = warn\n[cells]# how many\nahead = 9"),
              0);
    CHECK_STR(c.log_level, "warn");
    CHECK_STR(dz_config_origin(&c, DZ_CONFIG_log_level), "f.ini:2");
    CHECK_INT(c.cells_ahead, 9);
    dz_config_release(&c);
}

TEST(a_line_that_is_too_long_is_not_cut)
{
    char text[8192];
    int n = snprintf(text, sizeof text, "[doze]\ndata = /%0*d\n", 6000, 0);
    CHECK(n > 6000 && parse(text) == DZ_EINVAL);
    CHECK(strncmp(err.msg, "f.ini:2: a line has 60", 21) == 0);
}

TEST(the_environment_counts_more_and_an_option_most)
{
    (void)setenv("DOZE_LOG_LEVEL", "warn", 1);
    (void)setenv("DOZE_DATA", "relative", 1);
    (void)setenv("DOZE_LOG_FORMAT", "", 1);
    CHECK_INT(dz_config_load(NULL, &c, &err), 0);
    CHECK_STR(c.log_level, "warn");
    CHECK_STR(dz_config_origin(&c, DZ_CONFIG_log_level), "DOZE_LOG_LEVEL");
    CHECK_STR(c.doze_data, "relative");
    CHECK_STR(c.log_format, "text");
    CHECK_INT(dz_config_set(&c, DZ_CONFIG_log_level, "loud", "--log-level", &err), DZ_EINVAL);
    CHECK_STR(err.msg, "--log-level: log.level must be error, warn, info or debug, not \"loud\"");
    CHECK_STR(c.log_level, "warn"); /* untouched */
    CHECK_INT(dz_config_set(&c, DZ_CONFIG_log_level, "error", "--log-level", &err), 0);
    CHECK_STR(c.log_level, "error");
    dz_config_release(&c);

    (void)setenv("DOZE_LOG_LEVL", "info", 1);
    CHECK_INT(dz_config_load(NULL, &c, &err), DZ_EINVAL);
    CHECK_STR(err.msg,
              "environment: \"DOZE_LOG_LEVL\" is not a setting; did you mean DOZE_LOG_LEVEL?");
    (void)unsetenv("DOZE_LOG_LEVL");
    (void)setenv("DOZE_LOG_LEVEL", "x", 1);
    CHECK_INT(dz_config_load(NULL, &c, &err), DZ_EINVAL);
    CHECK(strncmp(err.msg, "DOZE_LOG_LEVEL: log.level must be", 33) == 0);
    CHECK_INT(dz_config_load("/nowhere/doze.ini", &c, &err), DZ_ENOENT);
}

/* --- again -------------------------------------------------------------------------- */

static char path[] = "/tmp/doze-config.XXXXXX";

static void write_file(const char *text)
{
    int fd = open(path, O_WRONLY | O_TRUNC);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
}

static char told[256];
static void on_change(void *arg, const struct dz_config_row *row, bool applied)
{
    size_t n = strlen(told);
    (void)arg;
    (void)snprintf(told + n, sizeof told - n, "%s%c ", row->key, applied ? '+' : '-');
}
static int reload(void)
{
    told[0] = '\0';
    return dz_config_reload(&c, on_change, NULL, &err);
}

TEST(a_reload_changes_what_can_and_names_the_rest)
{
    (void)close(mkstemp(path));
    write_file("[log]\nlevel = warn\n[cells]\nahead = 4\n[ladder]\nsuspend_after = 1m\n");
    CHECK_INT(dz_config_load(path, &c, &err), 0);
    CHECK_INT(dz_config_set(&c, DZ_CONFIG_log_format, "json", "--log-format", &err), 0);
    CHECK_INT(dz_config_set(&c, DZ_CONFIG_doze_data, "/worked/out", "default", &err), 0);
    CHECK_INT(reload(), 0);
    CHECK_STR(told, "");

    write_file("[log]\nlevel = debug\nformat = text\n[cells]\nahead = 5\n");
    CHECK_INT(reload(), 0);
    CHECK_STR(told, "suspend_after+ ahead- level+ ");
    CHECK_STR(c.log_level, "debug");
    CHECK_STR(c.log_format, "json"); /* said by an option */
    CHECK_INT(c.cells_ahead, 4);
    CHECK_INT(c.ladder_suspend_after, 15 * 60 * 1000);
    CHECK_STR(c.doze_data, "/worked/out");
    CHECK_STR(dz_config_origin(&c, DZ_CONFIG_ladder_suspend_after), "default");

    write_file("[doze]\ndata = /else\n[cells]\nahead = 4\n");
    CHECK_INT(reload(), 0);
    CHECK_STR(told, "data- level+ ");

    write_file("[log]\nlevel = error\nlevle = x\n");
    CHECK_INT(reload(), DZ_EINVAL);
    CHECK_STR(told, "");
    CHECK_STR(c.log_level, "info");
    CHECK_INT(unlink(path), 0);
    CHECK_INT(reload(), DZ_ENOENT);
    dz_config_release(&c);
}

/* --- showing ------------------------------------------------------------------------ */

TEST(the_file_of_defaults_is_one)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(1 << 18), said = DZ_BUF_INIT(1 << 18);
    dz_config_print_defaults(&text);
    CHECK_INT(text.err, 0);
    CHECK_INT(parse(text.p), 0);
    dz_config_release(&c);
    /* and so it is when every setting is said */
    struct dz_str rest = dz_str(text.p), line;
    while (dz_str_split(&rest, '\n', &line)) {
        bool key = line.n > 1 && line.p[0] == '#' && line.p[1] != ' ';
        dz_buf_addf(&said, "%.*s\n", DZ_STR_ARG(dz_str_sub(line, key, line.n)));
    }
    CHECK_INT(parse(said.p), 0);
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++)
        CHECK(c.values[i].from_file && strcmp(c.values[i].text, dz_config_rows[i].initial) == 0);
    dz_config_release(&c);
}

TORTURE(every_allocation_may_fail)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(1 << 18);
    struct dz_json j;
    if (parse("[log]\nlevel = debug\n[doze]\ndata = /a\n") == 0) {
        CHECK_STR(c.log_level, "debug");
        if (dz_config_set(&c, DZ_CONFIG_log_level, "warn", "--log-level", &err) < 0)
            CHECK_STR(c.log_level, "debug");
        if (reload() == 0)
            CHECK_STR(c.log_level[0] == 'w' ? "warn" : "info", c.log_level);
        dz_json_init(&j, &text, false);
        dz_config_print_json(&c, &j);
        CHECK(dz_json_finish(&j) <= 0);
        dz_config_release(&c);
    } else {
        CHECK_INT(err.code, DZ_ENOMEM);
    }
}
