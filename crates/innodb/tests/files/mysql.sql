-- What only MySQL has. Behind `formats.sql`.
set sql_mode=''; set time_zone='+00:00';
drop table if exists paged, pagedtree, instant, own;
create table paged like everything;
alter table paged compression='zlib';
insert into paged select * from everything order by id;
create table pagedtree engine=innodb compression='zlib' as select * from tree;
alter table pagedtree add primary key (id);
create table own (id int primary key, j json, g geometry, w char(7) character set sjis, x varchar(9) character set gb18030, y vector(3)) engine=innodb;
insert into own values (1,'{"a": [1, 2.5, -3e100, "té\\"x\\n", null, true, false, {"b": {}}], "long": 12345678901234, "u": 18446744073709551615}',st_geomfromtext('POINT(1 2)',4326),'日本','中文',string_to_vector('[1,2,3]')),
(2,json_array(cast('2024-01-01' as date), cast('2024-01-01 10:00:00.5' as datetime(6)), cast('-10:00:00' as time), 1.50, cast(x'00ff' as char character set binary), repeat('x',300)),st_geomfromtext('POLYGON((0 0,1 0,1 1,0 0))'),'','a',null),(3,null,null,null,null,null),(4,'"scalar"',null,null,null,null),
(5,(with recursive s(n) as (select 1 union all select n+1 from s where n<900) select json_objectagg(concat('key',n), repeat('v',n)) from s),null,null,null,null);
update own set j=json_set(j,'$.key800','small','$.key10','v') where id=5;
create table instant (id int primary key, a varchar(10), b int not null, c char(5) character set utf8mb4, d text, e datetime(3)) engine=innodb;
insert into instant values (1,'one',1,'ü',repeat('long ',5000),'2024-01-01 00:00:00.5'),(2,null,2,null,null,null),(3,'three',3,'c','text','1000-01-01');
alter table instant drop column b, algorithm=instant;
insert into instant values (4,'four','d','d','2024-06-01');
alter table instant add column f varchar(20) character set latin1 default 'fé' first, algorithm=instant;
insert into instant values ('f5',5,'five','e','e',null);
alter table instant drop column c, add column g bigint unsigned not null default 18446744073709551615 after f, algorithm=instant;
insert into instant values (null,7,7,'seven','g',null);
update instant set g=8 where id in (1,4);
delete from instant where id=3;
drop table if exists pagedlz4;
create table pagedlz4 engine=innodb compression='lz4' as select * from tree;
alter table pagedlz4 add primary key (id);
