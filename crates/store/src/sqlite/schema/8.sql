-- The figures that judicators keep of each minute (`model::ActivityFigures`). A minute has one row for each process that has
-- written figures of it; what they count is added up when it is read.
CREATE TABLE figures (
    minute INTEGER NOT NULL,
    writer BLOB NOT NULL,
    figures BLOB NOT NULL,
    PRIMARY KEY (minute, writer)
) STRICT, WITHOUT ROWID;
