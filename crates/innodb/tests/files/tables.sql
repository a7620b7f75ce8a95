set sql_mode=''; set time_zone='+00:00';
create database if not exists fx; use fx;
drop table if exists everything, keyless, twokeys, tree;
create table everything (id int primary key, b varchar(20), c decimal(10,2) not null, d date, e datetime(3), f text, g enum('x','y','zé'), h set('p','q','r'), i bigint unsigned, j float, k double, l char(5) character set latin1, m time(2), n timestamp null, o year, p bit(10), q binary(4), r varbinary(10), s blob, t tinyint unsigned zerofill, u mediumint, v smallint, w decimal(65,30), x varchar(300) character set utf8mb4, y char(3) character set utf8mb4, z double(10,3), aa datetime, ab timestamp(6) null, ac time, ad varchar(20) character set ucs2) engine=innodb;
insert into everything values (1,'hello',12345.67,'2024-02-29','2024-02-29 12:34:56.789','text, with comma',1,3,18446744073709551615,1.5,2.25,'ab','-12:34:56.78','2024-01-01 00:00:00',2024,b'1010101010','ab','\0x','blob\n',7,-8388608,-32768,-12345678901234567890123456789012345.123456789012345678901234567890,repeat('é',200),'aé',1.5,'9999-12-31 23:59:59','2024-06-01 01:02:03.000004','-00:00:01','žx'),
(2,null,-0.01,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null),
(-3,'','99999999.99','0000-00-00','1000-01-01 00:00:00',repeat('long ',4000),3,'',0,-1e10,1e-300,'','838:59:59','2038-01-19 03:14:07',1901,b'0','','',repeat('z',40000),255,8388607,32767,0,'','',-0.0005,'2024-00-00 00:00:00','1970-01-01 00:00:01','-838:59:59',''),
(4,'tab\there\\',0,'2024-13-45','2024-01-01',  'a"b\r\n',2,'p,r',1,3.4e38,-1.7976931348623157e308,'é','00:00:00',null,0,b'1111111111',x'00ff0a2c','a,b',x'',0,0,0,0.000000000000000000000000000001,'😀','😀',99.9999,null,null,'12:00','😀');
create table keyless (a int, b varchar(10)) engine=innodb;
insert into keyless values (3,'c'),(1,'a'),(null,null),(2,'b');
create table twokeys (a int not null, b varchar(40) character set utf8mb4 not null, c int, d text, primary key (b(5), a)) engine=innodb;
insert into twokeys values (2,'bbbbbbbbbb',1,'x'),(1,'bbbbb',2,null),(1,'aé',3,'y'),(7,'zzzz',null,'');
create table tree (id bigint primary key, v varchar(200)) engine=innodb;
insert into tree select seq, repeat(char(97+seq%26), 100+seq%90) from seq_1_to_900;
delete from tree where id % 7 = 0;
update tree set v='short' where id % 11 = 0;
