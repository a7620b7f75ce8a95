-- Encrypted by MariaDB's file_key_management, by keys.txt: with pages of 4 KiB, innodb_encryption_threads=0; once with each algorithm and family of checksums.
create table locked (id int primary key, v varchar(100), b text) engine=innodb encrypted=yes;
insert into locked values (1,'one',repeat('long ',2000)),(2,null,null);
create table longkey (id int primary key, v varchar(100)) engine=innodb encrypted=yes encryption_key_id=2;
insert into longkey values (1,'two'),(2,null);
create table lockedzip (id int primary key, v varchar(100)) engine=innodb encrypted=yes row_format=compressed key_block_size=2;
insert into lockedzip values (1,'zip'),(2,null);
create table lockedpacked (id int primary key, v varchar(100)) engine=innodb encrypted=yes page_compressed=1;
insert into lockedpacked values (1,'packed'),(2,repeat('x',100));
create table unlocked (id int primary key, v varchar(100)) engine=innodb encrypted=no;
insert into unlocked values (1,'open'),(2,null);
