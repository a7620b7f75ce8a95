use crate::{Outcome, expect, tell};
use futures::{SinkExt, StreamExt, TryStreamExt, channel::mpsc, future, pin_mut, stream};
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, IsolationLevel, NoTls, SimpleQueryMessage};
use uuid::Uuid;

type Notes = mpsc::UnboundedReceiver<String>;

async fn open(port: &str) -> Result<(Client, Notes), tokio_postgres::Error> {
    let address = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
    let (client, mut connection) = tokio_postgres::connect(&address, NoTls).await?;
    let (mut to, notes) = mpsc::unbounded();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |c| connection.poll_message(c));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(n) = message {
                let _ = to.send(n.payload().to_string()).await;
            }
        }
    });
    Ok((client, notes))
}

async fn types(c: &mut Client) -> Outcome {
    async fn back<T>(c: &Client, kind: &str, value: T) -> Outcome
    where
        T: ToSql + Sync + PartialEq + std::fmt::Debug + for<'a> tokio_postgres::types::FromSql<'a>,
    {
        let row = c.query_one(&format!("SELECT $1::{kind}, NULL::{kind}"), &[&value]).await?;
        let (found, none): (T, Option<T>) = (row.try_get(0)?, row.try_get(1)?);
        expect(found == value && none.is_none(), (kind, found))
    }
    back(c, "boolean", true).await?;
    back(c, "\"char\"", 5i8).await?;
    back(c, "int2", i16::MIN).await?;
    back(c, "int4", i32::MIN).await?;
    back(c, "int8", i64::MIN).await?;
    back(c, "oid", u32::MAX).await?;
    back(c, "float4", 1.5f32).await?;
    back(c, "float8", f64::MIN_POSITIVE).await?;
    back(c, "text", "é😀'\\\n".to_string()).await?;
    back(c, "bytea", vec![0u8, 1, 255]).await?;
    back(c, "uuid", Uuid::from_u128(1)).await?;
    back(c, "int4[]", vec![Some(1), None, Some(3)]).await?;
    back(c, "text[]", vec!["a,b".to_string(), "\"".to_string()]).await
}

async fn transactions(c: &mut Client) -> Outcome {
    c.batch_execute("CREATE TABLE tp_t (a int PRIMARY KEY)").await?;
    {
        let t = c.transaction().await?;
        t.execute("INSERT INTO tp_t VALUES (1)", &[]).await?;
    } // It rolls back.
    let mut t = c.build_transaction().isolation_level(IsolationLevel::Serializable).start().await?;
    t.execute("INSERT INTO tp_t VALUES (2)", &[]).await?;
    let part = t.transaction().await?;
    let e = part.execute("INSERT INTO tp_t VALUES (2)", &[]).await.expect_err("a violation");
    let told = e.as_db_error().ok_or("no error of the server's")?;
    expect(told.code() == &SqlState::UNIQUE_VIOLATION, told)?;
    expect((told.table(), told.constraint()) == (Some("tp_t"), Some("tp_t_pkey")), told)?;
    part.rollback().await?;
    t.commit().await?;
    let n: i64 = c.query_one("SELECT sum(a) FROM tp_t", &[]).await?.try_get(0)?;
    expect(n == 2, n)?;
    let t = c.build_transaction().read_only(true).start().await?;
    let e = t.execute("DELETE FROM tp_t", &[]).await.expect_err("a refusal");
    expect(e.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION), e)?;
    t.rollback().await?;
    Ok(c.batch_execute("DROP TABLE tp_t").await?)
}

async fn statements(c: &mut Client) -> Outcome {
    let s = c.prepare_typed("SELECT $1 + 1, $2 AS word", &[Type::INT4, Type::TEXT]).await?;
    expect(s.columns()[1].name() == "word" && s.columns()[0].type_() == &Type::INT4, s.columns())?;
    for i in 0..100 {
        let row = c.query_one(&s, &[&i, &"x"]).await?;
        expect(row.get::<_, i32>(0) == i + 1, row)?;
    }
    // Sent together, answered in order.
    let params: Vec<i32> = (0..100).collect();
    let all = params.iter().map(|i| async { c.query_one(&s, &[i, &"x"]).await.map(|r| r.get::<_, i32>(0)) });
    let found = future::try_join_all(all).await?;
    expect(found.iter().zip(&params).all(|(f, p)| *f == p + 1), found)
}

async fn portals(c: &mut Client) -> Outcome {
    let t = c.transaction().await?;
    let portal = t.bind("SELECT g FROM generate_series(1, 25) g", &[]).await?;
    let mut sizes = vec![];
    loop {
        let rows = t.query_portal(&portal, 10).await?;
        if rows.is_empty() {
            break;
        }
        sizes.push(rows.len());
    }
    expect(sizes == [10, 10, 5], sizes)?;
    Ok(t.commit().await?)
}

