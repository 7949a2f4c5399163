# Two connections to one database, whose locks are on ranges of its files.
import sqlite3


def connect():
    return sqlite3.connect('database', timeout=0, isolation_level=None)


for mode in ('delete', 'wal'):
    first, second = connect(), connect()
    print(*first.execute(f'pragma journal_mode = {mode}').fetchone())
    first.execute('create table if not exists numbers (number integer)')
    first.execute('begin immediate')
    first.execute('insert into numbers values (1)')
    try:
        second.execute('begin immediate')
    except sqlite3.OperationalError as refused:
        print(refused)
    first.execute('commit')
    print(*second.execute('select count(*) from numbers').fetchone())
    first.close()
    second.close()
