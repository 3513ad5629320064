-- Every name starts with chargeonce_, so that a host can keep its own tables in the same file and commit both at once.
-- Times are microseconds since 1970-01-01 UTC, NULL where there is none.

-- A slot is a row of its own and outlives every attempt: it is what two callers compete for.
CREATE TABLE chargeonce_slots (
    id       INTEGER PRIMARY KEY,
    order_id TEXT NOT NULL,
    account  TEXT NOT NULL,
    purpose  TEXT NOT NULL,
    live     TEXT, -- the id of the slot's live attempt: there is room for one
    UNIQUE (order_id, account, purpose)
) STRICT;

CREATE TABLE chargeonce_attempts (
    seq               INTEGER PRIMARY KEY, -- the order of creation
    id                TEXT NOT NULL UNIQUE,
    slot              INTEGER NOT NULL,    -- chargeonce_slots.id
    ordinal           INTEGER NOT NULL,
    idempotency_key   TEXT NOT NULL,
    reference         TEXT NOT NULL,
    amount            INTEGER NOT NULL,    -- minor units
    currency          TEXT NOT NULL,       -- ISO 4217
    decimals          INTEGER NOT NULL,    -- of the currency when this was written: ISO 4217 has changed some
    source_key        TEXT NOT NULL,
    source_digest     TEXT NOT NULL,
    description       TEXT NOT NULL,
    provider          TEXT NOT NULL,
    provider_account  TEXT NOT NULL,
    environment       TEXT NOT NULL,
    body              BLOB,
    body_digest       TEXT NOT NULL,
    status            TEXT NOT NULL,
    reason            TEXT NOT NULL,
    version           INTEGER NOT NULL,
    created_at        INTEGER,
    updated_at        INTEGER,
    fence             INTEGER NOT NULL,
    claims            TEXT,                -- this and the other texts below: JSON
    first_claim_at    INTEGER,
    sends             INTEGER NOT NULL DEFAULT 0,
    maybe_sends       INTEGER NOT NULL DEFAULT 0,
    last_sent_at      INTEGER,
    refusal           TEXT,
    answer            TEXT,
    charges           TEXT,
    charge_id         TEXT NOT NULL DEFAULT '',
    none_asked_at     TEXT,
    asks              INTEGER NOT NULL DEFAULT 0,
    next_check_at     INTEGER,
    asking_ended_at   INTEGER,
    duties            TEXT,
    UNIQUE (slot, ordinal)
) STRICT;

CREATE TABLE chargeonce_events (
    attempt_id  TEXT NOT NULL,
    version     INTEGER NOT NULL,
    what        TEXT NOT NULL,
    from_status TEXT NOT NULL,
    to_status   TEXT NOT NULL,
    at          INTEGER,
    who         TEXT NOT NULL,
    evidence    TEXT, -- JSON
    duties      TEXT, -- JSON
    PRIMARY KEY (attempt_id, version)
) STRICT, WITHOUT ROWID;

-- The attempts that are not final, and the others that are to be looked at again, by when: few, however many there are in all.
CREATE INDEX chargeonce_open ON chargeonce_attempts (next_check_at)
    WHERE next_check_at IS NOT NULL OR status IN ('prepared', 'sending', 'unknown');
