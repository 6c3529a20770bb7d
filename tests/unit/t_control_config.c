/* SPDX-License-Identifier: MIT
 *
 * What a client says of a sandbox: refused with the field, kept, and read again.
 */
#include "control/control_int.h"
#include "tap.h"

static const char *field_of(const struct dz_control_spec *s)
{
    static struct dz_why why;
    uint64_t memory = 0;
    why = (struct dz_why){0};
    return dz_control_check_spec(s, &memory, &why) == 0 ? "none" : why.field;
}

TEST(spec_names_the_field)
{
    const struct dz_control_spec good = {.idle_ms = DZ_IDLE_INHERIT};
    struct dz_control_spec s = good;
    CHECK_STR(field_of(&s), "none");
#define BAD(member, value, name) \
    s = good;                    \
    s.member = (value);          \
    CHECK_STR(field_of(&s), (name))
    BAD(name, "", "name");
    BAD(name, "a b", "name");
    BAD(name, "-a", "name");
    BAD(name, "sbx_a", "name");
    BAD(name, "a.doze", "name");
    BAD(kind, "vm", "kind");
    BAD(size, "huge", "size");
    BAD(region, "mars", "region");
    BAD(policy, "root", "policy");
    BAD(keep, "some", "keep");
    BAD(durability, "lax", "durability");
    BAD(idle_mode, "often", "idle.mode");
    BAD(memory_bytes, 1, "memory");
    BAD(memory_bytes, DZ_CONTROL_MEMORY_MAX + 1, "memory");
    BAD(idle_ms, 1, "idle.timeout");
    BAD(idle_ms, DZ_CONTROL_IDLE_MAX_MS + 1, "idle.timeout");
    BAD(env_json, "{\"a=b\":\"c\"}", "env");
    BAD(env_json, "{\"a\":1}", "env");
    BAD(env_json, "[]", "env");
    BAD(labels_json, "{\"a b\":\"c\"}", "labels");
    BAD(labels_json, "{\"\":\"c\"}", "labels");
    BAD(metadata_json, "7", "metadata");
#undef BAD
}

TEST(spec_takes_what_is_sound)
{
    const struct dz_control_spec s = {
        .name = "a.b-C_9",
        .image = "base",
        .kind = "wasm",
        .size = "shared-cpu-2x",
        .region = "local",
        .policy = "compute",
        .keep = "files",
        .durability = "normal",
        .idle_mode = "never",
        .idle_ms = DZ_IDLE_OFF,
        .env_json = "{\"A\":\"\"}",
        .labels_json = "{\"a/b\":\"c\"}",
        .metadata_json = "{\"x\":[1,{}]}",
    };
    struct dz_why why = {0};
    uint64_t memory = 0;
    CHECK_INT(dz_control_check_spec(&s, &memory, &why), 0);
    CHECK_INT(memory, 512 << 20);
    struct dz_control_spec both = s;
    both.memory_bytes = 64 << 20; /* memory wins over size */
    CHECK_INT(dz_control_check_spec(&both, &memory, &why), 0);
    CHECK_INT(memory, 64 << 20);
    both.snapshot = "snap_x";
    CHECK_STR(field_of(&both), "snapshot");
}

TEST(config_comes_back)
{
    const struct dz_control_spec s = {.size = "shared-cpu-1x",
                                      .policy = "posix",
                                      .env_json = "{\"A\":\"b\\\"c\"}",
                                      .no_resume = true};
    char *config = dz_control_config_text(&s, "py:3", 99), *meta;
    meta = dz_control_metadata_text("{\"k\":\"v\"}", "{\"deep\":{\"er\":1}}");
    const struct dz_instance row = {.id = "sbx_x", .config = config, .metadata = meta};
    struct dz_sandbox_config c = {0};
    CHECK_INT(dz_sandbox_config_of(&row, &c, NULL), 0);
    CHECK_STR(c.image, "py:3");
    CHECK_STR(c.size, "shared-cpu-1x");
    CHECK_STR(c.policy, "posix");
    CHECK_STR(c.durability, "normal");
    CHECK_INT(c.memory_bytes, 99);
    CHECK(!c.auto_resume);
    CHECK_STR(c.env, "{\"A\":\"b\\\"c\"}");
    CHECK_STR(c.labels, "{\"k\":\"v\"}");
    CHECK_STR(c.metadata, "{\"deep\":{\"er\":1}}");
    CHECK(dz_sandbox_has_label(&row, "k=v"));
    CHECK(dz_sandbox_has_label(&row, "k"));
    CHECK(!dz_sandbox_has_label(&row, "k=w"));
    CHECK(!dz_sandbox_has_label(&row, "kk"));
    dz_sandbox_config_release(&c);
    dz_free(config);
    dz_free(meta);
}

TEST(config_of_a_row_without_one)
{
    const struct dz_instance row = {.id = "x", .config = "", .metadata = ""};
    const struct dz_instance bad = {.id = "x", .config = "[1]", .metadata = ""};
    struct dz_sandbox_config c = {0};
    struct dz_err err;
    CHECK_INT(dz_sandbox_config_of(&row, &c, &err), 0);
    CHECK(c.auto_resume && !c.image);
    CHECK_STR(c.env, "{}");
    dz_sandbox_config_release(&c);
    CHECK_INT(dz_sandbox_config_of(&bad, &c, &err), DZ_ECORRUPT);
}

TEST(environment_has_ours_then_the_images_then_its_own)
{
    static struct dz_image image = {.env = {"PATH=/image", "B=image", "junk", NULL}};
    char **list = NULL;
    bool path = false, own = false;
    CHECK_INT(dz_sandbox_env_of("{\"B\":\"own\",\"C\":\"x y\"}", image.env, &list, NULL), 0);
    size_t n = 0;
    for (; list[n]; n++) {
        path = path || strcmp(list[n], "PATH=/image") == 0;
        own = own || strcmp(list[n], "B=own") == 0;
        CHECK(strcmp(list[n], "B=image") != 0);
    }
    CHECK_INT(n, 4); /* HOSTNAME, PATH, B, C */
    CHECK(path && own);
    dz_free(list);
    CHECK_INT(dz_sandbox_env_list("[]", &list, NULL), DZ_ECORRUPT);
}
