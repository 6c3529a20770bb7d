/* SPDX-License-Identifier: MIT
 *
 * vfs_schema.c - the tables of a sandbox's file, and the binding to its image.
 *
 * docs/format/disk.md is the definition; this file is its SQL. Tables that only
 * other modules read (kv, exec, exec_output, machine, mem) are made here too, so
 * that one template holds a whole empty sandbox in ten pages.
 */
#include "vfs/vfs.h"

#include <string.h>

#include "db/db.h"

/* The content of a file of `size` bytes: `data`, or the chunks, numbered n, which a join of i gives
 * as BYTES; each is padded with zeros. It is short because SQLite reads it at each open. */
#define CONTENT(BYTES, JOIN)                                                                      \
    "substr(CAST(coalesce(data,(WITH i(n)AS(SELECT 0 UNION ALL SELECT n+1 FROM i "                \
    "WHERE(n+1)*32768<size)SELECT group_concat(substr(CAST(" BYTES "||zeroblob(32768)AS BLOB),1," \
    "32768),'')FROM i " JOIN "))||zeroblob(2048)AS BLOB),1,size)content"
#define VOLUMES "VALUES('workspace','',2,4),('memory','',3,4),('tmp','',4,4)"
#define BELOW   "SELECT volume,path||'/'||CAST(name AS TEXT),d.ino,d.type FROM t JOIN "
#define NOW     "CAST(strftime('%s','now') AS INTEGER)*1000000000"

/* SQLite stores this text on the file's first page, so all of it must fit there. */
static const char schema_1[] =
    "CREATE TABLE meta(k TEXT PRIMARY KEY,v)WITHOUT ROWID;"
    "CREATE TABLE node(ino INTEGER PRIMARY KEY,mode INT,uid INT,gid INT,nlink INT,size INT,"
    "rdev INT,atime INT,mtime INT,ctime INT,base_size INT,data BLOB);"
    "CREATE TABLE dentry(parent INT,name BLOB,ino INT,type INT,PRIMARY KEY(parent,name))"
    "WITHOUT ROWID;"
    "CREATE TABLE chunk(id INTEGER PRIMARY KEY,data BLOB);"
    "CREATE TABLE xattr(ino INT,name BLOB,value BLOB,PRIMARY KEY(ino,name))WITHOUT ROWID;"
    "CREATE TABLE kv(ns TEXT,k BLOB,v BLOB,mtime INT,PRIMARY KEY(ns,k))WITHOUT ROWID;"
    "CREATE TABLE exec(id INTEGER PRIMARY KEY,state INT,code INT,started INT,ended INT,spec BLOB);"
    "CREATE TABLE exec_output(id INTEGER PRIMARY KEY,exec INT,stream INT,at INT,data BLOB);"
    "CREATE TABLE machine(part TEXT,key,value BLOB,PRIMARY KEY(part,key))WITHOUT ROWID;"
    "CREATE VIEW vfs AS WITH t(volume,path,ino,type)AS(" VOLUMES "UNION ALL " BELOW
    "dentry d ON parent=t.ino WHERE d.ino>0)SELECT volume,substr(path,2)path," CONTENT(
        "coalesce(c.data,'')",
        "LEFT JOIN chunk c ON id=(t.ino<<24)+n") ",mtime FROM t JOIN node USING(ino)WHERE type=8;"
                                                 "INSERT INTO meta VALUES('chunk',32768),('seed',abs(random()>>1)),('counters',1),"
                                                 "('used_bytes',0),('used_inodes',4);"
                                                 "INSERT INTO node SELECT ino,mode,0,0,nlink,0,1," NOW
                                                 "," NOW "," NOW ",0,NULL FROM("
                                                 "SELECT 1 ino,16877 mode,5 nlink UNION SELECT 2,16895,2 UNION SELECT 3,16895,2 "
                                                 "UNION SELECT 4,17407,2);"
                                                 "INSERT INTO dentry VALUES(1,CAST('workspace' AS BLOB),2,4),(1,CAST('memory' AS BLOB),3,4),"
                                                 "(1,CAST('tmp' AS BLOB),4,4);";

/* For an image with a pack: SQL cannot read content from the pack. */
const char dz_vfs_schema_packed[] =
    "DROP VIEW vfs;CREATE VIEW vfs AS WITH t(volume,path,ino,type)AS(" VOLUMES "UNION ALL " BELOW
    "dentry d ON parent=t.ino WHERE d.ino>0)SELECT volume,path,iif(rdev,NULL,content)content,mtime "
    "FROM(SELECT volume,substr(path,2)path,rdev," CONTENT(
        "coalesce(c.data,'')",
        "LEFT JOIN chunk c ON id=(t.ino<<24)+n") ",mtime FROM t JOIN node USING(ino)WHERE type=8);";

/* The same over an image, merged row by row, for one handle; not stored in a file. Of an inode, a
 * is the row here and b the one in the image; of a chunk, c and e. */
