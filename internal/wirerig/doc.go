// Package wirerig cuts a wire: the real client pays, asks and refunds through a proxy on 127.0.0.1 that passes on a number of
// bytes, as they are on the wire, and then ends both sides, with FIN or with RST, plain or under TLS. Its tests cut one good
// exchange after every byte of the request and after every byte of the answer, handshake included, until an exchange passes
// whole: some 33,000 cuts. They hold what the client says against the provider's ledger: see [check] in the tests.
//
//	go test ./internal/wirerig                    every byte, about half a minute
//	go test ./internal/wirerig -short             under TLS not every byte of the handshake, some seconds
//	go test ./internal/wirerig -v -cut.sample     the same, said by its own name
package wirerig
