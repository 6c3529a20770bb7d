/* SPDX-License-Identifier: MIT
 * What a seed, a zygote and the process of a call refuse to do, and that a seed says so. */
#include "tap.h"

#include "base/fd.h"
#include "cell/cell_called.h"
#include "cell/cell_disk.h"
#include "cell/cell_request.h"
#include "cell/cell_zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#define HASH_AFTER(first) first "123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HASH              HASH_AFTER("0")

enum {
    FIRST = 1 << 16, /* of a range of users */
    COUNT = 1 << 16,
    CPUINFO_MAX = 8191,             /* bytes of text about a processor */
    CARRY_BYTES = 4 + 128 + 65 + 3, /* what to do, a name, a hash, to the next multiple of 4 */
};

static uint8_t payload[DZ_CELL_FRAME_MAX];

/* Is it refused, with a sentence that has this in it? NULL: taken. A refusal leaves the result. */
static bool is(enum dz_request_reader by, const struct dz_frame *f, size_t fds, const char *why)
{
    struct dz_err err = {0};
    struct dz_request r, before;
    memset(&r, 0x5a, sizeof r);
    before = r;
    int rc = dz_request_read(by, f, payload, fds, &r, &err);
    if (rc == 0)
        return !why && (uint32_t)r.type == f->type;
    return why && rc == DZ_EIO && strstr(err.msg, why) && memcmp(&r, &before, sizeof r) == 0;
}

TEST(each_socket_takes_its_own_types)
{
    static const struct {
        enum dz_request_reader by;
        uint32_t type;
        size_t fds;
    } takes[] = {{DZ_READER_ROOT, DZ_FRAME_ZYGOTE_FORK, 1},
                 {DZ_READER_ROOT, DZ_FRAME_ZYGOTE_IMAGE, 2},
                 {DZ_READER_ROOT_CALLS, DZ_FRAME_ZYGOTE_CALL, 2},
                 {DZ_READER_ZYGOTE, DZ_FRAME_ZYGOTE_FORK, 1}};
    for (unsigned by = 0; by < DZ_READERS; by++)
        for (uint32_t type = 0; type < DZ_FRAME_TYPES; type++) {
            const struct dz_frame f = {.type = type};
            size_t fds = 0;
            for (size_t i = 0; i < DZ_ARRAY_LEN(takes); i++)
                if (takes[i].by == by && takes[i].type == type)
                    fds = takes[i].fds;
            if (fds)
                CHECK(is((enum dz_request_reader)by, &f, fds, NULL));
            else
                CHECK(is((enum dz_request_reader)by, &f, 0, "re")); /* request, numbers are */
        }
}

TEST(a_request_has_its_number_of_descriptors)
{
    const struct dz_frame fork = {.type = DZ_FRAME_ZYGOTE_FORK},
                          image = {.type = DZ_FRAME_ZYGOTE_IMAGE},
                          call = {.type = DZ_FRAME_ZYGOTE_CALL};
    CHECK(is(DZ_READER_ROOT, &fork, 0, "0 descriptors, not 1 to 1"));
    CHECK(is(DZ_READER_ROOT, &fork, 2, "2 descriptors, not 1 to 1"));
    CHECK(is(DZ_READER_ZYGOTE, &fork, 0, "0 descriptors"));
    CHECK(is(DZ_READER_ZYGOTE, &fork, 2, NULL)); /* with a gate */
    CHECK(is(DZ_READER_ZYGOTE, &fork, 3, "3 descriptors"));
    CHECK(is(DZ_READER_ROOT, &image, 1, "1 descriptors, not 2 to 66"));
    CHECK(is(DZ_READER_ROOT, &image, 66, NULL));
    CHECK(is(DZ_READER_ROOT, &image, 67, "67 descriptors"));
    CHECK(is(DZ_READER_ROOT_CALLS, &call, 1, "1 descriptors, not 2 to 66"));
    CHECK(is(DZ_READER_ROOT_CALLS, &call, 66, NULL));
    CHECK(is(DZ_READER_ROOT_CALLS, &call, 67, "67 descriptors"));
}

