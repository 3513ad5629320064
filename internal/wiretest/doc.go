// Package wiretest has servers of which a test controls every byte: it accepts connections on 127.0.0.1, reads requests
// whole, and leaves what is said back, and how the connection ends, to the test. It keeps every request that arrived
// whole, and notices connections that the client never gave back.
//
// It parses and frames by hand and shares no code with net/http, whose faults it is there to show.
package wiretest
