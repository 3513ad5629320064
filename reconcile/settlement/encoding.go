package settlement

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// encodingError says that a file is not in the encoding that its profile declares.
type encodingError struct{ reason string }

func (e *encodingError) Error() string { return e.reason }

var utf8BOM = []byte("\ufeff")

// decode returns the file as UTF-8 without byte order mark. UTF-8 itself goes through unchanged: whoever splits it into
// lines sees where it is not valid.
func decode(in io.Reader, e Encoding) (io.Reader, error) {
	head := make([]byte, 3)
	n, err := io.ReadFull(in, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	head = head[:n]
	rest := io.MultiReader(bytes.NewReader(head), in)
	found := Encoding("")
	switch {
	case bytes.HasPrefix(head, utf8BOM):
		found = UTF8BOM
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		found = UTF16
	}
	if found != "" && found != e {
		return nil, &encodingError{fmt.Sprintf("begins with the byte order mark of %s, the profile says %s", found, e)}
	}
	if found == "" && (e == UTF8BOM || e == UTF16) {
		return nil, &encodingError{fmt.Sprintf("begins without a byte order mark, the profile says %s", e)}
	}
	switch e {
	case UTF8BOM:
		return io.MultiReader(bytes.NewReader(head[3:]), in), nil
	case UTF16:
		d := &utf16Decoder{in: io.MultiReader(bytes.NewReader(head[2:]), in), high: 0}
		if head[0] == 0xff {
			d.high = 1
		}
		return d, nil
	case UTF16LE:
		return &utf16Decoder{in: rest, high: 1}, nil
	case UTF16BE:
		return &utf16Decoder{in: rest, high: 0}, nil
	case ISO88591:
		return &byteDecoder{in: rest, encoding: e, table: &latin1}, nil
	case Windows1252:
		return &byteDecoder{in: rest, encoding: e, table: &windows1252}, nil
	}
	return rest, nil
}

// byteDecoder reads an encoding of one byte per character.
type byteDecoder struct {
	in       io.Reader
	encoding Encoding
	table    *[256]rune // zero: no character
	raw      [16 << 10]byte
	out      []byte // not yet given out
	room     []byte
	err      error
}

func (d *byteDecoder) Read(to []byte) (int, error) {
	for len(d.out) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		var n int
		n, d.err = d.in.Read(d.raw[:])
		d.room = d.room[:0]
		for _, c := range d.raw[:n] {
			r := d.table[c]
			if r == 0 && c != 0 {
				d.err = &encodingError{fmt.Sprintf("byte 0x%02x is no character of %s", c, d.encoding)}
				break
			}
			d.room = utf8.AppendRune(d.room, r)
		}
		d.out = d.room
	}
	n := copy(to, d.out)
	d.out = d.out[n:]
	return n, nil
}

// latin1 is ISO/IEC 8859-1 without the controls of ISO/IEC 6429 that nobody writes into reports.
var latin1 = byteTable([32]rune{})

// windows1252 is the WHATWG encoding standard's index windows-1252, without the five bytes that it takes for controls.
var windows1252 = byteTable([32]rune{
	0x20ac, 0, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017d, 0,
	0, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0, 0x017e, 0x0178,
})

func byteTable(from0x80 [32]rune) (t [256]rune) {
	for i := range t {
		t[i] = rune(i)
	}
	copy(t[0x80:], from0x80[:])
	return t
}

// utf16Decoder reads UTF-16 (RFC 2781).
type utf16Decoder struct {
	in   io.Reader
	high int // which byte of two is the high one
	raw  [16 << 10]byte
	kept int // bytes of raw left over from the last read: half a character
	out  []byte
	room []byte
	err  error
}

func (d *utf16Decoder) Read(to []byte) (int, error) {
	for len(d.out) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		n, err := d.in.Read(d.raw[d.kept:])
		d.err = err
		d.convert(d.raw[:d.kept+n])
	}
	n := copy(to, d.out)
	d.out = d.out[n:]
	return n, nil
}

func (d *utf16Decoder) convert(raw []byte) {
	d.room = d.room[:0]
	i := 0
	for ; i+1 < len(raw); i += 2 {
		r := rune(raw[i+d.high])<<8 | rune(raw[i+1-d.high])
		if utf16.IsSurrogate(r) {
			if i+3 >= len(raw) {
				break
			}
			if r = utf16.DecodeRune(r, rune(raw[i+2+d.high])<<8|rune(raw[i+3-d.high])); r == utf8.RuneError {
				d.err = &encodingError{"half a character of UTF-16"}
				i = len(raw)
				break
			}
			i += 2
		}
		d.room = utf8.AppendRune(d.room, r)
	}
	d.out = d.room
	d.kept = copy(d.raw[:], raw[i:])
	if d.kept > 0 && errors.Is(d.err, io.EOF) {
		d.err = &encodingError{"ends within a character of UTF-16"}
	}
}
