/* SPDX-License-Identifier: MIT
 *
 * Bodies read by tables: each kind of field, and what is refused by name.
 */
#include "api/api_json.h"
#include "tap.h"

#include <stddef.h>

struct body {
    const char *text, *object, *inner;
    int flag, seen;
    int64_t number, duration;
    uint64_t size;
    const char *const *words;
    struct dz_api_input input;
};

static const struct dz_api_field sub_fields[] = {
    {"inner", DZ_API_STR, offsetof(struct body, inner), NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};
static const struct dz_api_field fields[] = {
    {"text", DZ_API_STR, offsetof(struct body, text), NULL, 0},
    {"flag", DZ_API_BOOL, offsetof(struct body, flag), NULL, 0},
    {"number", DZ_API_INT, offsetof(struct body, number), NULL, 0},
    {"size", DZ_API_SIZE, offsetof(struct body, size), NULL, 0},
    {"duration", DZ_API_DURATION, offsetof(struct body, duration), NULL, 0},
    {"object", DZ_API_OBJECT, offsetof(struct body, object), NULL, 0},
    {"words", DZ_API_WORDS, offsetof(struct body, words), NULL, 0},
    {"input", DZ_API_INPUT, offsetof(struct body, input), NULL, 0},
    {"sub", DZ_API_SUB, 0, sub_fields, offsetof(struct body, seen)},
    {"later", DZ_API_LATER, 0, NULL, 0},
    {NULL, DZ_API_LATER, 0, NULL, 0},
};

static struct dz_arena arena = DZ_ARENA_INIT(1 << 20);

static int read_body(const char *text, struct body *b, struct dz_why *why)
{
    *b = (struct body){.flag = -1, .duration = -1};
    *why = (struct dz_why){0};
    return dz_api_read(&arena, dz_str(text), fields, b, why);
}

TEST(json_reads_each_kind)
{
    struct dz_why why;
    struct body b;
    CHECK_INT(read_body("{\"text\":\"a\\u00e9\",\"flag\":true,\"number\":7,\"size\":\"2KiB\","
                        "\"duration\":\"1500ms\",\"object\":{\"a\":[1,null]},"
                        "\"words\":[\"x\",\"\"],\"input\":\"in\",\"sub\":{\"inner\":\"i\"}}",
                        &b, &why),
              0);
    CHECK_STR(b.text, "a\xc3\xa9");
    CHECK_INT(b.flag, 1);
    CHECK_INT(b.number, 7);
    CHECK_INT(b.size, 2048);
    CHECK_INT(b.duration, 1500);
    CHECK_STR(b.object, "{\"a\":[1,null]}");
    CHECK_STR(b.words[0], "x");
    CHECK_STR(b.words[1], "");
    CHECK(b.words[2] == NULL);
    CHECK_INT(b.input.text.n, 2);
    CHECK_STR(b.inner, "i");
    CHECK_INT(b.seen, 1);
    CHECK_INT(read_body("{\"size\":5,\"duration\":3,\"input\":true}", &b, &why), 0);
    CHECK_INT(b.size, 5);
    CHECK_INT(b.duration, 3000);
    CHECK_INT(b.input.keep, 1);
    CHECK_INT(read_body("{\"duration\":0.5}", &b, &why), 0);
    CHECK_INT(b.duration, 500);
    CHECK_INT(read_body("{\"duration\":0.0001}", &b, &why), 0);
    CHECK_INT(b.duration, 1); /* not 0, which would mean none */
    CHECK_INT(read_body("{\"duration\":0}", &b, &why), 0);
    CHECK_INT(b.duration, 0);
    dz_arena_release(&arena);
}

TEST(json_null_and_nothing_are_not_given)
{
    struct dz_why why;
    struct body b;
    CHECK_INT(read_body("", &b, &why), 0);
    CHECK_INT(read_body(" \n", &b, &why), 0);
    CHECK_INT(read_body("{\"text\":null,\"flag\":null,\"sub\":null,\"later\":null}", &b, &why), 0);
    CHECK(!b.text && b.flag == -1 && b.seen == 0);
    dz_arena_release(&arena);
}

TEST(json_refuses_by_name)
{
    static const struct {
        const char *text, *field;
        int code;
    } bad[] = {
        {"{\"txt\":1}", "txt", DZ_EINVAL},
        {"{\"text\":1}", "text", DZ_EINVAL},
        {"{\"text\":\"a\\u0000b\"}", "text", DZ_EINVAL},
        {"{\"flag\":1}", "flag", DZ_EINVAL},
        {"{\"number\":-1}", "number", DZ_EINVAL},
        {"{\"number\":1.5}", "number", DZ_EINVAL},
        {"{\"size\":\"big\"}", "size", DZ_EINVAL},
        {"{\"size\":-1}", "size", DZ_EINVAL},
        {"{\"duration\":\"soon\"}", "duration", DZ_EINVAL},
        {"{\"duration\":99999999999}", "duration", DZ_EINVAL},
        {"{\"object\":[]}", "object", DZ_EINVAL},
        {"{\"words\":\"x\"}", "words", DZ_EINVAL},
        {"{\"words\":[1]}", "words", DZ_EINVAL},
        {"{\"input\":7}", "input", DZ_EINVAL},
        {"{\"sub\":{\"outer\":1}}", "sub.outer", DZ_EINVAL},
        {"{\"sub\":{\"inner\":1}}", "sub.inner", DZ_EINVAL},
        {"{\"later\":{}}", "later", DZ_EINVAL},
        {"{\"duration\":-0.5}", "duration", DZ_EINVAL},
        {"{\"duration\":1e300}", "duration", DZ_EINVAL},
        {"[]", "", DZ_EINVAL},
        {"{\"text\":", "", DZ_EINVAL},
        {"{\"text\":\"a\",\"text\":\"b\"}", "", DZ_EINVAL},
        {"{} x", "", DZ_EINVAL},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        struct dz_why why;
        struct body b;
        CHECK_INT(read_body(bad[i].text, &b, &why), bad[i].code);
        CHECK_STR(why.field, bad[i].field);
        CHECK(why.err.msg[0] != '\0');
    }
    dz_arena_release(&arena);
}

TEST(json_suggests_the_field_that_was_meant)
{
    struct dz_why why;
    struct body b;
    CHECK_INT(read_body("{\"numbr\":1}", &b, &why), DZ_EINVAL);
    CHECK(strstr(why.err.msg, "did you mean number?") != NULL);
    dz_arena_release(&arena);
}

TEST(a_body_with_very_many_values_is_refused_before_it_is_parsed)
{
    enum {
        MANY = DZ_API_VALUES_MAX + 100
    };
    static char text[MANY * 3 + 100];
    struct dz_why why;
    struct body b;
    size_t n = (size_t)snprintf(text, sizeof text, "{\"later\":[\"\"");
    for (int i = 1; i < MANY; i++, n += 3)
        memcpy(text + n, ",\"\"", 3);
    memcpy(text + n, "]}", 3);
    CHECK_INT(read_body(text, &b, &why), DZ_ELIMIT);
    n = (size_t)snprintf(text, sizeof text, "{\"text\":\"\\\"");
    memset(text + n, ',', MANY); /* a string may hold them */
    memcpy(text + n + MANY, "\"}", 3);
    CHECK_INT(read_body(text, &b, &why), 0);
    CHECK_INT(strlen(b.text), MANY + 1);
    dz_arena_release(&arena);
}
