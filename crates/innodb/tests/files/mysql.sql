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
drop table if exists instantdropped;
create table instantdropped (id int primary key, a decimal(10,2), b decimal(18,9), c decimal(5,5) unsigned, d datetime(5), e time(3), f timestamp(1) null, g bit(17), h enum('x','y'), i char(7) character set latin1, j char(7) character set utf8mb4, k decimal(12,3) not null default 1, l year, z varchar(20)) engine=innodb;
insert into instantdropped values (1,1.5,-2.5,0.00001,'2024-01-01 00:00:00.12345','-12:00:00.123','2024-01-01 00:00:00.1',b'10000000000000001','y','latin','ütf',7,2024,'one'),(2,null,null,null,null,null,null,null,null,null,null,0,null,'two');
alter table instantdropped drop column a, algorithm=instant;
insert into instantdropped values (3,-2.5,0.00001,'2024-01-01 00:00:00.12345','-12:00:00.123','2024-01-01 00:00:00.1',b'1','x','latin','ütf',7,2024,'three');
alter table instantdropped drop column b, drop column e, algorithm=instant;
insert into instantdropped values (4,0.5,'2024-01-01 00:00:00.12345','2024-01-01 00:00:00.1',b'1','x','latin','ütf',7,2024,'four');
alter table instantdropped drop column d, drop column f, drop column c, algorithm=instant;
insert into instantdropped values (5,b'1','x','latin','ütf',7,2024,'five');
alter table instantdropped drop column g, drop column h, drop column i, drop column j, drop column k, drop column l, algorithm=instant;
insert into instantdropped values (6,'six'),(7,null);
update instantdropped set z='two again' where id=2;