TEST(a_request_with_descriptors_is_empty)
{
    CHECK(is(DZ_READER_ROOT, &(struct dz_frame){.type = DZ_FRAME_ZYGOTE_FORK, .size = 1}, 1,
             "must be empty"));
    CHECK(is(DZ_READER_ROOT, &(struct dz_frame){.type = DZ_FRAME_ZYGOTE_IMAGE, .stream = 1}, 2,
             "must be empty"));
    CHECK(is(DZ_READER_ZYGOTE, &(struct dz_frame){.type = DZ_FRAME_ZYGOTE_FORK, .value = 1}, 1,
             "must be empty"));
}

static bool user_is(uint64_t first, uint32_t count, uint32_t user, const char *why)
{
    const struct dz_zygote_user who = {.user = user, .native = user % 3, .cpu = user % 4};
    const struct dz_frame f = {
        .type = DZ_FRAME_ZYGOTE_USER, .value = first, .stream = count, .size = sizeof who};
    memcpy(payload, &who, sizeof who);
    return is(DZ_READER_ZYGOTE_FIRST, &f, 0, why);
}

TEST(a_zygote_becomes_a_user_of_a_range_or_stays)
{
    const struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_USER, .size = 3};
    CHECK(user_is(0, 0, 0, NULL));
    const struct dz_zygote_user other = {.native = 3};
    memcpy(payload, &other, sizeof other);
    CHECK(is(DZ_READER_ZYGOTE_FIRST,
             &(struct dz_frame){.type = DZ_FRAME_ZYGOTE_USER, .size = sizeof other}, 0,
             "unknown kind 3"));
    const struct dz_zygote_user unlike = {.cpu = 4};
    memcpy(payload, &unlike, sizeof unlike);
    CHECK(is(DZ_READER_ZYGOTE_FIRST,
             &(struct dz_frame){.type = DZ_FRAME_ZYGOTE_USER, .size = sizeof unlike}, 0,
             "unknown baseline 4"));
    struct dz_frame with_cpus = {.type = DZ_FRAME_ZYGOTE_USER, .size = sizeof other + CPUINFO_MAX};
    struct dz_request r;
    struct dz_err err;
    memset(payload, 0, sizeof other);
    CHECK_INT(dz_request_read(DZ_READER_ZYGOTE_FIRST, &with_cpus, payload, 0, &r, &err), 0);
    CHECK(r.who.cpuinfo == (const char *)payload + sizeof other);
    CHECK_INT(r.who.cpuinfo_size, CPUINFO_MAX);
    with_cpus.size++;
    CHECK(is(DZ_READER_ZYGOTE_FIRST, &with_cpus, 0, "wrong size or number"));
    CHECK(user_is(FIRST, COUNT, FIRST, NULL));
    CHECK(user_is(FIRST, COUNT, FIRST + DZ_USERS_HELPERS - 1, NULL));
    CHECK(user_is(0, 0, 1, "not a range"));     /* any user at all */
    CHECK(user_is(0, COUNT, 0, "not a range")); /* root's ids */
    CHECK(user_is(FIRST, 0, 0, NULL));          /* of a host that found out that it can have none */
    CHECK(user_is(FIRST, 0, FIRST, "not a range"));
    CHECK(user_is(FIRST, COUNT - 1, FIRST, "not a range")); /* what no mask describes */
    CHECK(user_is(FIRST + 1, COUNT, FIRST + 1, "not a range"));
    CHECK(user_is(FIRST, 256, FIRST, "not a range"));
    CHECK(user_is(3u << 30, 1 << 28, 3u << 30, "not a range"));
    CHECK(user_is(1ull << 32, COUNT, 0, "wrong size or number"));
    CHECK(is(DZ_READER_ZYGOTE_FIRST, &f, 0, "wrong size or number"));
    CHECK(user_is(FIRST, COUNT, FIRST - 1, "not a user for zygotes"));
    CHECK(
        user_is(FIRST, COUNT, FIRST + DZ_USERS_HELPERS, "not a user for zygotes")); /* a tenant's */
    CHECK(user_is(FIRST, COUNT, 0, "not a user for zygotes"));
}

