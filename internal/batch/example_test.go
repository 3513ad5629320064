package batch_test

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/chargeonce/chargeonce/internal/batch"
)

// A malformed row is reported and the rest goes on.
func ExampleReader() {
	const file = `order,amount,currency,source
1001,548.90,TRY,tok_visa
1002,12.34,JPY,tok_visa
1003,80,JPY,tok_visa
`
	rows, err := batch.NewReader(strings.NewReader(file), batch.CSV)
	if err != nil {
		fmt.Println(err) // the columns cannot be known: nothing of the file may be sent
		return
	}
	for {
		row, err := rows.Next()
		var refused *batch.RowError
		switch {
		case errors.Is(err, io.EOF):
			return
		case errors.As(err, &refused):
			fmt.Println("refused:", refused)
		case err != nil:
			fmt.Println(err)
			return
		default:
			fmt.Printf("line %d: order %s, %s from %v\n", row.Line, row.Intent.Slot(), row.Intent.Amount, row.Intent.Source)
		}
	}
	// Output:
	// line 2: order 1001, 548.90 TRY from [source]
	// refused: line 3: amount: "12.34": too many decimals: want no decimals and no '.'
	// line 4: order 1003, 80 JPY from [source]
}
