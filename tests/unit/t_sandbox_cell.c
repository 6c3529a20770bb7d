/* SPDX-License-Identifier: MIT
 * Which cells run a sandbox, and what becomes of it when one dies, says nothing, or has only its
 * file. */
#include "tap.h"

#include "../lib/sandbox_rig.h"
#include "sandbox/sandbox_int.h"

/* What a second kind of guests needs is a row of the table. */
TEST(the_kind_of_a_row_chooses_its_cells)
{
    struct rig r;
    struct dz_err err = {0};
    struct rig_reply reply;
    rig_open(&r);
    struct played other = r.cells;
    other.ops = played_ops("other");
    dz_list_init(&other.cells);
    r.k->opts.runtimes[1] = (struct dz_sandbox_runtime){&other.ops, &other};
    static const char *const kinds[] = {"wasm", "other", "unknown"};
    for (size_t i = 0; i < DZ_ARRAY_LEN(kinds); i++) {
        const struct dz_instance row = {.id = kinds[i], .tenant = "acme", .kind = kinds[i]};
        CHECK_INT(dz_sandbox_register(r.k, &row, &err), 0);
    }
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "wasm"), 0);
    r.cells.wake = other.wake = NULL; /* they are up at once */
    r.cells.suspend = other.suspend = NULL;
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "other"), 0);
    CHECK(played_cell(&r.cells, "wasm") && !played_cell(&r.cells, "other"));
    CHECK(played_cell(&other, "other") && !played_cell(&other, "wasm"));
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "unknown", &reply), 0);
    rig_pass(&r, 1000);
    CHECK_INT(reply.code, DZ_EUNSUPPORTED);
    CHECK(strstr(reply.text, "no cells of the kind unknown") != NULL);
    rig_close(&r);
}

TEST(a_cell_that_dies_leaves_a_sandbox_that_sleeps)
{
    struct rig r;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    rig_ends(&r, "a", NULL);
    rig_pass(&r, 10);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK_INT(r.stops, 0);
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    rig_close(&r);
}

/* A wake from cold storage is answered when its row is on the disk, and not before. */
TEST(a_cell_that_dies_before_its_row_is_on_the_disk_did_not_start)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_FROZEN);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    for (int i = 0; i < 1000 && strncmp(rig_row(&r, "a"), "active", 6) != 0; i++)
        CHECK(dz_loop_sim_step(r.loop, dz_clock_real_ms() + 60000));
    CHECK_INT(strncmp(rig_row(&r, "a"), "active", 6), 0);
    CHECK_INT(reply.count, 0);
    rig_ends(&r, "a", NULL);
    rig_pass(&r, 60000);
    CHECK_INT(reply.count, 1);
    CHECK_INT(reply.code, DZ_EIO);
    CHECK(strstr(reply.text, "exited right after its start") != NULL);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    rig_close(&r);
}

/* The news of a death waits in line while the sandbox is woken again. */
TEST(old_news_of_a_death_does_not_end_the_next_cell)
{
    struct rig r;
    struct rig_reply suspend, use;
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &suspend), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_USE, "a", &use), 0);
    rig_ends(&r, "a", NULL); /* while it is being stopped */
    rig_pass(&r, 1000);
    CHECK_INT(use.code, 0);
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK(rig_find(&r, "a") >= 0);
    rig_close(&r);
}

TEST(a_cell_that_never_answers_is_ended_in_time)
{
    struct rig r;
    struct rig_reply reply;
    rig_open(&r);
    rig_register(&r, "a");
    r.silent = true;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, DZ_SANDBOX_DEADLINE_MS + 1000);
    CHECK_INT(reply.code, DZ_ETIMEOUT);
    CHECK(r.kills >= 1);
    CHECK_STR(rig_row(&r, "a"), "created/error/");
    r.silent = false;
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    r.silent = true;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, DZ_SANDBOX_DEADLINE_MS + 1000);
    CHECK_STR(rig_row(&r, "a"), "suspended//");
    CHECK_INT(rig_find(&r, "a"), -1);
    rig_close(&r);
}

