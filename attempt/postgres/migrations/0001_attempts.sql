-- needs: 1
-- Every name starts with chargeonce_, so that the schema may be one that the host keeps other tables in.
-- Texts are compared byte by byte ("C"): orders that merely look alike are two.

-- A slot is a row of its own and outlives every attempt: it is what two callers compete for, and every step locks it first.
CREATE TABLE {schema}.chargeonce_slots (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id text COLLATE "C" NOT NULL,
    account  text COLLATE "C" NOT NULL,
    purpose  text COLLATE "C" NOT NULL,
    live     uuid, -- the id of the slot's live attempt: there is room for one
    UNIQUE (order_id, account, purpose)
);

CREATE TABLE {schema}.chargeonce_attempts (
    seq               bigint GENERATED ALWAYS AS IDENTITY UNIQUE, -- the order of creation
    id                uuid PRIMARY KEY,
    slot              bigint NOT NULL,  -- chargeonce_slots.id
    ordinal           integer NOT NULL,
    idempotency_key   text COLLATE "C" NOT NULL,
    reference         text COLLATE "C" NOT NULL,
    amount            bigint NOT NULL,  -- minor units
    currency          text COLLATE "C" NOT NULL, -- ISO 4217
    decimals          integer NOT NULL, -- of the currency when this was written: ISO 4217 has changed some
    source_key        text COLLATE "C" NOT NULL,
    source_digest     text COLLATE "C" NOT NULL,
    description       text COLLATE "C" NOT NULL,
    provider          text COLLATE "C" NOT NULL,
    provider_account  text COLLATE "C" NOT NULL,
    environment       text COLLATE "C" NOT NULL,
    body              bytea,
    body_digest       text COLLATE "C" NOT NULL,
    status            text COLLATE "C" NOT NULL,
    reason            text COLLATE "C" NOT NULL,
    version           integer NOT NULL,
    created_at        timestamptz,
    updated_at        timestamptz,
    fence             integer NOT NULL,
    claims            json,
    first_claim_at    timestamptz,
    sends             integer NOT NULL DEFAULT 0,
    maybe_sends       integer NOT NULL DEFAULT 0,
    last_sent_at      timestamptz,
    refusal           json,
    answer            json,
    charges           json,
    charge_id         text COLLATE "C" NOT NULL DEFAULT '',
    none_asked_at     json,
    asks              integer NOT NULL DEFAULT 0,
    next_check_at     timestamptz,
    asking_ended_at   timestamptz,
    duties            json,
    UNIQUE (slot, ordinal)
);

CREATE TABLE {schema}.chargeonce_events (
    attempt_id  uuid NOT NULL,
    version     integer NOT NULL,
    what        text COLLATE "C" NOT NULL,
    from_status text COLLATE "C" NOT NULL,
    to_status   text COLLATE "C" NOT NULL,
    at          timestamptz,
    who         text COLLATE "C" NOT NULL,
    evidence    json,
    duties      json,
    PRIMARY KEY (attempt_id, version)
);

-- The attempts that are not final, and the others that are to be looked at again, by when: few, however many there are in all.
CREATE INDEX chargeonce_open ON {schema}.chargeonce_attempts (next_check_at)
    WHERE next_check_at IS NOT NULL OR status IN ('prepared', 'sending', 'unknown');
