# jq, lua, sqlite3: the base's other programs, alone and in pipelines.
echo '{"a":[1,2,{"b":"x"}],"n":null}' | jq -c '.a[2].b, (.a[:2]|add), keys, (.n//"none")'
echo '["ab12","cd"]' | jq -c 'map(test("[0-9]+")), map(sub("(?<x>[a-z])";"\(.x)!")), [.[]|scan("[a-z]")]'
seq 1 5 | jq -s -c '[.[]|select(.>2)|{k:.}], length, (map(tostring)|join("-"))'
jq -n -r '[1,2,3]|@csv, @json, (now|type), ("a,b"|split(",")[1]), (1/3|floor), ("abc"|ascii_upcase), ({} | .x.y = 1 | tojson)'
echo bad | jq . 2>/dev/null; echo $?
lua -e 'local t = {} for w in ("the quick brown fox"):gmatch("%a+") do t[#t+1] = w:upper() end print(table.concat(t, " "), #t, 7 // 2, 2^0.5 > 1.41, math.type(1), ("%5.2f|%x"):format(3.14159, 255))'
lua -e 'print(pcall(error, "oops")) print(select("#", 1, nil, 3)) local co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) print(co(), co(), co())'
echo 'io.write(io.read("a"):reverse(), "\n") for l in io.popen("echo from popen"):lines() do print(l) end print(os.execute("exit 3")) os.exit(4)' >r.lua; printf abc | lua r.lua; echo $?
sqlite3 t.db 'create table t(a integer primary key, b text); insert into t(b) values("one"),("two"),("three"); create index i on t(b);'
sqlite3 -header -separator '|' t.db 'select * from t where b like "t%" order by b'
sqlite3 t.db 'begin; delete from t; rollback; select count(*), group_concat(b) from t; pragma integrity_check; pragma journal_mode=wal;'
seq 1 2000 | sed 's/.*/insert into t(b) values("row &");/' | (echo 'begin;'; cat; echo 'commit;') | sqlite3 t.db; sqlite3 t.db 'select count(*), max(length(b)) from t; with recursive c(x) as (select 1 union all select x + 1 from c where x < 100) select sum(x) from c'
sqlite3 -json t.db 'select a, b from t limit 2' | jq -c '.[]|.b'
sqlite3 t.db .dump | grep -c INSERT; sqlite3 :memory: '.mode csv' '.import /etc/passwd p' 'select count(*) from p' 2>/dev/null
sqlite3 nodir/x.db 'select 1 from t' 2>/dev/null; echo $?