async fn streams(c: &mut Client) -> Outcome {
    let rows = c.query_raw("SELECT g FROM generate_series(1, 10000) g", Vec::<i32>::new()).await?;
    pin_mut!(rows);
    let mut n = 0;
    while rows.try_next().await?.is_some() {
        n += 1;
    }
    expect(n == 10000, n)
}

async fn simple_queries(c: &mut Client) -> Outcome {
    let all = c.simple_query("SELECT 1; SELECT 'x' AS a; CREATE TEMPORARY TABLE tp_s (a int)").await?;
    let rows = all.iter().filter(|m| matches!(m, SimpleQueryMessage::Row(_))).count();
    expect(rows == 2, rows)?;
    let e = c.simple_query("SELECT 1; SELECT 1 / 0; SELECT 2").await.expect_err("an error");
    expect(e.code() == Some(&SqlState::DIVISION_BY_ZERO), e)
}

async fn errors(c: &mut Client) -> Outcome {
    for (text, code) in [("SELEC 1", "42601"), ("SELECT x", "42703"), ("SELECT * FROM nope", "42P01")] {
        let e = c.query(text, &[]).await.expect_err("an error");
        expect(e.code().is_some_and(|c| c.code() == code), e)?;
    }
    Ok(())
}

async fn copying(c: &mut Client) -> Outcome {
    c.batch_execute("CREATE TEMPORARY TABLE tp_c (a int, b text)").await?;
    let sink = c.copy_in::<_, &[u8]>("COPY tp_c FROM STDIN").await?;
    pin_mut!(sink);
    sink.send(b"1\tx\n2\t\\N\n").await?;
    let n = sink.finish().await?;
    expect(n == 2, n)?;
    let sink = c.copy_in::<_, &[u8]>("COPY tp_c FROM STDIN").await?;
    pin_mut!(sink);
    sink.send(b"y\tx\n").await?;
    let e = sink.finish().await.expect_err("an error");
    expect(e.code().is_some_and(|c| c.code() == "22P02"), e)?;
    {
        // It is dropped before its end, and so broken off.
        let sink = c.copy_in::<_, &[u8]>("COPY tp_c FROM STDIN").await?;
        pin_mut!(sink);
        sink.send(b"3\tx\n").await?;
    }
    let out = c.copy_out("COPY tp_c TO STDOUT").await?;
    let all: Vec<_> = out.try_collect().await?;
    expect(all.concat() == b"1\tx\n2\t\\N\n", &all)
}

async fn cancelling(c: &mut Client) -> Outcome {
    let token = c.cancel_token();
    let other = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        token.cancel_query(NoTls).await
    };
    let (done, cancelled) = future::join(c.query("SELECT pg_sleep(20)", &[]), other).await;
    cancelled?;
    let e = done.expect_err("it is cancelled");
    expect(e.code() == Some(&SqlState::QUERY_CANCELED), e)?;
    let n: i32 = c.query_one("SELECT 1", &[]).await?.try_get(0)?;
    expect(n == 1, n)
}

/// Types of users are asked of the catalogue.
async fn own_types(c: &mut Client) -> Outcome {
    c.batch_execute("CREATE TYPE tp_mood AS ENUM ('sad', 'glad'); CREATE TYPE tp_pair AS (a int, b text)")
        .await?;
    let s = c.prepare("SELECT $1::tp_mood, ROW(1, 'x')::tp_pair, ARRAY['sad']::tp_mood[]").await?;
    let names: Vec<&str> = s.columns().iter().map(|c| c.type_().name()).collect();
    expect(names == ["tp_mood", "tp_pair", "_tp_mood"], names)?;
    Ok(c.batch_execute("DROP TYPE tp_mood; DROP TYPE tp_pair").await?)
}

async fn notifications(c: &Client, mut notes: Notes) -> Outcome {
    c.batch_execute("LISTEN tp_ch; NOTIFY tp_ch, 'hi'").await?;
    let note = tokio::time::timeout(Duration::from_secs(3), notes.next()).await?;
    expect(note.as_deref() == Some("hi"), note)
}

pub async fn run(port: &str) {
    macro_rules! exercises {
        ($($name:ident),*) => {
            $(match open(port).await {
                Ok((mut c, _notes)) => tell(stringify!($name), $name(&mut c).await),
                Err(e) => tell(stringify!($name), Err(e.into())),
            })*
        };
    }
    exercises!(
        types,
        transactions,
        statements,
        portals,
        streams,
        simple_queries,
        errors,
        copying,
        cancelling,
        own_types
    );
    match open(port).await {
        Ok((c, notes)) => tell("notifications", notifications(&c, notes).await),
        Err(e) => tell("notifications", Err(e.into())),
    }
}