static bool image_is(const char *hash, uint32_t size, const char *why)
{
    const struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_IMAGE, .size = size};
    memset(payload, 'a', 100);
    memcpy(payload, hash, strlen(hash) + 1);
    return is(DZ_READER_ZYGOTE_IMAGE, &f, 0, why);
}

TEST(an_image_has_a_hash)
{
    CHECK(image_is(HASH, 65, NULL));
    CHECK(image_is(HASH, 64, "hash is malformed"));
    CHECK(image_is(HASH "a", 66, "hash is malformed"));
    CHECK(image_is(HASH "a", 65, "hash is malformed")); /* no end */
    CHECK(image_is("0123", 65, "hash is malformed"));
    CHECK(image_is(HASH_AFTER("G"), 65, "hash is malformed"));
    CHECK(image_is(HASH_AFTER("A"), 65, "hash is malformed"));
}

TEST(numbers_are_whole)
{
    struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_WARM, .size = 40};
    struct dz_request r;
    memset(payload, 0, sizeof payload);
    CHECK_INT(dz_request_read(DZ_READER_ZYGOTE, &f, payload, 0, &r, NULL), 0);
    CHECK(!r.warm.sha256 && r.warm.count == 2 && r.warm.numbers == payload + 32);
    payload[31] = 1;
    CHECK_INT(dz_request_read(DZ_READER_ZYGOTE, &f, payload, 0, &r, NULL), 0);
    CHECK(r.warm.sha256 == payload);
    f.size = DZ_CELL_FRAME_MAX;
    CHECK_INT(dz_request_read(DZ_READER_ZYGOTE, &f, payload, 0, &r, NULL), 0);
    CHECK_INT(r.warm.count, DZ_ZYGOTE_WARM_MAX);
    f.size = 31;
    CHECK(is(DZ_READER_ZYGOTE, &f, 0, "not a list of numbers"));
    f.size = 39;
    CHECK(is(DZ_READER_ZYGOTE, &f, 0, "not a list of numbers"));
    f.size = 40;
    CHECK(is(DZ_READER_ZYGOTE, &f, 1, "1 descriptors"));
}

/* --- calls ------------------------------------------------------------------------------------ */

static struct dz_call_head head;
static uint32_t function, more; /* bytes behind the argument */

/* A sound call of each function. */
static void call_of(enum dz_call_id id, uint64_t present)
{
    const struct dz_call_function *fn = &dz_call_functions[id];
    head = (struct dz_call_head){
        .present = present, .fd_count = (uint32_t)fn->fd_count, .arg_size = (uint32_t)fn->arg_size};
    function = id;
    more = 0;
    memset(payload, 0, sizeof payload);
}

static bool call_is(size_t fds, const char *why)
{
    const struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_CALL,
                               .stream = function,
                               .size = (uint32_t)sizeof head + head.arg_size + more};
    memcpy(payload, &head, sizeof head);
    return is(DZ_READER_CALL, &f, fds, why);
}

TEST(a_call_finds_its_files)
{
    struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_CALL, .stream = DZ_CALL_TRANSFER};
    struct dz_request r;
    call_of(DZ_CALL_TRANSFER, 0xd); /* no image */
    f.size = (uint32_t)sizeof head + head.arg_size;
    memcpy(payload, &head, sizeof head);
    CHECK_INT(dz_request_read(DZ_READER_CALL, &f, payload, 3, &r, NULL), 0);
    CHECK_INT(r.call.fd_count, 5);
    CHECK_INT(r.call.fds[0], DZ_CALL_FILES);
    CHECK_INT(r.call.fds[1], -1);
    CHECK_INT(r.call.fds[3], DZ_CALL_FILES + 2);
    CHECK_INT(r.call.fds[4], -1); /* no pack */
    CHECK(r.call.arg == payload + sizeof head && r.call.function == &dz_call_functions[f.stream]);
    CHECK(call_is(2, "3 files announced, 2 received"));
    CHECK(call_is(4, "3 files announced, 4 received"));
    head.present |= 1 << 5;
    CHECK(call_is(4, "a file beyond its 5"));
    head.present = UINT64_C(1) << 63;
    CHECK(call_is(1, "a file beyond its 5"));
    CHECK(call_is(65, "65 descriptors"));
}

