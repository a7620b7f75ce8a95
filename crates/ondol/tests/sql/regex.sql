-- Regular expressions: operators, functions, SIMILAR TO; what is found in FROM.

create table t (a int primary key, b text, c char(5), d varchar(10));
insert into t values (1,'foo bar','ab','xyz'),(2,'barbaz',NULL,'x'),(3,NULL,'b','yy');
select a, b ~ 'o+', b ~* 'BAR', c ~ 'b $', d !~ 'x', d !~* 'X' from t order by a;
select a from t where b similar to '%bar' order by a;
select a from t where b not similar to '%bar' escape '#' order by a;
select substring(b from 'b(.)'), substring('foobar' similar '%#"o_b#"%' escape '#') from t order by a;
select * from regexp_matches('foobarbequebaz', 'ba.', 'g');
select * from regexp_matches('foobarbequebaz', '(b)(a.)', 'g') with ordinality as x(m, n);
select * from regexp_split_to_table('the quick brown fox', '\s+') as s;
select a, m from t, regexp_matches(b, '(a)(.)', 'g') m order by a, m;
select s from t cross join lateral string_to_table(b, 'a') s order by 1;
select 'a' ~ '(';
select b ~ '[[:nope:]]' from t;
select regexp_replace('abc', 'b', '\&\&', 2), regexp_replace('abc','b','x','7');
select regexp_match('abc','b','g');
select * from regexp_split_to_table('abc','b','g');
select regexp_instr('abcabc','b',1,2,0,'',0), regexp_count('abcabc','b'), regexp_substr('abcabc','b.'), regexp_like('x','X','i');
select 'abc' ~ 1;
select similar_to_escape('a%b','##');
select * from regexp_matches('abc', 1);
select * from string_to_table('a,b',',','b');
