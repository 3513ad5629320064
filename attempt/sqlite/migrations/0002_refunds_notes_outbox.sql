-- A refund is an attempt in the slot of the charge attempt that it gives back; refund_of is that attempt's id, '' for a charge.
ALTER TABLE chargeonce_attempts ADD COLUMN refund_of     TEXT NOT NULL DEFAULT '';
ALTER TABLE chargeonce_attempts ADD COLUMN refund_charge TEXT NOT NULL DEFAULT ''; -- the provider's charge
ALTER TABLE chargeonce_attempts ADD COLUMN refund_id     TEXT NOT NULL DEFAULT '';
ALTER TABLE chargeonce_attempts ADD COLUMN refund_live   INTEGER NOT NULL DEFAULT 0; -- 1: a refund that is live
ALTER TABLE chargeonce_attempts ADD COLUMN unwanted_at   INTEGER; -- when the order was cancelled
ALTER TABLE chargeonce_attempts ADD COLUMN duties_open   INTEGER NOT NULL DEFAULT 0; -- how many of duties are not met

UPDATE chargeonce_attempts
    SET duties_open = (SELECT count(*) FROM json_each(duties) WHERE value ->> 'met_at' IS NULL)
    WHERE duties IS NOT NULL;

-- chargeonce_slots.live is for payments only.
ALTER TABLE chargeonce_slots ADD COLUMN closed_at  INTEGER; -- when the order was cancelled: no payment starts any more
ALTER TABLE chargeonce_slots ADD COLUMN closed_by  TEXT;
ALTER TABLE chargeonce_slots ADD COLUMN closed_why TEXT;

-- Of one refund at most one attempt is live. By a column of its own and not by the status, so that an index on refunds is no
-- business of a payment whose status changes.
CREATE UNIQUE INDEX chargeonce_live_refunds ON chargeonce_attempts (slot, refund_of, refund_id) WHERE refund_live = 1;

CREATE INDEX chargeonce_owing ON chargeonce_attempts (duties_open) WHERE duties_open > 0;

CREATE INDEX chargeonce_charged ON chargeonce_attempts (charge_id) WHERE charge_id <> '';

-- What happens once, such as a webhook event: the row commits with its effect.
CREATE TABLE chargeonce_notes (
    scope      TEXT NOT NULL,
    id         TEXT NOT NULL,
    attempt_id TEXT NOT NULL, -- '': concerns no attempt, as far as known
    at         INTEGER,
    data       BLOB,
    PRIMARY KEY (scope, id)
) STRICT;

CREATE INDEX chargeonce_orphans ON chargeonce_notes (scope, id) WHERE attempt_id = '';

CREATE INDEX chargeonce_notes_of ON chargeonce_notes (attempt_id, scope, id) WHERE attempt_id <> '';

-- Who is to be told of every event.
CREATE TABLE chargeonce_relays (
    name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- The events of which a relay has not been told. A trigger on chargeonce_events fills it as long as there is a relay.
CREATE TABLE chargeonce_outbox (
    relay       TEXT NOT NULL,
    attempt_id  TEXT NOT NULL,
    version     INTEGER NOT NULL,
    at          INTEGER,
    taken_until INTEGER NOT NULL, -- 0: free; the same in all rows of a relay and an attempt
    PRIMARY KEY (relay, attempt_id, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX chargeonce_undelivered ON chargeonce_outbox (relay, taken_until, at);