TEST(a_call_is_of_a_function_that_takes_it)
{
    call_of(DZ_CALL_CHECKPOINT, 3);
    CHECK(call_is(2, NULL));
    function = DZ_CALL_FORK;
    CHECK(call_is(2, "no function 0"));
    function = DZ_CALL_COUNT;
    CHECK(call_is(2, "no function 4"));
    function = UINT32_MAX;
    CHECK(call_is(2, "no function"));
    call_of(DZ_CALL_EXPAND, 0);
    CHECK(call_is(0, NULL));
    head.arg_size--; /* what the function would read beyond its end */
    CHECK(call_is(0, "does not take 7 bytes and 2 files"));
    head.arg_size += 2;
    CHECK(call_is(0, "does not take 9 bytes and 2 files"));
    call_of(DZ_CALL_EXPAND, 0);
    more = 1;
    CHECK(call_is(0, "does not take"));
    call_of(DZ_CALL_EXPAND, 0);
    head.fd_count = 1;
    CHECK(call_is(0, "does not take 8 bytes and 1 files"));
    call_of(DZ_CALL_EXPAND, 0);
    head.pad = 1;
    CHECK(call_is(0, "does not take"));
    CHECK(is(DZ_READER_CALL,
             &(struct dz_frame){
                 .type = DZ_FRAME_ZYGOTE_CALL, .stream = DZ_CALL_EXPAND, .size = sizeof head - 1},
             0, "head is malformed"));
    CHECK(is(DZ_READER_CALL,
             &(struct dz_frame){.type = DZ_FRAME_ZYGOTE_CALL,
                                .stream = DZ_CALL_EXPAND,
                                .value = 1,
                                .size = sizeof head},
             0, "head is malformed"));
}

TEST(a_call_becomes_a_user_of_a_range_or_stays)
{
    call_of(DZ_CALL_CHECKPOINT, 3);
    head.users = (struct dz_os_users){FIRST, COUNT};
    head.user = FIRST + 1;
    CHECK(call_is(2, NULL));
    head.user = 0;
    CHECK(call_is(2, "not a user for zygotes"));
    head.users = (struct dz_os_users){0, 0};
    head.user = 1;
    CHECK(call_is(2, "not a range"));
}

TEST(what_is_carried_is_named_by_strings_that_end)
{
    uint8_t *arg = payload + sizeof head;
    call_of(DZ_CALL_TRANSFER, 0xf);
    CHECK_INT(head.arg_size, CARRY_BYTES);
    CHECK(call_is(4, NULL));
    arg[0] = DZ_CELL_TRANSFER_SHARE + 1;
    CHECK(call_is(4, "argument of function 2 is malformed"));
    arg[0] = DZ_CELL_TRANSFER_SHARE;
    CHECK(call_is(4, NULL));
    memset(arg + 4, 'a', 128); /* a name without an end */
    CHECK(call_is(4, "argument of function 2 is malformed"));
    arg[4] = 0;
    memset(arg + 4 + 128, 'a', 65);
    CHECK(call_is(4, "argument of function 2 is malformed"));
}

/* --- a seed ----------------------------------------------------------------------------------- */

struct planted {
    int control, calls, host;
    pid_t pid;
};

