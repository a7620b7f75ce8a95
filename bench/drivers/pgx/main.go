// pgx 5: what a program does with it. Prints a line for each exercise.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(ok bool, what any) {
	if !ok {
		panic(fmt.Sprint("unexpected: ", what))
	}
}

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

var background = context.Background()

func exec(c *pgx.Conn, text string, args ...any) {
	_, err := c.Exec(background, text, args...)
	must(err)
}

func types(c *pgx.Conn) {
	now := time.UnixMicro(1e15).UTC()
	for kind, value := range map[string]any{
		"boolean": true, "int2": int16(-5), "int4": int32(7), "int8": int64(-1 << 63), "float8": 1.5,
		"text": "é😀", "timestamptz": now, "uuid": [16]byte{1, 2},
	} {
		rows, err := c.Query(background, "SELECT $1::"+kind, value)
		must(err)
		got, err := pgx.CollectOneRow(rows, func(r pgx.CollectableRow) (any, error) {
			all, err := r.Values()
			return all[0], err
		})
		must(err)
		if t, is := got.(time.Time); is {
			got = t.UTC()
		}
		expect(got == value, got)
	}
	var numbers []int32
	var texts []string
	must(c.QueryRow(background, "SELECT $1::int[], $2::text[]", []int32{1, 2}, []string{"a,b", ""}).Scan(&numbers, &texts))
	expect(len(numbers) == 2 && texts[0] == "a,b", texts)
}

func transactions(c *pgx.Conn) {
	exec(c, "CREATE TABLE pgx_t (a int PRIMARY KEY)")
	defer exec(c, "DROP TABLE pgx_t")
	tx, err := c.Begin(background)
	must(err)
	_, err = tx.Exec(background, "INSERT INTO pgx_t VALUES (1)")
	must(err)
	part, err := tx.Begin(background)
	must(err)
	_, err = part.Exec(background, "INSERT INTO pgx_t VALUES (1)")
	expect(code(err) == "23505", err)
	must(part.Rollback(background))
	must(tx.Commit(background))
	_, err = c.Exec(background, "INSERT INTO pgx_t VALUES (1)")
	var e *pgconn.PgError
	expect(errors.As(err, &e) && e.TableName == "pgx_t" && e.ConstraintName == "pgx_t_pkey", err)
}

func batches(c *pgx.Conn) {
	exec(c, "CREATE TABLE pgx_b (a int PRIMARY KEY)")
	defer exec(c, "DROP TABLE pgx_b")
	batch := &pgx.Batch{}
	for i := 0; i < 500; i++ {
		batch.Queue("INSERT INTO pgx_b VALUES ($1)", i)
	}
	must(c.SendBatch(background, batch).Close())
	batch = &pgx.Batch{}
	batch.Queue("INSERT INTO pgx_b VALUES (1000)")
	batch.Queue("INSERT INTO pgx_b VALUES (1)")
	expect(code(c.SendBatch(background, batch).Close()) == "23505", "no error")
	var n int
	must(c.QueryRow(background, "SELECT count(*) FROM pgx_b").Scan(&n))
	expect(n == 500, n)
}

func copying(c *pgx.Conn) {
	exec(c, "CREATE TABLE pgx_c (a int, b text, c timestamptz)")
	defer exec(c, "DROP TABLE pgx_c")
	rows := [][]any{{1, "x", time.Now()}, {2, nil, nil}}
	n, err := c.CopyFrom(background, pgx.Identifier{"pgx_c"}, []string{"a", "b", "c"}, pgx.CopyFromRows(rows))
	must(err)
	expect(n == 2, n)
}

func copyingText(c *pgx.Conn) {
	exec(c, "CREATE TABLE pgx_d (a int, b text)")
	defer exec(c, "DROP TABLE pgx_d")
	low := c.PgConn()
	_, err := low.CopyFrom(background, strings.NewReader("1\tx\n2\t\\N\n"), "COPY pgx_d FROM STDIN")
	must(err)
	_, err = low.CopyFrom(background, strings.NewReader("y\tx\n"), "COPY pgx_d FROM STDIN")
	expect(code(err) == "22P02", err)
	out := &strings.Builder{}
	_, err = low.CopyTo(background, out, "COPY pgx_d TO STDOUT")
	must(err)
	expect(out.String() == "1\tx\n2\t\\N\n", out.String())
}

func cancelling(c *pgx.Conn) {
	short, stop := context.WithTimeout(background, 200*time.Millisecond)
	defer stop()
	_, err := c.Exec(short, "SELECT pg_sleep(20)")
	expect(err != nil && pgconn.Timeout(err), err)
}

func notifications(c *pgx.Conn) {
	exec(c, "LISTEN pgx_ch")
	exec(c, "NOTIFY pgx_ch, 'hi'")
	short, stop := context.WithTimeout(background, 3*time.Second)
	defer stop()
	n, err := c.WaitForNotification(short)
	must(err)
	expect(n.Payload == "hi", n.Payload)
}

func plansChange(c *pgx.Conn) {
	exec(c, "CREATE TABLE pgx_p (a int)")
	defer exec(c, "DROP TABLE pgx_p")
	for i := 0; i < 3; i++ {
		rows, err := c.Query(background, "SELECT * FROM pgx_p")
		must(err)
		rows.Close()
		must(rows.Err())
	}
	exec(c, "ALTER TABLE pgx_p ADD b int")
	rows, err := c.Query(background, "SELECT * FROM pgx_p")
	must(err)
	rows.Close()
	expect(rows.Err() == nil || code(rows.Err()) == "0A000", rows.Err())
	rows, err = c.Query(background, "SELECT * FROM pgx_p")
	must(err)
	rows.Close()
	must(rows.Err())
}

func main() {
	for _, e := range []struct {
		name string
		f    func(*pgx.Conn)
	}{
		{"types", types}, {"transactions", transactions}, {"batches", batches}, {"copying", copying},
		{"copyingText", copyingText}, {"cancelling", cancelling}, {"notifications", notifications},
		{"plansChange", plansChange},
	} {
		func() {
			defer func() {
				if r := recover(); r != nil {
					fmt.Printf("FAIL %s: %v\n", e.name, r)
				}
			}()
			c, err := pgx.Connect(background, "postgres://postgres@127.0.0.1:"+os.Args[1]+"/postgres?sslmode=disable")
			must(err)
			defer c.Close(background)
			e.f(c)
			fmt.Println("ok", e.name)
		}()
	}
}
