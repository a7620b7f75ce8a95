package recipes

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func connect(t *testing.T) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func sum(t *testing.T, c *pgx.Conn) string {
	t.Helper()
	var found string
	row := c.QueryRow(context.Background(), "SELECT sum(balance)::text FROM account")
	if err := row.Scan(&found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestMoneyMoves(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t), context.Background()
	err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE account SET balance = balance - $1 WHERE owner = 'Ann'", 30); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE account SET balance = balance + $1 WHERE owner = 'Bob'", 30)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found := sum(t, c); found != "120.50" {
		t.Fatal(found)
	}
}

func TestNobodyOwes(t *testing.T) {
	t.Parallel()
	tooMuch := "UPDATE account SET balance = balance - 1000 WHERE owner = 'Ann'"
	_, err := connect(t).Exec(context.Background(), tooMuch)
	var told *pgconn.PgError
	if !errors.As(err, &told) || told.Code != "23514" {
		t.Fatal(err)
	}
}

func TestOthersChangesAreNotHere(t *testing.T) {
	for turn := range 20 {
		t.Run(fmt.Sprint(turn), func(t *testing.T) {
			t.Parallel()
			c := connect(t)
			if found := sum(t, c); found != "120.50" {
				t.Fatal(found)
			}
			if _, err := c.Exec(context.Background(), "DELETE FROM account"); err != nil {
				t.Fatal(err)
			}
		})
	}
}
