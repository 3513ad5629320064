-- needs: 2
-- A refund is an attempt in the slot of the charge attempt that it gives back; refund_of is that attempt's id, NULL for a charge.
ALTER TABLE {schema}.chargeonce_attempts
    ADD COLUMN refund_of     uuid,
    ADD COLUMN refund_charge text COLLATE "C" NOT NULL DEFAULT '', -- the provider's charge
    ADD COLUMN refund_id     text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN unwanted_at   timestamptz,                  -- when the order was cancelled
    ADD COLUMN duties_open   integer NOT NULL DEFAULT 0;   -- how many of duties are not met

UPDATE {schema}.chargeonce_attempts
    SET duties_open = (SELECT count(*) FROM json_array_elements(duties) AS d WHERE d ->> 'met_at' IS NULL)
    WHERE duties IS NOT NULL;

-- chargeonce_slots.live is for payments only.
ALTER TABLE {schema}.chargeonce_slots
    ADD COLUMN closed_at  timestamptz, -- when the order was cancelled: no payment starts any more
    ADD COLUMN closed_by  text COLLATE "C",
    ADD COLUMN closed_why text COLLATE "C";

-- Of one refund at most one attempt is live.
CREATE UNIQUE INDEX chargeonce_live_refunds ON {schema}.chargeonce_attempts (slot, refund_of, refund_id)
    WHERE refund_of IS NOT NULL AND status IN ('prepared', 'sending', 'unknown', 'approved');

CREATE INDEX chargeonce_owing ON {schema}.chargeonce_attempts (seq) WHERE duties_open > 0;

CREATE INDEX chargeonce_charged ON {schema}.chargeonce_attempts (charge_id) WHERE charge_id <> '';

-- What happens once, such as a webhook event: the row commits with its effect.
CREATE TABLE {schema}.chargeonce_notes (
    scope      text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    attempt_id uuid, -- NULL: concerns no attempt, as far as known
    at         timestamptz,
    data       bytea,
    PRIMARY KEY (scope, id)
);

CREATE INDEX chargeonce_orphans ON {schema}.chargeonce_notes (scope, id) WHERE attempt_id IS NULL;

CREATE INDEX chargeonce_notes_of ON {schema}.chargeonce_notes (attempt_id, scope, id) WHERE attempt_id IS NOT NULL;

-- Who is to be told of every event.
CREATE TABLE {schema}.chargeonce_relays (
    name text COLLATE "C" PRIMARY KEY
);

-- The events of which a relay has not been told. The statement that writes an event fills it.
CREATE TABLE {schema}.chargeonce_outbox (
    relay       text COLLATE "C" NOT NULL,
    attempt_id  uuid NOT NULL,
    version     integer NOT NULL,
    at          timestamptz,
    taken_until timestamptz, -- of an attempt's first row: until then the attempt is taken; NULL: free
    PRIMARY KEY (relay, attempt_id, version)
);

CREATE INDEX chargeonce_undelivered ON {schema}.chargeonce_outbox (relay, at, attempt_id);
