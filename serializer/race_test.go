//go:build race

package serializer_test

// The race detector makes sync.Pool forget at random.
const racing = true
