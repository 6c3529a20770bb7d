#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""registry_rows.py REGISTRY NAME COUNT STATE: adds COUNT rows like that of the sandbox NAME, in
this state and without a file, to the registry of a daemon that does not run: what one that was
killed would leave. Rows of an earlier call are put into that state again."""
import sqlite3
import sys

path, name, count, state = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
db = sqlite3.connect(path)
other = {"id": "printf('sbx_01%024d', i)", "name": "NULL", "state": "?1", "vfs_path": "NULL"}
columns = [row[1] for row in db.execute("PRAGMA table_info(instances)")]
db.execute("UPDATE instances SET state = ?1 WHERE id GLOB 'sbx_01000000000000*'", (state,))
db.execute("CREATE TEMP TABLE model AS SELECT * FROM main.instances WHERE name = ?", (name,))
db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) "
           "INSERT OR IGNORE INTO instances SELECT %s FROM n, temp.model AS m"
           % ", ".join(other.get(c, "m." + c) for c in columns), (state, count))
db.commit()
