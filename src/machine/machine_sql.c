/* SPDX-License-Identifier: MIT
 *
 * machine_sql.c - the statements of every wake and sleep, so that whoever makes a handle
 * ahead can compile them ahead, too.
 */
#include "machine/machine_int.h"

const char dz_machine_sql_meta_get[] = "SELECT v FROM meta WHERE k=?1";
const char dz_machine_sql_meta_put[] =
    "INSERT INTO meta(k,v)VALUES(?1,?2)ON CONFLICT(k)DO UPDATE SET v=?2";
const char dz_machine_sql_state[] = "SELECT value FROM machine WHERE part='state' ORDER BY key";
const char dz_machine_sql_state_drop[] = "DELETE FROM machine WHERE part='state'";
const char dz_machine_sql_state_put[] = "INSERT INTO machine(part,key,value)VALUES('state',?1,?2)";
const char dz_machine_sql_modules_drop[] =
    "DELETE FROM machine WHERE part>='module:' AND part<'module;' AND instr(?1,part)=0";
const char dz_machine_sql_mem[] = "SELECT rowid,gen,seq,data FROM mem ORDER BY gen DESC,seq DESC";
const char dz_machine_sql_mem_list[] = "SELECT rowid,gen,seq FROM mem ORDER BY gen DESC,seq DESC";
const char dz_machine_sql_mem_put[] = "INSERT INTO mem(gen,seq,data)VALUES(?1,?2,?3)";
const char dz_machine_sql_mem_drop[] = "DELETE FROM mem WHERE gen=?1 AND seq=?2";

void dz_machine_prepare(struct dz_db *db)
{
    static const char *const all[] = {
        dz_machine_sql_meta_get,   dz_machine_sql_meta_put,  dz_machine_sql_state,
        dz_machine_sql_state_drop, dz_machine_sql_state_put, dz_machine_sql_modules_drop,
        dz_machine_sql_mem,        dz_machine_sql_mem_list,  dz_machine_sql_mem_put,
        dz_machine_sql_mem_drop,
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(all); i++)
        (void)dz_db_stmt(db, all[i]);
    dz_mem_prepare();
}

void dz_machine_prepare_image(struct dz_db *image)
{
    DZ_AUTO(dz_stmt_resetp) struct dz_stmt *st = dz_db_stmt(image, dz_machine_sql_meta_get);
    dz_bind_text(st, 1, "machine");
    (void)!dz_stmt_step(st, NULL); /* so that the file is mapped, which children inherit */
}
