// Command soak pays for a long time and watches what grows: the real client and the real reconciler on one store, at a fake
// provider in a process of its own, of whose answers 20 % are faults. Heap, goroutines, descriptors, bytes per payment in
// SQLite's files and the age of the oldest payment that nobody knows are sampled, and told as slopes (least squares). It fails when a
// slope is above its bound, when a payment is charged twice, or when one stays unknown after the faults have stopped.
//
//	go run ./internal/soak -for 10m
//	go run ./internal/soak -for 8h -store memory
//	go run ./internal/soak -for 8h -store postgres -db postgres://...   makes a schema soak_..., and leaves it
package main
