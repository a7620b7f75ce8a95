import psycopg
import pytest


@pytest.fixture
def connection(database):
    with psycopg.connect(database) as connection:
        yield connection


def test_money_moves(connection):
    with connection.transaction():
        connection.execute("UPDATE account SET balance = balance - 30 WHERE owner = 'Ann'")
        connection.execute("UPDATE account SET balance = balance + 30 WHERE owner = 'Bob'")
    found = connection.execute("SELECT balance::text FROM account ORDER BY owner").fetchall()
    assert found == [("70.00",), ("50.50",)]


def test_nobody_owes(connection):
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("UPDATE account SET balance = balance - 1000 WHERE owner = 'Ann'")


@pytest.mark.parametrize("turn", range(20))
def test_others_changes_are_not_here(connection, turn):
    assert connection.execute("SELECT sum(balance)::text FROM account").fetchone() == ("120.50",)
    connection.execute("DELETE FROM account")
    connection.commit()