static void plant(struct planted *s)
{
    int control[2], calls[2], host[2];
    struct dz_err err;
    CHECK_INT(dz_frame_pair(control, &err), 0);
    CHECK_INT(dz_frame_pair(calls, &err), 0);
    CHECK_INT(pipe2(host, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0)
        dz_zygote_begin(control[1], calls[1], host[0]);
    (void)close(control[1]);
    (void)close(calls[1]);
    (void)close(host[0]);
    *s = (struct planted){control[0], calls[0], host[1], pid};
}

static void uproot(struct planted *s)
{
    (void)close(s->control);
    (void)close(s->calls);
    (void)waitpid(s->pid, NULL, 0);
    (void)close(s->host);
}

/* So many descriptors of one socket. */
static void send_many(int fd, uint32_t type, int end, size_t count)
{
    const struct dz_frame f = {.type = type};
    int fds[DZ_FRAME_FDS_MAX];
    for (size_t i = 0; i < count; i++)
        fds[i] = end;
    CHECK_INT(dz_frame_send_fds(fd, &f, NULL, fds, count, NULL), 1);
}

TEST(a_seed_that_is_asked_for_nonsense_says_so_and_ends)
{
    struct planted s;
    struct dz_frame f;
    int pair[2], status = 0;
    plant(&s);
    CHECK_INT(dz_frame_pair(pair, NULL), 0);
    send_many(s.control, DZ_FRAME_ZYGOTE_IMAGE, pair[1], DZ_FRAME_FDS_MAX); /* one too many */
    CHECK_INT(dz_frame_receive(s.control, &f, payload, true, NULL), 1);
    CHECK_INT(f.type, DZ_FRAME_ZYGOTE_FAILED);
    payload[f.size] = 0;
    CHECK(strstr((char *)payload, "67 descriptors"));
    CHECK(waitpid(s.pid, &status, 0) == s.pid && WIFEXITED(status) && WEXITSTATUS(status) == 1);
    s.pid = -1;
    (void)close(pair[0]);
    (void)close(pair[1]);
    uproot(&s);
}

/* Whoever made the call hears of it; the seed lives on for all others. */
TEST(a_seed_that_is_asked_for_half_a_call_tells_the_caller)
{
    struct planted s;
    struct dz_frame f;
    int pair[2];
    plant(&s);
    CHECK_INT(dz_frame_pair(pair, NULL), 0);
    for (int i = 0; i < 2; i++) {
        send_many(s.calls, DZ_FRAME_ZYGOTE_CALL, pair[1], 1); /* no stop word */
        CHECK_INT(dz_frame_receive(pair[0], &f, payload, true, NULL), 1);
        CHECK_INT(f.type, DZ_FRAME_ZYGOTE_CALLED);
        CHECK_INT(f.stream, EPROTO);
        CHECK_INT(f.value, 0);
    }
    (void)close(pair[0]);
    (void)close(pair[1]);
    uproot(&s);
}

/* The process of a call says why it does nothing. */
TEST(a_call_that_makes_no_sense_is_refused_by_its_process)
{
    struct planted s;
    struct dz_frame f = {.type = DZ_FRAME_ZYGOTE_CALL, .stream = DZ_CALL_EXPAND, .size = 3};
    int pair[2];
    plant(&s);
    CHECK_INT(dz_frame_pair(pair, NULL), 0);
    send_many(s.calls, DZ_FRAME_ZYGOTE_CALL, pair[1], 2);
    CHECK_INT(dz_frame_receive(pair[0], &f, payload, true, NULL), 1);
    CHECK(f.type == DZ_FRAME_ZYGOTE_CALLED && f.value > 1);
    pid_t pid = (pid_t)f.value;
    f = (struct dz_frame){.type = DZ_FRAME_ZYGOTE_CALL, .stream = DZ_CALL_EXPAND, .size = 3};
    CHECK_INT(dz_frame_send(pair[0], &f, "abc", true, NULL), 1);
    CHECK_INT(dz_frame_receive(pair[0], &f, payload, true, NULL), 1);
    payload[f.size] = 0;
    CHECK_INT(f.type, DZ_FRAME_DONE);
    CHECK_INT((int64_t)f.value, DZ_EIO);
    CHECK(strstr((char *)payload, "head is malformed"));
    (void)waitpid(pid, NULL, 0);
    (void)close(pair[0]);
    (void)close(pair[1]);
    uproot(&s);
}