TEST(a_forced_delete_does_not_wait_for_a_silent_cell)
{
    struct rig r;
    struct rig_reply wake, stop, gone;
    rig_open(&r);
    rig_register(&r, "a");
    rig_register(&r, "b");
    CHECK_INT(rig_do(&r, DZ_REQUEST_WAKE, "a"), 0);
    r.silent = true;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &stop), 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "b", &wake), 0);
    rig_pass(&r, 1000);
    CHECK_INT(stop.count + wake.count, 0);
    CHECK_INT(rig_submit(&r, DZ_REQUEST_DESTROY, "a", &gone), 0);
    rig_pass(&r, 1000);
    CHECK_INT(gone.code, 0);
    CHECK_INT(stop.code, 0); /* it sleeps, of a kind */
    CHECK_STR(rig_row(&r, "a"), "gone");
    CHECK_INT(rig_submit(&r, DZ_REQUEST_DESTROY, "b", &gone), 0);
    rig_pass(&r, 1000);
    CHECK_INT(wake.code, DZ_EGONE);
    CHECK_INT(gone.code, 0);
    CHECK_STR(rig_row(&r, "b"), "gone");
    rig_close(&r);
}

struct opened {
    int count;
    struct dz_sandbox_result result;
    bool here;
};

static void on_opened(void *arg, struct dz_sandbox *s, const struct dz_sandbox_result *result)
{
    struct opened *o = arg;
    o->count++;
    o->result = *result;
    o->here = s && s->phase != DZ_PHASE_NONE;
}

/* The check, the start of the cell and the commit use one parsed config; a change is parsed again.
 */
TEST(a_wake_parses_the_config_once)
{
    struct rig r;
    struct opened opened = {0};
    struct dz_instance row = {0};
    struct dz_why why = {0};
    const struct dz_acquire_opts spec = {.need = DZ_NEED_MACHINE, .fn = on_opened, .arg = &opened};
    rig_open(&r);
    rig_register(&r, "a");
    rig_bring(&r, "a", DZ_STATE_SUSPENDED);
    rig_pass(&r, 1000);
    uint64_t before = r.k->config_reads;
    CHECK_INT(dz_registry_get(r.registry, "a", &row, NULL), 0);
    CHECK_INT(dz_sandbox_acquire(r.k, &row, &spec, NULL, &why), 0);
    rig_pass(&r, 1000);
    CHECK(opened.count == 1 && opened.result.code == 0 && opened.here);
    CHECK_INT(r.k->config_reads, before + 1);
    dz_instance_release(&row);
    rig_change(&r, "a", DZ_COLUMN(config),
               (struct dz_instance){.config = "{\"auto_resume\":false}"});
    CHECK_INT(dz_registry_get(r.registry, "a", &row, NULL), 0);
    const struct dz_sandbox_config *config = NULL;
    CHECK_INT(dz_record_config(dz_sandbox_find(r.k, "a"), &row, &config, NULL), 0);
    CHECK(config && !config->auto_resume);
    dz_instance_release(&row);
    CHECK_INT(rig_do(&r, DZ_REQUEST_SUSPEND, "a"), 0);
    CHECK_INT(dz_registry_get(r.registry, "a", &row, NULL), 0);
    CHECK_INT(dz_sandbox_acquire(r.k, &row, &spec, NULL, &why), DZ_EUNAVAIL);
    CHECK_STR(why.reason, "asleep");
    dz_instance_release(&row);
    rig_close(&r);
}

/* A cell that has only the file ends, and a machine has the file then. */
TEST(a_file_only_cell_ends_when_the_guest_is_to_be_woken)
{
    struct rig r;
    struct rig_reply reply;
    struct opened opened = {0};
    struct dz_instance row = {0};
    struct dz_why why = {0};
    const struct dz_acquire_opts spec = {.need = DZ_NEED_FILES, .fn = on_opened, .arg = &opened};
    rig_open(&r);
    rig_register(&r, "a");
    CHECK_INT(rig_submit(&r, DZ_REQUEST_WAKE, "a", &reply), 0);
    rig_pass(&r, 1000);
    r.wake_at = dz_clock_real_ms() + 10000;
    CHECK_INT(rig_submit(&r, DZ_REQUEST_SUSPEND, "a", &reply), 0);
    rig_pass(&r, 9500);
    CHECK_INT(dz_registry_get(r.registry, "a", &row, NULL), 0);
    CHECK_INT(dz_sandbox_acquire(r.k, &row, &spec, NULL, &why), 0);
    rig_pass(&r, 100);
    CHECK(opened.count == 1 && opened.result.code == 0 && opened.here);
    CHECK(played_cell(&r.cells, "a") && !played_cell(&r.cells, "a")->up);
    rig_pass(&r, 1000); /* it would have stayed for a second yet */
    CHECK_STR(rig_row(&r, "a"), "active/running/");
    CHECK(played_cell(&r.cells, "a") && played_cell(&r.cells, "a")->up);
    dz_instance_release(&row);
    rig_close(&r);
}
