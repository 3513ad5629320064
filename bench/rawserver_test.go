package bench

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"
)

// rawBank serves the bank on a loopback socket with as little as HTTP/1.1 takes, so that what is measured is the clients.
func rawBank(b testing.TB, k *bank) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_ = k.serveConn(conn) // ends when the client closes
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

var errTooLong = errors.New("request too long")

func (k *bank) serveConn(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, 8<<10)
	var body, out []byte
	for {
		length, chunked := 0, false
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return err
			}
			line = bytes.TrimRight(line, "\r\n")
			if len(line) == 0 {
				break
			}
			if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				if length, err = number(v, 10); err != nil {
					return err
				}
			}
			chunked = chunked || bytes.Equal(line, []byte("Transfer-Encoding: chunked"))
		}
		body = body[:0]
		for size := length; ; {
			if chunked {
				line, err := in.ReadSlice('\n')
				if err != nil {
					return err
				}
				if size, err = number(bytes.TrimRight(line, "\r\n"), 16); err != nil {
					return err
				}
			}
			n := len(body)
			if n+size > 1<<20 {
				return errTooLong
			}
			body = append(body, make([]byte, size)...)
			if _, err := io.ReadFull(in, body[n:]); err != nil {
				return err
			}
			if !chunked {
				break
			}
			if _, err := in.Discard(2); err != nil {
				return err
			}
			if size == 0 {
				break
			}
		}
		if k.delay > 0 {
			time.Sleep(k.delay) // the provider at work
		}
		answer := k.answer(body)
		out = append(out[:0], "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: "...)
		out = strconv.AppendInt(out, int64(len(answer)), 10)
		out = append(append(out, "\r\n\r\n"...), answer...)
		if _, err := conn.Write(out); err != nil {
			return err
		}
	}
}

func number(text []byte, base int) (int, error) {
	n, err := strconv.ParseUint(string(text), base, 20)
	return int(n), err //nolint:gosec // at most 20 bits
}
