-- An attempt that becomes unknown gets a job in the same transaction, due when the provider is to be asked.
--
-- Whatever goes wrong here must not keep an outcome from being stored: an error of any kind, River's table locked for longer than
-- a moment included, leaves the attempt without a job, and the sweep finds it.
CREATE OR REPLACE FUNCTION {schema}.chargeonce_river_job() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '100ms'
    AS $chargeonce$
DECLARE
    wanted jsonb := jsonb_build_object('attempt_id', NEW.id);
    -- As River makes it of a job's kind and arguments, so that a job that a host inserts is the same one.
    key bytea := sha256(convert_to('&kind=' || {kind} || '&args={"attempt_id":"' || NEW.id || '"}', 'UTF8'));
BEGIN
    -- Looked for first: a conflict would wait for whoever is changing that job at the moment.
    IF NOT EXISTS (SELECT FROM {river}.river_job j WHERE j.unique_key = key AND j.unique_states IS NOT NULL
            AND {river}.river_job_state_in_bitmask(j.unique_states, j.state)) THEN
        INSERT INTO {river}.river_job (kind, args, queue, priority, state, scheduled_at, max_attempts, unique_key, unique_states)
            VALUES ({kind}, wanted, {queue}, {priority},
                CASE WHEN NEW.next_check_at > clock_timestamp() THEN 'scheduled' ELSE 'available' END::{river}.river_job_state,
                NEW.next_check_at, 25, key,
                B'11110001') -- unique while it is scheduled, running, retryable, pending or available, in the order of the bits
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'chargeonce: no River job for attempt %: % (%)', NEW.id, SQLERRM, SQLSTATE;
    RETURN NULL;
END
$chargeonce$;

DO $chargeonce$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = {attempts}::regclass AND tgname = 'chargeonce_river_inserted') THEN
        CREATE TRIGGER chargeonce_river_inserted AFTER INSERT ON {schema}.chargeonce_attempts FOR EACH ROW
            WHEN (NEW.status = 'unknown' AND NEW.next_check_at IS NOT NULL)
            EXECUTE FUNCTION {schema}.chargeonce_river_job();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = {attempts}::regclass AND tgname = 'chargeonce_river_updated') THEN
        CREATE TRIGGER chargeonce_river_updated AFTER UPDATE OF status ON {schema}.chargeonce_attempts FOR EACH ROW
            WHEN (NEW.status = 'unknown' AND NEW.next_check_at IS NOT NULL AND OLD.status <> 'unknown')
            EXECUTE FUNCTION {schema}.chargeonce_river_job();
    END IF;
END
$chargeonce$;
