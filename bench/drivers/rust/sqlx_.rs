use crate::{Outcome, expect, tell};
use futures::TryStreamExt;
use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use sqlx::{Acquire, Column, Connection, Executor, Row, Statement};
use std::time::Duration;
use uuid::Uuid;

async fn types(p: &PgPool) -> Outcome {
    macro_rules! back {
        ($kind:literal, $type:ty, $value:expr) => {
            let (found, none): ($type, Option<$type>) =
                sqlx::query_as(concat!("SELECT $1::", $kind, ", NULL::", $kind))
                    .bind($value)
                    .fetch_one(p)
                    .await?;
            expect(found == $value && none.is_none(), ($kind, found))?;
        };
    }
    back!("boolean", bool, true);
    back!("int2", i16, i16::MIN);
    back!("int4", i32, i32::MIN);
    back!("int8", i64, i64::MIN);
    back!("float4", f32, 1.5f32);
    back!("float8", f64, f64::MIN_POSITIVE);
    back!("text", String, "é😀'\\\n".to_string());
    back!("bytea", Vec<u8>, vec![0u8, 1, 255]);
    back!("uuid", Uuid, Uuid::from_u128(1));
    back!("int4[]", Vec<Option<i32>>, vec![Some(1), None, Some(3)]);
    back!("text[]", Vec<String>, vec!["a,b".to_string(), "\"".to_string()]);
    Ok(())
}

fn code(e: sqlx::Error) -> String {
    let told = e.as_database_error().and_then(|d| d.code()).map(|c| c.into_owned());
    told.unwrap_or_else(|| e.to_string())
}

async fn transactions(p: &PgPool) -> Outcome {
    p.execute("CREATE TABLE sx_t (a int PRIMARY KEY)").await?;
    {
        let mut t = p.begin().await?;
        t.execute("INSERT INTO sx_t VALUES (1)").await?;
    } // It rolls back.
    let mut t = p.begin().await?;
    t.execute("INSERT INTO sx_t VALUES (2)").await?;
    let mut part = t.begin().await?;
    let e = part.execute("INSERT INTO sx_t VALUES (2)").await.expect_err("a violation");
    expect(e.as_database_error().is_some_and(|d| d.is_unique_violation() && d.table() == Some("sx_t")), e)?;
    part.rollback().await?;
    t.commit().await?;
    let n: i64 = sqlx::query_scalar("SELECT sum(a) FROM sx_t").fetch_one(p).await?;
    expect(n == 2, n)?;
    p.execute("DROP TABLE sx_t").await?;
    Ok(())
}

async fn statements(p: &PgPool) -> Outcome {
    let mut c = p.acquire().await?;
    let s = c.prepare("SELECT $1::int + 1 AS next").await?;
    expect(s.columns()[0].name() == "next", s.columns().len())?;
    for i in 0..300 {
        // More texts than it keeps prepared.
        let text = format!("SELECT $1::int + {i}");
        let n: i32 = sqlx::query_scalar(&text).bind(1i32).fetch_one(&mut *c).await?;
        expect(n == i + 1, n)?;
    }
    Ok(())
}

async fn streams(p: &PgPool) -> Outcome {
    let mut rows = sqlx::query("SELECT g FROM generate_series(1, 10000) g").fetch(p);
    let (mut n, mut sum) = (0, 0i64);
    while let Some(row) = rows.try_next().await? {
        n += 1;
        sum += i64::from(row.try_get::<i32, _>(0)?);
    }
    expect((n, sum) == (10000, 50_005_000), (n, sum))
}

async fn errors(p: &PgPool) -> Outcome {
    for (text, wanted) in [("SELEC 1", "42601"), ("SELECT x", "42703"), ("SELECT 1 / 0", "22012")] {
        let found = code(sqlx::query(text).fetch_all(p).await.expect_err("an error"));
        expect(found == wanted, found)?;
    }
    Ok(())
}

