-- The same of MySQL alone. Behind `odd.sql`, without `hashed` and the like.
set sql_mode=''; set time_zone='+00:00';
drop table if exists parted;
create table parted (a int, b int, c text, primary key(a,b)) engine=innodb partition by range(a) subpartition by hash(b) subpartitions 2 (partition p0 values less than (10), partition p1 values less than maxvalue);
insert into parted values (1,1,'x'),(1,2,'y'),(20,1,'z');
