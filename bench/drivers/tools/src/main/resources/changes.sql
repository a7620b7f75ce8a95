--liquibase formatted sql
--changeset drivers:1
CREATE TABLE changed (id int PRIMARY KEY, v text);
--rollback DROP TABLE changed;
--changeset drivers:2
ALTER TABLE changed ADD w int DEFAULT 3 NOT NULL;