static const char merged_view[] =
    "CREATE TEMP VIEW vfs AS WITH t(volume,path,ino,type)AS(" VOLUMES "UNION ALL " BELOW
    "main.dentry d ON parent=t.ino WHERE d.ino>0 UNION ALL " BELOW
    "image.dentry d ON parent=t.ino WHERE d.ino>0 AND NOT EXISTS("
    "SELECT 1 FROM main.dentry u WHERE u.parent=d.parent AND u.name=d.name)),"
    "f(volume,path,ino,pack,size,base,data,mtime)AS("
    "SELECT volume,path,t.ino,b.rdev,iif(a.ino,a.size,b.size),iif(a.ino,a.base_size,b.size),"
    "iif(a.ino,a.data,b.data),iif(a.ino,a.mtime,b.mtime)FROM t "
    "LEFT JOIN main.node a ON a.ino=t.ino LEFT JOIN image.node b ON b.ino=t.ino WHERE type=8)"
    "SELECT volume,path,iif(pack AND base AND data IS NULL,NULL,content)content,mtime FROM("
    "SELECT volume,substr(path,2)path,pack,base,data," CONTENT(
        "coalesce(c.data,substr(e.data,1,max(0,base-n*32768)),'')",
        "LEFT JOIN main.chunk c ON c.id=(f.ino<<24)+n LEFT JOIN image.chunk e ON e.id=(f.ino<<24)+n") ",mtime FROM f)";

int dz_vfs_sql_over(struct dz_db *db, const struct dz_db *image, const char *image_sha256,
                    struct dz_err *err)
{
    {
        DZ_AUTO(dz_stmt_resetp)
        struct dz_stmt *st = dz_db_stmt(db, "SELECT v FROM meta WHERE k='image'");
        int r = dz_stmt_step(st, err);
        if (r < 0)
            return r;
        const char *bound = r > 0 ? dz_col_text(st, 0) : "";
        if (strcmp(bound, image_sha256) != 0)
            return bound[0]
                       ? dz_fail(err, DZ_ECORRUPT,
                                 "the disk needs the image %.64s below it, not the given %.64s",
                                 bound, image_sha256)
                       : dz_fail(err, DZ_ECORRUPT,
                                 "the disk has no image below it, but %.64s was given",
                                 image_sha256);
    }
    int r = dz_db_attach(db, image, "image", err);
    return r < 0 ? r : dz_db_exec(db, merged_view, err);
}

/* A record of version 1 was a blob, `spec`: numbers at fixed offsets, low byte first, the id with
 * its NUL, the arguments, the host's own. SQL cannot read a number from a blob, so each byte is
 * looked up in t, a blob of all byte values. Offsets count from 1. */
#define BYTE(AT) "(instr(t,substr(spec," AT ",1))-1)"
#define U16(AT)  BYTE(AT) "+(" BYTE(AT "+1") "<<8)"
#define U32(AT)  U16(AT) "+((" U16(AT "+2") ")<<16)"
#define I64(AT)  U32(AT) "+((" U32(AT "+4") ")<<32)"
#define BYTES                                                          \
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" \
    "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f" \
    "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f" \
    "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f" \
    "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f" \
    "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf" \
    "c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf" \
    "e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"

#define FLAGS_AND_SIZES U32("5") "flags," U32("13") "argv_size," U32("17") "own_size,"
#define OTHER_NUMBERS   U32("21") "pid," I64("25") "keep," I64("33") "cpu," I64("41") "printed "

/* Damaged rows were never shown, so they are left out. */
#define EXEC_OF_1                                                                                \
    "WITH b(t)AS(VALUES(x'" BYTES                                                                \
    "')),r AS(SELECT*,49+instr(substr(spec,49),x'00')arg," FLAGS_AND_SIZES OTHER_NUMBERS         \
    "FROM exec,b WHERE typeof(spec)='blob'AND length(spec)>48)"                                  \
    "SELECT id number,CAST(substr(spec,49,arg-50)AS TEXT)id,state,code,started,ended,flags,pid," \
    "iif(state=2,cpu,0)cpu,iif(state=1,cpu,0)kill_at,keep,printed,"                              \
    "substr(spec,arg,argv_size)argv,substr(spec,arg+argv_size)own "                              \
    "FROM r WHERE arg>50 AND length(spec)=arg-1+argv_size+own_size"
const char dz_vfs_exec_of_1[] = EXEC_OF_1;

/* The rows pass through a table in memory, so that the new table takes the old one's place in the
 * file. The first files of version 1 had no records. */
static const char schema_2[] =
    "CREATE TABLE IF NOT EXISTS exec(id INTEGER PRIMARY KEY,state,code,started,ended,spec);"
    "CREATE TABLE IF NOT EXISTS exec_output(id INTEGER PRIMARY KEY,exec INT,stream INT,at INT,"
    "data BLOB);"
    "CREATE TEMP TABLE exec_of_1 AS " EXEC_OF_1 ";DROP TABLE exec;"
    "CREATE TABLE exec(number INTEGER PRIMARY KEY,id TEXT,state INT,code INT,started INT,ended INT,"
    "flags INT,pid INT,cpu INT,kill_at INT,keep INT,printed INT,argv BLOB,own BLOB);"
    "INSERT INTO exec SELECT*FROM temp.exec_of_1;DROP TABLE temp.exec_of_1;";

const char dz_vfs_schema_sleeper[] =
    "CREATE TABLE IF NOT EXISTS mem(gen INT,seq INT,data BLOB,PRIMARY KEY(gen,seq));"
    "CREATE INDEX IF NOT EXISTS exec_id ON exec(id);";

static const char *const steps[] = {schema_1, schema_2};

const struct dz_db_schema dz_vfs_schema = {
    .what = "sandbox file",
    .application_id = 0x444F5A45,
    .steps = steps,
    .version = 2,
    .reads = 1,
};
