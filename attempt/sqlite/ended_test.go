package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

// A statement of the host's that ends its transaction must not make the attempt commit by itself.
func TestAnEndedTransactionTakesNoStep(t *testing.T) {
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		s := testStore(t, testFile(t), Options{})
		started := false
		err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, end); err != nil {
				t.Fatal(err)
			}
			step := &attempt.Step{Slot: attempt.Slot{Order: "1001", Purpose: attempt.PurposeCharge}, Do: func(attempt.View) ([]attempt.Write, error) {
				started = true
				return nil, nil
			}}
			return s.Tx(tx).ApplyTx(ctx, step)
		})
		if !errors.Is(err, attempt.ErrUnavailable) || started {
			t.Errorf("after %s: %v, step run: %t; want ErrUnavailable, and no step", end, err, started)
		}
	}
}