async fn copying(p: &PgPool) -> Outcome {
    let mut c = p.acquire().await?;
    c.execute("CREATE TEMPORARY TABLE sx_c (a int, b text)").await?;
    let mut sink = c.copy_in_raw("COPY sx_c FROM STDIN").await?;
    sink.send(&b"1\tx\n2\t\\N\n"[..]).await?;
    let n = sink.finish().await?;
    expect(n == 2, n)?;
    let mut sink = c.copy_in_raw("COPY sx_c FROM STDIN").await?;
    sink.send(&b"3\tx\n"[..]).await?;
    sink.abort("broken off").await?;
    let out: Vec<_> = c.copy_out_raw("COPY sx_c TO STDOUT").await?.try_collect().await?;
    expect(out.concat() == b"1\tx\n2\t\\N\n", &out)
}

async fn notifications(p: &PgPool) -> Outcome {
    let mut listener = PgListener::connect_with(p).await?;
    listener.listen("sx_ch").await?;
    p.execute("NOTIFY sx_ch, 'hi'").await?;
    let note = tokio::time::timeout(Duration::from_secs(3), listener.recv()).await??;
    expect(note.payload() == "hi", note)
}

/// What its migrations do: an advisory lock, and a table of what was done.
async fn migrations(p: &PgPool) -> Outcome {
    let mut c = p.acquire().await?;
    sqlx::query("SELECT pg_advisory_lock($1)").bind(77i64).execute(&mut *c).await?;
    c.execute(
        "CREATE TABLE IF NOT EXISTS _sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL, \
         installed_on TIMESTAMPTZ NOT NULL DEFAULT now(), success BOOLEAN NOT NULL, checksum BYTEA NOT NULL, \
         execution_time BIGINT NOT NULL)",
    )
    .await?;
    let mut t = c.begin().await?;
    t.execute("CREATE TABLE sx_m (a int)").await?;
    sqlx::query(
        "INSERT INTO _sqlx_migrations ( version, description, success, checksum, execution_time ) \
         VALUES ( $1, $2, TRUE, $3, -1 )",
    )
    .bind(1i64)
    .bind("first")
    .bind(&b"sum"[..])
    .execute(&mut *t)
    .await?;
    t.commit().await?;
    sqlx::query("SELECT pg_advisory_unlock($1)").bind(77i64).execute(&mut *c).await?;
    c.execute("DROP TABLE sx_m; DROP TABLE _sqlx_migrations").await?;
    Ok(())
}

/// Types of users are asked of the catalogue.
async fn own_types(p: &PgPool) -> Outcome {
    p.execute("CREATE TYPE sx_mood AS ENUM ('sad', 'glad')").await?;
    let row =
        sqlx::query("SELECT 'glad'::sx_mood, 'sad'::sx_mood = $1::sx_mood").bind("sad").fetch_one(p).await?;
    let found: String = row.try_get_unchecked(0)?;
    expect(found == "glad" && row.try_get::<bool, _>(1)?, found)?;
    p.execute("DROP TYPE sx_mood").await?;
    Ok(())
}

async fn reconnecting(p: &PgPool) -> Outcome {
    let mut c = p.acquire().await?;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *c).await?;
    let ended: bool = sqlx::query_scalar("SELECT pg_terminate_backend($1)").bind(pid).fetch_one(p).await?;
    expect(ended, pid)?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    expect(c.ping().await.is_err(), "it is still there")?;
    drop(c);
    let n: i32 = sqlx::query_scalar("SELECT 1").fetch_one(p).await?;
    expect(n == 1, n)
}

pub async fn run(port: &str) {
    let address = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let pool = match PgPoolOptions::new().max_connections(3).connect(&address).await {
        Ok(pool) => pool,
        Err(e) => return tell("connecting", Err(e.into())),
    };
    macro_rules! exercises {
        ($($name:ident),*) => { $(tell(stringify!($name), $name(&pool).await);)* };
    }
    exercises!(
        types,
        transactions,
        statements,
        streams,
        errors,
        copying,
        notifications,
        migrations,
        own_types,
        reconnecting
    );
}
