package wiretest

import (
	"fmt"
	"strings"
)

// Answer writes a whole answer with Content-Length. Further header lines may be given.
func Answer(status int, contentType, body string, fields ...string) string {
	return Head(fmt.Sprintf("HTTP/1.1 %03d X", status), append([]string{
		"Content-Type: " + contentType, fmt.Sprintf("Content-Length: %d", len(body)),
	}, fields...)...) + body
}

// Head writes a status line and header lines, and the empty line after them.
func Head(statusLine string, fields ...string) string {
	return strings.Join(append([]string{statusLine}, fields...), "\r\n") + "\r\n\r\n"
}

// Chunk writes one chunk; the empty one is the last.
func Chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
