package batch

import (
	"strconv"
	"strings"
)

// quote writes foreign text for a message: bounded, ASCII, and without anything that may be a card number.
func quote(text string) string {
	const limit = 40
	text = HideCards(text)
	if len(text) > limit {
		text = text[:limit] + "..."
	}
	return strconv.QuoteToASCII(text)
}

// HideCards replaces every card number in a text: 13 to 19 digits that begin as those of a card scheme do, with a right check
// digit (ISO/IEC 7812-1), spaces and hyphens between them aside.
func HideCards(text string) string {
	var b strings.Builder
	from := 0
	for start, end := range cards(text) {
		b.WriteString(text[from:start])
		b.WriteString("[card number]")
		from = end
	}
	if from == 0 {
		return text
	}
	b.WriteString(text[from:])
	return b.String()
}

// HoldsCard tells whether a text holds a card number.
func HoldsCard(text string) bool {
	for range cards(text) {
		return true
	}
	return false
}

// cards yields where the card numbers of a text begin and end. A number that is a part of a longer word or number, such as
// a token's, is none; groups of digits beside it, such as a card's expiry, are not a part of it.
func cards(text string) func(yield func(start, end int) bool) {
	return func(yield func(start, end int) bool) {
		var groups [][2]int // of digits, one gap at most between each and the next
		flush := func() bool {
			for i := 0; i < len(groups); i++ {
				if last := cardAt(text, groups[i:]); last >= 0 {
					if !yield(groups[i][0], groups[i+last][1]) {
						return false
					}
					i += last
				}
			}
			groups = groups[:0]
			return true
		}
		for i := 0; i < len(text); {
			start := i
			for i < len(text) && isDigit(text[i]) {
				i++
			}
			if i == start {
				i++
				continue
			}
			if n := len(groups); n > 0 && !(start == groups[n-1][1]+1 && isGap(text[start-1])) && !flush() {
				return
			}
			groups = append(groups, [2]int{start, i})
		}
		flush()
	}
}

// cardAt returns the index of the group with which a card number ends that begins with the first group, -1 if none does.
func cardAt(text string, groups [][2]int) int {
	start, digits := groups[0][0], 0
	if start > 0 && isWord(text[start-1]) {
		return -1
	}
	found := -1
	for i, g := range groups {
		if digits += g[1] - g[0]; digits > 19 {
			break
		}
		word := g[1] < len(text) && isWord(text[g[1]])
		if number := text[start:g[1]]; digits >= 13 && !word && ofAScheme(number, digits) && checkDigitIsRight(number) {
			found = i
		}
	}
	return found
}

// ofAScheme tells whether a number begins as those of the card schemes do: with 3 to 6, or, 16 digits long, as Mir's (2200 to
// 2204), Mastercard's second series (2221 to 2720) and Troy's (9792). Every tenth number has a right check digit by chance: an
// order id that is made of a date (20241130...) or a clock (1732968000000) must not be taken for a card because of it.
func ofAScheme(number string, digits int) bool {
	first, n := 0, 0
	for i := 0; n < 4; i++ {
		if isDigit(number[i]) {
			first = 10*first + int(number[i]-'0')
			n++
		}
	}
	switch {
	case first >= 3000 && first <= 6999:
		return true
	case digits != 16:
		return false
	}
	return first >= 2200 && first <= 2204 || first >= 2221 && first <= 2720 || first == 9792
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isGap(c byte) bool { return c == ' ' || c == '-' }

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func checkDigitIsRight(text string) bool {
	sum, n := 0, 0
	for i := len(text) - 1; i >= 0; i-- {
		if !isDigit(text[i]) {
			continue
		}
		d := int(text[i] - '0')
		if n%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		n++
	}
	return sum%10 == 0
}
