package batch

import (
	"errors"
	"fmt"
	"strings"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// parse reads all fields into the intent and reports everything that is wrong with them.
//
// What only a new payment may not be, a currency that was withdrawn for instance, is no business of the reader: the row may
// ask about a payment made long ago.
func (f *fields) parse(i *attempt.Intent, cardLikeOrders bool) []Problem {
	var problems []Problem
	wrong := func(column int, reason string) {
		problems = append(problems, Problem{Field: columnNames[column], Reason: reason})
	}
	// invalid reports what a check of package attempt says about one field; it names the field itself.
	invalid := func(column int, err error) {
		if err != nil {
			wrong(column, strings.TrimPrefix(err.Error(), columnNames[column]+": "))
		}
	}
	i.Order, i.Account, i.Purpose = f.value[colOrder], f.value[colAccount], f.value[colPurpose]
	i.Description = f.value[colDescription]
	i.Source = attempt.Token(f.value[colSource])

	// noCard checks a text that is stored, sent and shown: a card number in it would be, too.
	noCard := func(column int, err error) {
		if HoldsCard(f.value[column]) {
			err = errors.New("holds what looks like a card number, which would be stored and shown")
			if column == colOrder {
				err = fmt.Errorf("%w (card_like_orders = true takes a shop's own numbers)", err)
			}
		}
		invalid(column, err)
	}
	if order := f.value[colOrder]; cardLikeOrders && strings.Trim(order, "0123456789") == "" {
		invalid(colOrder, attempt.Slot{Order: i.Order}.Validate())
	} else {
		noCard(colOrder, attempt.Slot{Order: i.Order}.Validate())
	}
	noCard(colAccount, attempt.Slot{Order: "x", Account: i.Account}.Validate())
	noCard(colPurpose, attempt.Slot{Order: "x", Purpose: i.Purpose}.Validate())

	switch amount, err := money.RestoreDecimal(f.value[colAmount], f.value[colCurrency]); {
	case f.value[colAmount] == "" || f.value[colCurrency] == "":
		for _, column := range [...]int{colAmount, colCurrency} {
			if f.value[column] == "" {
				wrong(column, "empty")
			}
		}
	case errors.Is(err, money.ErrUnknownCurrency), errors.Is(err, money.ErrNoMinorUnit):
		wrong(colCurrency, moneyReason(f.value[colCurrency], err))
	case err != nil:
		wrong(colAmount, moneyReason(f.value[colAmount], err))
	case amount.Minor() <= 0:
		wrong(colAmount, fmt.Sprintf("%s is not positive", amount))
	default:
		i.Amount = amount
	}

	if HoldsCard(f.value[colSource]) {
		wrong(colSource, "holds a card number, want a token")
	} else {
		invalid(colSource, i.Source.Validate())
	}
	noCard(colDescription, validDescription(i.Description))
	return problems
}

// moneyReason is the error's own reason, without the text that it quotes in full.
func moneyReason(text string, err error) string {
	var e *money.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	return fmt.Sprintf("%s: %v: want %s", quote(text), e.Err, e.Want)
}

// validDescription asks package attempt about a description alone, by an intent in which all else is in order.
func validDescription(text string) error {
	return attempt.Intent{
		Order: "x", Amount: probeAmount, Source: attempt.Token("x"), Description: text,
	}.Validate()
}

var probeAmount = money.MustParse("1.00", "EUR")
